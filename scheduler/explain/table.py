"""A decision as tables: the rejections of each node, the scores of the others, the chosen node."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from scheduler.preemption import CRITERIA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from scheduler.cycle.schedule_pod import ScheduleResult
    from scheduler.explain.remedies import NodeRemedies
    from scheduler.explain.world import Decision, PostFilterOutcome
    from scheduler.framework.status import Status
    from scheduler.framework.types import Diagnosis
    from scheduler.preemption import Preemption

#: Plugin names are long, scores are short: names break between their words.
_WORD_BREAK: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")

_STYLES = {
    "scheduled": "bold green",
    "unschedulable": "bold red",
    "error": "bold red",
    "gated": "bold yellow",
    "ignored": "dim",
}


def decision_table(decision: Decision, *, nodes_max: int | None = None) -> RenderableType:
    """Return the tables of one decision. `nodes_max` limits each list of nodes, best first."""
    parts: list[RenderableType] = [_headline(decision)]
    if decision.diagnosis is not None:
        parts += _rejections(decision.diagnosis, nodes_max)
    if decision.post_filter is not None:
        parts += _candidates(decision.post_filter, nodes_max)
    if decision.schedule_result is not None:
        parts += _scores(decision.schedule_result, nodes_max)
    return Group(*parts, Text())


def remedies_table(status: Status | None, nodes: Sequence[NodeRemedies]) -> RenderableType:
    """Return a table of the changes that would make the pod fit on the nearest nodes."""
    parts: list[RenderableType] = []
    if status is not None:
        parts.append(Text(f"on every node: {status.message} ({status.plugin})"))
    if nodes:
        table = _table("nearest node", "plugin", "would fit if")
        for node in nodes:
            name = node.node
            for plugin, remedy in node.remedies:
                table.add_row(name, plugin, remedy.text)
                name = ""
        parts.append(table)
    return Group(*parts, Text())


def _headline(decision: Decision) -> Text:
    text = Text.assemble((decision.pod.key, "bold"), "  ")
    text.append(decision.result, _STYLES[decision.result])
    if decision.schedule_result is not None and decision.result == "scheduled":
        result = decision.schedule_result
        text.append(
            f" on {result.suggested_host}, "
            f"{len(result.feasible_nodes)} of {result.feasible_nodes.total} nodes feasible"
        )
    elif decision.result == "ignored":
        text.append(f": no profile is named {decision.pod.spec.scheduler_name}")
    elif decision.result == "gated" and decision.status is not None:
        text.append(f" by {decision.status.plugin}: {decision.status.message}")
    elif decision.message:
        text.append(f": {decision.message}")
    return text


def _rejections(diagnosis: Diagnosis, nodes_max: int | None) -> list[RenderableType]:
    rejected = list(diagnosis.node_to_status.items())
    if not rejected:
        return []
    table = _table("rejected node", "plugin", "reason", "preemption")
    for name, status in rejected[:nodes_max]:
        may_help = "may help" if str(status.code) == "Unschedulable" else "cannot help"
        table.add_row(name, status.plugin, status.message, may_help)
    return _shortened(table, len(rejected), nodes_max)


def _candidates(outcome: PostFilterOutcome, nodes_max: int | None) -> list[RenderableType]:
    """Return the candidates for preemption, their victims, and why one node was chosen."""
    preemption, status = outcome.preemption, outcome.status
    if preemption is None:
        return [Text(status.message)] if status.message else []
    choice = preemption.choice
    others = [c for c in preemption.candidates if c.name != choice.best.name]
    others.sort(key=lambda candidate: -choice.lost_by[candidate.name])
    table = _table("candidate node", "victims (priority)", "violated budgets", "because of")
    for candidate in [choice.best, *others][:nodes_max]:
        won = candidate is choice.best
        victims = candidate.victims
        table.add_row(
            f"{candidate.name} <- nominated" if won else candidate.name,
            ", ".join(f"{pod.key} ({pod.priority})" for pod in victims.pods),
            str(victims.num_pdb_violations or ""),
            "" if won else f"not the {_criterion(preemption, choice.lost_by[candidate.name])}",
            style="green" if won else None,
        )
    return _shortened(table, len(preemption.candidates), nodes_max)


def _criterion(preemption: Preemption, number: int) -> str:
    return CRITERIA[number] if preemption.has_default_criteria else f"best by rule {number + 1}"


def _scores(result: ScheduleResult, nodes_max: int | None) -> list[RenderableType]:
    if result.scores is None:
        return []
    plugins = list(result.scores.by_plugin)
    table = _table("feasible node", "total", *plugins, right_from=1)
    totals = result.scores.total.tolist()
    columns = [scores.tolist() for scores in result.scores.by_plugin.values()]
    names = result.feasible_nodes.names
    order = sorted(range(len(names)), key=lambda position: (-totals[position], names[position]))
    for position in order[:nodes_max]:
        name = names[position]
        won = name == result.suggested_host
        table.add_row(
            f"{name} <- winner" if won else name,
            str(totals[position]),
            *(str(column[position]) for column in columns),
            style="green" if won else None,
        )
    return _shortened(table, len(names), nodes_max)


def _table(*headings: str, right_from: int | None = None) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for index, heading in enumerate(headings):
        right = right_from is not None and index >= right_from
        words = _WORD_BREAK.sub("\n", heading) if right else heading
        table.add_column(words, justify="right" if right else "left", vertical="bottom")
    return table


def _shortened(table: Table, total: int, nodes_max: int | None) -> list[RenderableType]:
    if nodes_max is None or total <= nodes_max:
        return [table]
    return [table, Text(f"and {total - nodes_max} more", style="dim")]
