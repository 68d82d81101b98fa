"""The share of upstream's test cases that is ported: data counted against `totals.yaml`."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import conformance
from tests.upstream.loading import load_all, read_yaml

TOTALS = Path(__file__).parent / "totals.yaml"

#: Scenarios of upstream's integration tests are conformance cases: they need a server.
SCENARIOS = Path(conformance.__file__).parent / "cases"

_SCENARIO = re.compile(r"(test/integration/\S+) (\w+\[\d+\] |TestSchedulerExtender$)")
_SOURCE = re.compile(r"(?P<function>\w+)(?:\[(?P<first>\d+)(?:-(?P<last>\d+))?\])?")


@dataclass(frozen=True)
class Share:
    """One upstream test file: its cases, those that are data, those left out and why."""

    path: str
    all: frozenset[str]
    ported: tuple[str, ...]
    left_out: dict[str, tuple[str, ...]]
    floor: int

    @property
    def left_out_sources(self) -> frozenset[str]:
        return frozenset(source for group in self.left_out.values() for source in group)

    @property
    def missing(self) -> frozenset[str]:
        """The cases that are neither ported nor left out for a reason."""
        return self.all - set(self.ported) - self.left_out_sources

    def faults(self, reasons: Iterable[str]) -> list[str]:
        """Return the errors in the data or the totals of this file."""
        found = [f"{s} is there {n} times" for s, n in Counter(self.ported).items() if n > 1]
        found += [f"{s} is no case of upstream's" for s in set(self.ported) - self.all]
        found += [f"{s} is left out, but no case" for s in self.left_out_sources - self.all]
        found += [f"{s} is both here and left out" for s in self.left_out_sources & {*self.ported}]
        found += [f"{reason} is no reason" for reason in self.left_out.keys() - set(reasons)]
        if len(self.ported) < self.floor:
            found.append(f"{len(self.ported)} cases are ported, fewer than the {self.floor} before")
        return [f"{self.path}: {fault}" for fault in found]


def expand(source: str) -> list[str]:
    """The cases that `TestX[3-5]` stands for; a source without an index stands for itself."""
    match = _SOURCE.fullmatch(source)
    if match is None:
        return [source]
    first, last = match["first"], match["last"]
    if first is None or last is None:
        return [source]
    return [f"{match['function']}[{i}]" for i in range(int(first), int(last) + 1)]


def _left_out(source: str, functions: dict[str, int]) -> list[str]:
    """Like `expand`, but a table's bare name stands for all of its cases."""
    if functions.get(source):
        return [f"{source}[{i}]" for i in range(functions[source])]
    return expand(source)


def _share(path: str, entry: dict[str, Any], ported: tuple[str, ...]) -> Share:
    functions: dict[str, int] = entry["functions"]
    sources = [
        source
        for name, count in functions.items()
        for source in ([f"{name}[{i}]" for i in range(count)] if count else [name])
    ]
    left_out = {
        reason: tuple(one for source in group for one in _left_out(source, functions))
        for reason, group in (entry.get("left_out") or {}).items()
    }
    return Share(path, frozenset(sources), ported, left_out, entry.get("ported", 0))


def reasons() -> dict[str, str]:
    """Return the reasons in `totals.yaml` to leave out a case, with their meanings."""
    found: dict[str, str] = _totals()["reasons"]
    return found


def _totals() -> dict[str, Any]:
    totals: dict[str, Any] = read_yaml(TOTALS)
    return totals


def shares() -> list[Share]:
    """Every upstream test file, those first that upstream's tree has first."""
    files = _totals()["files"]
    ported: dict[str, list[str]] = {path: [] for path in files}
    for cases in load_all().values():
        for case in cases:
            ported.setdefault(case.upstream, []).append(case.source)
    for path, source in _scenarios():
        ported.setdefault(path, []).append(source)
    unknown: dict[str, Any] = {"functions": {}}
    return [_share(p, files.get(p, unknown), tuple(found)) for p, found in ported.items()]


def _scenarios() -> list[tuple[str, str]]:
    """Upstream's file and case that each of our conformance cases cites."""
    globs = ("requeue/upstream_*.yaml", "pod-groups/*.yaml", "extenders/filter.yaml")
    files = sorted(file for glob in globs for file in SCENARIOS.glob(glob))
    sources = [case["source"] for file in files for case in read_yaml(file)["cases"]]
    return [(path, name.strip()) for source in sources for path, name in _SCENARIO.findall(source)]


def table(found: Iterable[Share]) -> str:
    """The shares as text, one line per upstream file and one for all."""
    rows = {_short(share.path): _numbers(share) for share in found}
    rows["all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
    width = max(len(name) for name in rows)
    lines = [f"{'test file':<{width}} {'cases':>6} {'here':>6} {'out':>6} {'open':>6} {'share':>6}"]
    for name, numbers in rows.items():
        cases, ported = numbers[:2]
        portion = f"{100 * ported / cases:.0f} %" if cases else "-"
        columns = " ".join(f"{number:>6}" for number in numbers)
        lines.append(f"{name:<{width}} {columns} {portion:>6}")
    return "\n".join(lines)


def _numbers(share: Share) -> list[int]:
    return [len(share.all), len(share.ported), len(share.left_out_sources), len(share.missing)]


def _short(path: str) -> str:
    path = path.removeprefix("staging/src/k8s.io/").replace("structured/internal/", "")
    return path.removeprefix("pkg/scheduler/").removeprefix("framework/")
