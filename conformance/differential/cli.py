"""The command `kubesched-conformance diff`.

Exit status: 0 if both sides decide alike in all scenarios, but for chance between equally good
nodes, and at least one scenario ran; else 1; 2 for invalid input, with one line; 130 after Ctrl-C,
with the scenarios until then.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec
from rich.console import Console

from ..clock import RealClock
from ..errors import InputError
from ..format.case import BUILT_IN, load_cases
from ..format.selection import select
from ..options import PATH, SuiteCommand, given_by, options_of, takes
from ..replay.history import read_history
from ..reports.json_file import write_json
from ..reports.terminal import output_console, progress_bar
from ..targets.options import seed_option, time_options, timeout_option
from ..targets.target import TargetOptions
from .comparison import Verdict
from .report import print_report, to_json
from .run import Compared, compare_all
from .scenarios import case_of_history, case_of_snapshot
from .sides import Side, side_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..format.case import Case

_ADVANCES: Final = ("1s", "12s", "6m")
#: In real time a fuzzed scenario waits for the end of a first backoff at most.
_ADVANCES_IN_REAL_TIME: Final = ("1s", "2s")


_option = options_of("Options")


class DiffOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    text_a: str = _option(
        "--a",
        metavar="TARGET",
        required=True,
        help="One scheduler: `ours`, kubesched@VERSION, MODULE:FUNCTION, or a command with "
        "{kubeconfig} or {config}; before it any of config=FILE, gates=NAME=true,..., "
        "plugin=MODULE:CLASS, version=VERSION (by whose rules it is judged), name=LABEL.",
    )
    text_b: str = _option("--b", metavar="TARGET", required=True, help="Another, as --a.")
    paths: tuple[Path, ...] = _option(
        "--cases",
        metavar="PATH",
        type=PATH,
        help="Scenarios: files or directories of cases. Without any source, the built-in cases.",
    )
    pattern: str = _option("-k", metavar="PATTERN", default="", help="Only these cases.")
    fuzz: int | None = _option(
        "--fuzz", metavar="N", type=click.IntRange(min=1), help="N random scenarios."
    )
    snapshot: Path | None = _option(
        "--snapshot",
        metavar="FILE",
        type=PATH,
        help="The objects of a cluster, as of `kubectl get -o yaml`; pods without a node are "
        "created.",
    )
    history: Path | None = _option(
        "--history",
        metavar="FILE",
        type=PATH,
        help="A history, as of `kubesched-simulate record` or `import`.",
    )
    time: str = _option(
        "--time",
        type=click.Choice(["none", "history"]),
        default="none",
        show_default=True,
        help="none: create the history's pods one after another. history: create and delete them "
        "at its times.",
    )
    limit: int | None = _option(
        "--limit", metavar="N", type=click.IntRange(min=1), help="Only N pods of the history."
    )
    seed: int = given_by(seed_option)
    target: TargetOptions = given_by(time_options)
    timeout_seconds: float = given_by(
        timeout_option(600, "How long one run of one scenario may take.")
    )
    json_file: Path | None = _option("--json", metavar="FILE", help="Write the report.")


@click.command(cls=SuiteCommand)
@takes(DiffOptions)
def diff(options: DiffOptions) -> None:
    """Run the same scenarios through two schedulers and show where they decide differently."""
    a, b = (
        side_of(text, option=option, base=options.target)
        for text, option in ((options.text_a, "--a"), (options.text_b, "--b"))
    )
    cases = _scenarios(options, a, b)
    compared: list[Compared] = []
    is_interrupted = False
    try:
        _compare(cases, a, b, options.seed, options.timeout_seconds, compared)
    except KeyboardInterrupt:
        is_interrupted = True
    labels = a.label, b.label
    if options.json_file is not None:
        _write(options.json_file, compared, labels)
    print_report(compared, labels, output_console())
    if is_interrupted:
        click.echo(f"interrupted after {len(compared)} of {len(cases)} scenarios")
        raise SystemExit(128 + signal.SIGINT)
    verdicts = {result.comparison.verdict for result in compared}
    if any(verdict.is_divergence for verdict in verdicts) or verdicts == {Verdict.SKIPPED}:
        raise SystemExit(1)


def _scenarios(options: DiffOptions, a: Side, b: Side) -> list[Case]:
    """Return the scenarios of the one source that is given. Raises InputError."""
    sources = (options.paths, options.fuzz, options.snapshot, options.history)
    if sum(map(bool, sources)) > 1:
        raise InputError("expected one of --cases, --fuzz, --snapshot, --history")
    if options.fuzz is not None:
        return _fuzzed(options.fuzz, options.seed, a, b)
    if options.snapshot is not None:
        return [case_of_snapshot(options.snapshot)]
    if options.history is not None:
        history = read_history(options.history, limit=options.limit)
        with_times = options.time == "history"
        return [case_of_history(history, options.history.stem, with_times=with_times)]
    cases = select(load_cases(options.paths or (BUILT_IN,)), options.pattern)
    if not cases:
        raise InputError(f"no case matches {options.pattern!r}")
    return cases


def _fuzzed(number: int, seed: int, a: Side, b: Side) -> list[Case]:
    # Imported here: Hypothesis is an extra.
    from .fuzzed import fuzzed_cases

    in_real_time = any(isinstance(side.kind.new_clock(), RealClock) for side in (a, b))
    advances = _ADVANCES_IN_REAL_TIME if in_real_time else _ADVANCES
    return fuzzed_cases(number, seed_value=seed, advances=advances)


def _compare(
    cases: Sequence[Case],
    a: Side,
    b: Side,
    seed: int,
    timeout_seconds: float,
    done: list[Compared],
) -> None:
    """Compare with a progress bar on a terminal; add each scenario to `done`."""
    console = Console(stderr=True)
    with progress_bar(console) as bar:
        row = bar.add_task("comparing", total=len(cases))
        for result in compare_all(cases, a, b, seed=seed, timeout_seconds=timeout_seconds):
            done.append(result)
            bar.update(row, advance=1, description=result.comparison.case.area)


def _write(file: Path, compared: Sequence[Compared], labels: tuple[str, str]) -> None:
    try:
        write_json(file, to_json(compared, labels))
    except OSError as error:
        raise InputError(f"--json: {file}: {error.strerror or error}") from error
