"""An answer as text: the sentence first, then the tables that support it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, TypeVar

from rich.text import Text

from scheduler.explain.text import TextPrinter, make_table
from scheduler.reports.counts import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.table import Table

    from scheduler.simulate.answers import (
        Answer,
        Capacity,
        Changes,
        Drain,
        EvictedPod,
        Growth,
        Loss,
        Outcome,
        PlacedPod,
        WaitingPod,
    )

T = TypeVar("T")

#: The numbers of rows of a table, of nodes in a row, and of letters of a reason.
_ROWS_MAX: Final = 12
_NODES_MAX: Final = 4
_REASON_MAX: Final = 160


def print_answer(answer: Answer) -> None:
    """Print an answer on the standard output."""
    printer = TextPrinter(nodes_max=None)
    printer.show(Text(answer.summary, "bold"))
    for part in _parts(answer):
        printer.show(Text())
        printer.show(part)


def outcomes(answer: Answer) -> Iterator[tuple[str, Outcome]]:
    """Yield the outcomes in an answer, with a title for each."""
    if answer.place is not None:
        yield answer.question, answer.place
    if answer.drain is not None:
        yield answer.question, answer.drain.outcome
    for loss in answer.losses:
        yield f"loss of {loss.domain}", loss.outcome
    for capacity in answer.capacities:
        yield f"copies of {capacity.template}", capacity.outcome
    for growth in answer.growths:
        yield f"preemption {'on' if growth.preemption else 'off'}", growth.outcome


def _parts(answer: Answer) -> Iterator[Table | Text]:
    if answer.place is not None:
        yield from _outcome(answer.place)
    if answer.drain is not None:
        yield from _drain(answer.drain)
    if answer.losses:
        yield from _losses(answer.losses)
    if answer.capacities:
        yield _capacities(answer.capacities)
    if answer.growths:
        yield from _growths(answer.growths)
    if answer.changes is not None:
        yield from _changes(answer.changes)


def _outcome(outcome: Outcome) -> Iterator[Table | Text]:
    """Yield the tables of waiting, evicted and placed pods, without empty tables."""
    if outcome.waiting:
        yield _waiting(outcome.waiting)
    if outcome.evicted:
        yield _evicted(outcome.evicted)
    if outcome.placed:
        yield _placed(outcome.placed)
    parts = [
        f"{name} {before:.0%} -> {after:.0%}" for name, (before, after) in outcome.requested.items()
    ]
    yield Text(f"requested of all nodes: {', '.join(parts)}", "dim")


def _placed(pods: Iterable[PlacedPod]) -> Table:
    by_owner: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        by_owner[pod.owner or pod.pod][pod.node] += 1
    table = make_table("pods", "placed", "on", right=(0,))
    for name, nodes in _shown(table, by_owner.items()):
        shown = [f"{node} ({n})" if n > 1 else node for node, n in nodes.most_common(_NODES_MAX)]
        more = len(nodes) - len(shown)
        on = ", ".join(shown) + (f" and {more:,} more nodes" if more else "")
        table.add_row(f"{nodes.total():,}", name, on)
    return table


def _waiting(pods: Iterable[WaitingPod]) -> Table:
    groups = Counter((pod.owner or pod.pod, pod.reason, pod.unsure) for pod in pods)
    table = make_table("pods", "waiting", "why", right=(0,))
    for (name, reason, unsure), number in _shown(table, groups.most_common()):
        doubt = f" (unsure: no {', no '.join(unsure)} in the input)" if unsure else ""
        table.add_row(f"{number:,}", name, _short(reason) + doubt)
    return table


def _evicted(pods: Iterable[EvictedPod]) -> Table:
    groups: Counter[tuple[str, str, str]] = Counter()
    for pod in pods:
        then = f"then {pod.successor_node}" if pod.successor_node else "then waiting"
        groups[pod.owner or pod.pod, pod.cause, then if pod.successor else "gone"] += 1
    table = make_table("pods", "evicted", "cause", "", right=(0,))
    for (name, cause, then), number in _shown(table, groups.most_common()):
        table.add_row(f"{number:,}", name, cause, then)
    return table


def _drain(drain: Drain) -> Iterator[Table | Text]:
    table = make_table("node", "evicted", "steps", "daemons", "stopped by", right=(1, 2, 3))
    for node in drain.nodes:
        stops = Counter(node.stopped_by.values())
        reasons = (f"{reason} ({counted(number, 'pod')})" for reason, number in stops.items())
        evicted, steps, daemons = f"{node.evicted:,}", f"{node.steps:,}", f"{node.daemon_pods:,}"
        table.add_row(node.node, evicted, steps, daemons, "; ".join(reasons) or "drained")
    yield table
    yield from _outcome(drain.outcome)


def _losses(losses: Iterable[Loss]) -> Iterator[Table | Text]:
    table = make_table(
        "lost", "nodes", "pods", "waiting", "evicted", "survives", right=(1, 2, 3, 4)
    )
    listed = list(losses)
    for loss in listed:
        preempted = sum("preempted" in pod.cause for pod in loss.outcome.evicted)
        numbers = (len(loss.nodes), loss.lost_pods, len(loss.outcome.waiting), preempted)
        verdict = Text("yes", "green") if loss.survives else Text("no", "bold red")
        table.add_row(loss.domain, *(f"{number:,}" for number in numbers), verdict)
    yield table
    if len(listed) == 1:
        yield from _outcome(listed[0].outcome)


def _capacities(capacities: Iterable[Capacity]) -> Table:
    table = make_table("copies", "of", "what stops the next one", right=(0,))
    for capacity in capacities:
        stops = "; ".join(
            f"{counted(stop.nodes, 'node')}: {stop.reason}" for stop in capacity.stopped_by
        )
        more = "or more" if capacity.is_limited else ""
        table.add_row(f"{capacity.copies:,}", capacity.template, more or stops)
    return table


def _growths(growths: Iterable[Growth]) -> Iterator[Table | Text]:
    table = make_table("preemption", "nodes to add", "price", "placed", "hopeless", right=(2, 3, 4))
    for growth in growths:
        nodes = ", ".join(f"{added.count:,} {added.shape}" for added in growth.added)
        price = f"{growth.price:g}" if growth.price else ""
        numbers = (f"{len(growth.outcome.placed):,}", f"{len(growth.hopeless):,}")
        table.add_row("on" if growth.preemption else "off", nodes or "none", price, *numbers)
    yield table
    if hopeless := next((growth.hopeless for growth in growths if growth.hopeless), None):
        yield _waiting(hopeless)


def _changes(changes: Changes) -> Iterator[Table | Text]:
    if not changes.pods:
        return
    table = make_table("pod", "now", "before", "after", "why")
    for pod in _shown(table, changes.pods):
        before, after = pod.before or "waiting", pod.after or "waiting"
        table.add_row(pod.pod, pod.node or "waiting", before, after, _short(pod.why))
    yield table


def _short(reason: str) -> str:
    """Return the beginning of a long reason."""
    return reason if len(reason) <= _REASON_MAX else f"{reason[:_REASON_MAX]} ..."


def _shown(table: Table, rows: Iterable[T]) -> Iterator[T]:
    """Yield the first rows; the last row of the table has the number of all others."""
    listed = list(rows)
    yield from listed[:_ROWS_MAX]
    if (more := len(listed) - _ROWS_MAX) > 0:
        table.add_row("", f"and {more:,} more (-o json)")
