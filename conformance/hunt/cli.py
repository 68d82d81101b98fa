"""The command `kubesched-conformance hunt`."""

from __future__ import annotations

import concurrent.futures
import itertools
import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from ..clock import RealClock
from ..errors import InputError
from ..fuzz.campaign import executor_of
from ..options import SuiteCommand, given_by, options_of, takes
from ..reports.json_file import write_json
from ..targets import target_kind
from ..targets.options import seed_option, target_options
from ..targets.target import TargetOptions
from .confirm import Finding, Order, confirm
from .placements import placement_worlds
from .search import LANES, Explored, Find, Task, explore
from .world import pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

_option = options_of("Options")
#: The worlds of a task in virtual time, and the longest time of a task, also in real time.
_WORLDS: Final = 200
_SECONDS: Final = {False: 120.0, True: 60.0}
#: The share of the budget for our scheduler, if another one is under test; and for all searches.
_OURS: Final = 0.15
_SEARCHES: Final = 0.7
#: The tables of successive tasks: those without gates, of devices, and of groups.
_TURNS: Final = (0, 1, 0, 2, 0, 1)
#: The least time for all confirmations, and for shrinking one find.
_CONFIRM_SECONDS_MIN: Final = 60.0
_SHRINK_SECONDS_MIN: Final = 60.0
#: The processes that wait for targets.
_CONFIRMERS: Final = 8


class HuntOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    target: TargetOptions = given_by(target_options)
    also: tuple[str, ...] = _option(
        "--also",
        metavar="CMD",
        multiple=True,
        help="Another scheduler to run each finding on, as --target-command. May be repeated.",
    )
    seed: int = given_by(seed_option)
    budget_seconds: float = _option(
        "--budget",
        "budget_seconds",
        metavar="SECONDS",
        type=click.FloatRange(min=1),
        default=3600.0,
        show_default=True,
        help="The time for search and confirmation; an hour on two cores covers each pair often.",
    )
    workers: int = _option(
        "--workers",
        metavar="N",
        type=click.IntRange(min=0),
        default=os.cpu_count() or 1,
        help="The number of processes that search, by default one per core; 0 means this process.",
    )
    output: Path = _option(
        "--output",
        "-o",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("findings"),
        show_default=True,
        help="The directory for findings.json, coverage.json and the cases.",
    )
    lists: bool = _option("--list", help="Print the pairs of reason and remedy, and run nothing.")


@click.command(cls=SuiteCommand)
@takes(HuntOptions)
def hunt(options: HuntOptions) -> None:
    """Search for lost wake-ups and broken promises, and write each as a case.

    The search runs in our scheduler in virtual time and, with --target-command, in that scheduler
    in real time, many worlds at once. Each find is run anew on the target by itself.

    Exit status: 0 if nothing was confirmed, 1 if something was, 2 for invalid input.
    """
    if options.lists:
        for pair in [*pairs(), *placement_worlds()]:
            click.echo(str(pair))
        click.echo("left out: reasons of Permit, as kube-scheduler has no plugin that waits there")
        return
    if options.target.kubeconfig:
        raise InputError("--kubeconfig: hunt needs an API server of its own")
    target_kind(options.target)
    run = _Hunt(options)
    run.search()
    findings = run.confirmed()
    run.report(findings)
    if any(finding.confirmed for finding in findings):
        raise SystemExit(1)


