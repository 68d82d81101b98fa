"""The cause of a decision as one sentence, by which pods are grouped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from scheduler.reports.counts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduler.framework.interface import CausePlugin
    from scheduler.reports.decision import Decision
    from scheduler.reports.remedies import AllRejections, Remedies
    from scheduler.snapshot import Snapshot

_GROUPS_SHOWN: Final = 3


class Cause(NamedTuple):
    """A sentence without a full stop, and the plugins that it is about."""

    text: str
    plugins: tuple[str, ...] = ()


def cause_of(
    decision: Decision,
    extra: AllRejections | None,
    remedies: Sequence[Remedies],
    snapshot: Snapshot,
) -> Cause:
    """Return why a pod was placed or not."""
    if decision.result == "scheduled":
        return Cause("scheduled")
    outcome = decision.post_filter
    if outcome is not None and outcome.nominated_node:
        victims = counted(len(outcome.victims), "pod")
        return Cause(f"preempts {victims} on {outcome.nominated_node}", ("preemption",))
    status = decision.status
    if status is None and decision.diagnosis is not None:
        status = decision.diagnosis.pre_filter_status
    if status is not None:
        gated = f"gated by {status.plugin}: " if decision.result == "gated" else ""
        return Cause(f"{gated}{status.message}", (status.plugin,))
    if decision.result == "ignored":
        return Cause(f"no profile is named {decision.pod.spec.scheduler_name}")
    if extra is None or not remedies:
        return Cause(decision.message)
    return _of_all_nodes(decision, extra, snapshot) or _of_remedies(remedies, len(snapshot))


def _of_all_nodes(decision: Decision, extra: AllRejections, snapshot: Snapshot) -> Cause | None:
    """Return what the plugins that reject every node have to report about all of them."""
    texts: dict[str, str] = {}
    for plugin, rejections in extra.by_plugin:
        if hasattr(plugin, "cause") and (rejections.codes >= 0).all():
            asked = cast("CausePlugin", plugin)
            if text := asked.cause(extra.state, decision.pod, snapshot.nodes):
                texts[plugin.name] = text
    return Cause("; ".join(texts.values()), tuple(texts)) if texts else None


def _of_remedies(remedies: Sequence[Remedies], all_nodes: int) -> Cause:
    """Return the smallest changes, each with its number of nodes."""
    plugins = dict.fromkeys(p for each in remedies for p, _ in each.changes)
    return Cause("; ".join(_texts(remedies, all_nodes)), tuple(plugins))


def _texts(remedies: Sequence[Remedies], all_nodes: int) -> Iterator[str]:
    rest = all_nodes
    for each in remedies[:_GROUPS_SHOWN]:
        changes = ", ".join(remedy.text for _, remedy in each.changes)
        rest -= each.nodes
        yield f"{counted(each.nodes, 'node')}: {changes}"
    # Also the nodes that an extender has rejected.
    if rest > 0:
        yield counted(rest, "more node")
