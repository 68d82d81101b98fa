"""The report of a replay: numbers for machines, tables for people.

`summarise` converts a run into a `Report` of plain values; `to_json` and `render` present the same
report.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import Console

    from .driver import Run
    from .history import Json
    from .processes import Usage
    from .verify import Violation

__all__ = ["Reason", "Report", "reasons_of", "render", "summarise", "to_json"]

_NAMES_SHOWN: Final = 10
_VIOLATIONS_SHOWN: Final = 50
_HEAD: Final = re.compile(r"\d+/\d+ nodes are available: ")
#: Texts of PostFilter plugins; the first is upstream's for pods without claims.
_TAIL: Final = re.compile(r"\.? (no new claims to deallocate)?(, )?(preemption: .*)?$", re.DOTALL)
_COUNT: Final = re.compile(r"(\d+) (.*)", re.DOTALL)


class Reason(NamedTuple):
    """A reason of rejections: the number of pods, and the average number of nodes per pod."""

    reason: str
    pods: int
    nodes_mean: float


@dataclasses.dataclass(frozen=True)
class Report:
    """The numbers of a run. Rates are in pods per second; `phases` are in seconds."""

    nodes: int
    pods: int
    created: int
    bound: int
    unschedulable: int
    missing: tuple[str, ...]
    timed_out: bool
    creation_rate: float
    scheduling_rate: float
    wall_seconds: float
    phases: Mapping[str, float]
    usage: Mapping[str, Usage]
    reasons: tuple[Reason, ...]
    messages: Mapping[str, int]
    watch_gaps: int
    violations: tuple[Violation, ...]

    @property
    def passed(self) -> bool:
        """True if the run ended in time and no rule was violated."""
        return not self.timed_out and not self.violations


def summarise(run: Run) -> Report:
    """Summarise a run that has ended."""
    timeline, recorder = run.timeline, run.recorder
    messages = _messages(run)
    decided = recorder.verdicts[-1].seconds if recorder.verdicts else timeline.nodes_created
    creating = timeline.pods_created - timeline.nodes_created
    scheduling = decided - timeline.nodes_created
    bound = sum(1 for pod in run.evidence.pods if pod.spec.node_name)
    return Report(
        nodes=len(run.history.nodes),
        pods=len(run.history.pods),
        created=run.created,
        bound=bound,
        unschedulable=messages.total(),
        missing=run.missing,
        timed_out=run.timed_out,
        creation_rate=_rate(run.created, creating),
        scheduling_rate=_rate(len(recorder.verdicts), scheduling),
        wall_seconds=timeline.ended - timeline.started,
        phases={
            "start the API server": timeline.ready - timeline.started,
            "create nodes": timeline.nodes_created - timeline.ready,
            "create pods": creating,
            "schedule (from the first pod to the last decision)": scheduling,
            "settle and verify": timeline.ended - max(decided, timeline.pods_created),
        },
        usage=dict(run.usage),
        reasons=reasons_of(messages),
        messages=dict(messages.most_common()),
        watch_gaps=recorder.gaps,
        violations=run.violations,
    )


def reasons_of(messages: Mapping[str, int]) -> tuple[Reason, ...]:
    """Return the reasons of rejections, the most frequent first; a pod may have several.

    A message has the form `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had ...`; any
    other message is a reason of its own, for no node. `messages` counts the pods' last messages.
    """
    pods: collections.Counter[str] = collections.Counter()
    nodes: collections.Counter[str] = collections.Counter()
    for message, times in messages.items():
        text = _TAIL.sub("", message).rstrip(".")
        head = _HEAD.match(text)
        for part in text[head.end() :].split(", ") if head else [text]:
            counted = _COUNT.fullmatch(part)
            reason = counted[2] if counted and head else part
            pods[reason] += times
            nodes[reason] += times * int(counted[1]) if counted and head else 0
    ordered = sorted(pods, key=lambda reason: (-pods[reason], -nodes[reason], reason))
    return tuple(Reason(reason, pods[reason], nodes[reason] / pods[reason]) for reason in ordered)


def to_json(report: Report) -> Json:
    """Return all values for `--json`, with the field names of `Report`."""
    plain: Json = {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}
    return plain | {
        "passed": report.passed,
        "usage": {
            name: used._asdict() | {"cpu_seconds": used.cpu_seconds}
            for name, used in report.usage.items()
        },
        "reasons": [reason._asdict() for reason in report.reasons],
        "violations": [violation._asdict() for violation in report.violations],
    }


def render(report: Report, console: Console) -> None:
    """Print the tables, and the violations at the end."""
    if report.messages:
        console.print(_reason_table(report))
    console.print(_time_table(report))
    console.print(
        f"{report.pods} pods on {report.nodes} nodes: {report.bound} bound, "
        f"{report.unschedulable} unschedulable, {len(report.missing)} undecided; "
        f"{report.creation_rate:.0f} pods/s created, {report.scheduling_rate:.0f} pods/s scheduled",
        soft_wrap=True,
    )
    if report.watch_gaps:
        console.print(f"The watch of pods was interrupted {report.watch_gaps} times.")
    _print_failures(report, console)


def _print_failures(report: Report, console: Console) -> None:
    if report.timed_out:
        text = "Timed out while pods went on changing"
        if report.missing:
            names = _some(report.missing, _NAMES_SHOWN)
            text = f"Timed out: {len(report.missing)} pods are neither bound nor reported: {names}"
        console.print(text, style="red", markup=False, soft_wrap=True)
    for violation in report.violations[:_VIOLATIONS_SHOWN]:
        console.print(f"Violation: {violation}", style="red", markup=False, soft_wrap=True)
    if len(report.violations) > _VIOLATIONS_SHOWN:
        console.print(f"... and {len(report.violations) - _VIOLATIONS_SHOWN} more", style="red")
    if report.passed:
        console.print("Verified: no pod lost, none bound twice, no node over its capacity.")


def _reason_table(report: Report) -> Table:
    table = Table(title="Unschedulable by reason (a pod may have several)")
    for heading in ("pods", "nodes (mean)"):
        table.add_column(heading, justify="right")
    table.add_column("reason")
    for reason, pods, nodes in report.reasons:
        table.add_row(str(pods), f"{nodes:.0f}", reason)
    return table


def _time_table(report: Report) -> Table:
    table = Table(title="Time and memory")
    table.add_column("what")
    table.add_column("seconds", justify="right")
    table.add_column("peak RSS", justify="right")
    for phase, seconds in report.phases.items():
        table.add_row(phase, f"{seconds:.2f}", "")
    table.add_row("wall time", f"{report.wall_seconds:.2f}", "", end_section=True)
    for name, used in report.usage.items():
        label = f"CPU of {name} (user {used.user_seconds:.2f}, system {used.system_seconds:.2f})"
        rss = f"{used.peak_rss_bytes / 2**20:.0f} MiB"
        table.add_row(label, f"{used.cpu_seconds:.2f}", rss)
    return table


def _messages(run: Run) -> collections.Counter[str]:
    """Count the messages of the pods without a node."""
    messages: collections.Counter[str] = collections.Counter()
    for pod in run.evidence.pods:
        if not pod.spec.node_name and pod.unschedulable_message is not None:
            messages[pod.unschedulable_message] += 1
    return messages


def _some(names: Iterable[str], most: int) -> str:
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