class _Hunt:
    """One run of the command."""

    def __init__(self, options: HuntOptions) -> None:
        self._options = options
        self._clock = RealClock()
        self._started = self._clock.monotonic()
        self._finds: dict[tuple[str, str], list[Find]] = {}
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._notes: dict[str, str] = {}
        self._errors: list[str] = []
        try:
            options.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--output: {options.output}: {error.strerror}") from error

    def search(self) -> None:
        """Run worlds until the share of the budget for searches is over."""
        options = self._options
        share = _SEARCHES * options.budget_seconds
        with executor_of("", options.workers) as pool:
            if options.target.command:
                self._search_on(TargetOptions(), pool, until=_OURS * share)
            self._search_on(options.target, pool, until=share)

    def _search_on(
        self, target: TargetOptions, pool: concurrent.futures.Executor, *, until: float
    ) -> None:
        tasks = self._tasks(target, until)
        waiting: set[concurrent.futures.Future[bytes]] = set()
        while self._seconds < until or waiting:
            while len(waiting) < max(1, self._options.workers) and self._seconds < until:
                waiting.add(pool.submit(explore, msgspec.json.encode(next(tasks))))
            done, waiting = concurrent.futures.wait(
                waiting, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for future in done:
                self._add(msgspec.json.decode(future.result(), type=Explored), target)

    def _tasks(self, target: TargetOptions, until: float) -> Iterator[Task]:
        """Yield tasks of the tables in turns, each with the next worlds of its table."""
        real = target.in_real_time
        # In real time a task ends by its time: the next one begins after a guess of its worlds.
        step = 20 * LANES if real else _WORLDS
        starts = Counter[int]()
        for table in itertools.cycle(_TURNS):
            yield Task(
                target=target,
                seed=self._options.seed,
                start=starts[table],
                stop=starts[table] + step,
                table=table,
                seconds=min(_SECONDS[real], max(5.0, until - self._seconds)),
            )
            starts[table] += step

    @property
    def _seconds(self) -> float:
        return self._clock.monotonic() - self._started

    def _add(self, explored: Explored, target: TargetOptions) -> None:
        for pair, verdicts in explored.counts.items():
            self._counts[pair].update(verdicts)
        self._notes |= explored.notes
        self._errors += explored.errors
        for find in explored.finds:
            key = find.promise, str(find.world.pair)
            if key not in self._finds:
                click.echo(f"found: {find.promise}: {find.world.pair}: {find.text}")
            self._finds.setdefault(key, []).append(find)
        worlds = sum(counts.total() for counts in self._counts.values())
        name = "the target" if target.in_real_time else "our scheduler"
        click.echo(
            f"{self._seconds:.0f}s: {worlds} worlds so far, now in {name}; "
            f"{len(self._finds)} pairs with a find",
            err=True,
        )

    def confirmed(self) -> list[Finding]:
        """Run each find anew on the target, several at once, until the budget is over."""
        options = self._options
        others = {
            command: TargetOptions(command=command, quiet_seconds=options.target.quiet_seconds)
            for command in options.also
        }
        chosen = [_simplest(finds) for finds in self._finds.values()]
        left = max(_CONFIRM_SECONDS_MIN, options.budget_seconds - self._seconds)
        findings = []
        in_real_time = options.target.in_real_time or bool(others)
        workers = _CONFIRMERS if in_real_time else max(1, options.workers)
        with executor_of("", workers) as pool:
            futures = []
            for number, find in enumerate(chosen, 1):
                path = options.output / f"{_slug(find, number)}.yaml"
                order = Order(
                    find=find,
                    target=options.target,
                    others=others,
                    path=str(path),
                    seconds=max(_SHRINK_SECONDS_MIN, left * workers / len(chosen) / 2),
                )
                futures.append(pool.submit(confirm, msgspec.json.encode(order)))
            for future in concurrent.futures.as_completed(futures):
                try:
                    finding = msgspec.json.decode(future.result(), type=Finding)
                except Exception as error:  # noqa: BLE001 - one find is lost, not the run
                    self._errors.append(f"confirming: {type(error).__name__}: {error}")
                    continue
                findings.append(finding)
                self._write("findings", findings)  # kept if the run is ended
                click.echo(f"{finding.kind}: {finding.promise}: {finding.pair}: {finding.case}")
        return sorted(findings, key=lambda each: (each.kind, each.promise, each.pair))

    def report(self, findings: list[Finding]) -> None:
        """Write the files, and print the summary."""
        options = self._options
        rows: dict[str, dict[str, int | str]] = {}
        worlds = 0
        for pair in [*pairs(), *placement_worlds()]:
            counts = self._counts[str(pair)]
            built = sum(counts[verdict] for verdict in ("woken", "lost", "unplaced"))
            worlds += counts.total()
            rows[str(pair)] = {"worlds": counts.total(), "built": built, **counts}
            if not built:
                rows[str(pair)]["note"] = self._notes.get(str(pair), "not reached")
        self._write("findings", findings)
        self._write("coverage", {"pairs": rows, "errors": self._errors})
        notes = {name: row["note"] for name, row in rows.items() if "note" in row}
        for name, note in notes.items():
            click.echo(f"not built: {name}: {note}")
        real = sum(finding.confirmed for finding in findings)
        click.echo(
            f"{worlds} worlds, {len(rows) - len(notes)} of {len(rows)} pairs, {real} findings "
            f"confirmed, {len(findings) - real} listed apart, seed {options.seed}, "
            f"{self._seconds:.0f}s"
        )

    def _write(self, name: str, content: object) -> None:
        write_json(self._options.output / f"{name}.json", content, indent=1)


def _simplest(finds: list[Find]) -> Find:
    """Return the find with the fewest variations and the smallest case."""
    return min(
        finds,
        key=lambda each: (len(each.world.variations), len(msgspec.json.encode(each.world.raw))),
    )


def _slug(find: Find, number: int) -> str:
    words = f"{find.promise} {find.world.pair.reason} {find.world.pair.remedy}".lower()
    text = "-".join("".join(c if c.isalnum() else " " for c in words).split())
    return f"{text[:80].rstrip('-')}-{number}"
