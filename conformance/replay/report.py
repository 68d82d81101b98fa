"""The report of a replay: numbers for machines, tables for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec
from rich.table import Table

from ..judge.reasons import Reason, reasons_of
from .processes import Usage
from .verify import Violation

if TYPE_CHECKING:
    from rich.console import Console

    from ..api import Json
    from .driver import Run

_NAMES_SHOWN: Final = 10
_VIOLATIONS_SHOWN: Final = 50


class Report(msgspec.Struct, frozen=True, kw_only=True):
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
    phases: dict[str, float]
    usage: dict[str, Usage]
    reasons: tuple[Reason, ...]
    messages: dict[str, int]
    watch_gaps: int
    violations: tuple[Violation, ...]

    @property
    def passed(self) -> bool:
        """True if the run ended in time and no rule was violated."""
        return not self.timed_out and not self.violations


def summarise(run: Run) -> Report:
    """Summarise a run that has ended."""
    timeline, recorder, pods = run.timeline, run.recorder, run.evidence.pods
    told = (pod.unschedulable_message for pod in pods if not pod.spec.node_name)
    messages = Counter(message for message in told if message is not None)
    decided = recorder.verdicts[-1].seconds if recorder.verdicts else timeline.nodes_created
    creating = timeline.pods_created - timeline.nodes_created
    scheduling = decided - timeline.nodes_created
    return Report(
        nodes=len(run.history.nodes),
        pods=len(run.history.pods),
        created=run.created,
        bound=sum(bool(pod.spec.node_name) for pod in pods),
        unschedulable=messages.total(),
        missing=run.missing,
        timed_out=run.timed_out,
        creation_rate=run.created / creating if creating > 0 else 0.0,
        scheduling_rate=len(recorder.verdicts) / scheduling if scheduling > 0 else 0.0,
        wall_seconds=timeline.ended - timeline.started,
        phases={
            "start the API server": timeline.ready - timeline.started,
            "create nodes": timeline.nodes_created - timeline.ready,
            "create pods": creating,
            "schedule (from the first pod to the last decision)": scheduling,
            "settle and verify": timeline.ended - max(decided, timeline.pods_created),
        },
        usage=run.usage,
        reasons=reasons_of(messages),
        messages=dict(messages.most_common()),
        watch_gaps=recorder.gaps,
        violations=run.violations,
    )


def to_json(report: Report) -> Json:
    """Return all values for `--json`, with the field names of `Report`."""
    return {
        **msgspec.structs.asdict(report),
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
    if report.reasons:
        table = Table("pods", "nodes (mean)", "reason", title="Unschedulable pods")
        for reason, pods, nodes in report.reasons:
            table.add_row(str(pods), f"{nodes:.0f}", reason)
        console.print(table)
    console.print(_time_table(report))
    console.print(
        f"{report.pods} pods on {report.nodes} nodes: {report.bound} bound, "
        f"{report.unschedulable} unschedulable, {len(report.missing)} undecided; "
        f"{report.creation_rate:.0f} pods/s created, {report.scheduling_rate:.0f} pods/s scheduled",
        soft_wrap=True,
    )
    if report.watch_gaps:
        console.print(f"The watch of pods was interrupted {report.watch_gaps} times.")
    for failure in _failures(report):
        console.print(failure, style="red", markup=False, soft_wrap=True)
    if report.passed:
        console.print("Verified: no pod lost, none bound twice, no node over its capacity.")


def _failures(report: Report) -> list[str]:
    failures = []
    if report.timed_out and report.missing:
        more = len(report.missing) - _NAMES_SHOWN
        names = ", ".join(report.missing[:_NAMES_SHOWN]) + (f" and {more} more" * (more > 0))
        pods = f"{len(report.missing)} pods are neither bound nor reported"
        failures.append(f"Timed out: {pods}: {names}")
    elif report.timed_out:
        failures.append("Timed out while pods went on changing")
    failures += [f"Violation: {violation}" for violation in report.violations[:_VIOLATIONS_SHOWN]]
    if (more := len(report.violations) - _VIOLATIONS_SHOWN) > 0:
        failures.append(f"... and {more} more")
    return failures


def _time_table(report: Report) -> Table:
    table = Table("what", title="Time and memory")
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
