"""Differences between the decisions of two versions on one pod, and the table of them."""

import io
from typing import Any

import pytest

from scheduler.explain.compare_versions import comparison_table
from scheduler.explain.text import TextPrinter
from scheduler.reports.model import (
    Choice,
    NodeVerdict,
    PodReport,
    PreemptionCandidate,
    PreemptionReport,
    Rejection,
    Victim,
)
from scheduler.reports.versions import versions_of


def rejection(plugin: str, reason: str) -> Rejection:
    return Rejection(
        plugin=plugin,
        code="Unschedulable",
        reasons=(reason,),
        preemption_may_help=False,
        nodes=1,
        further_nodes=0,
        examples=(),
    )


def report(result: str, **fields: Any) -> PodReport:
    base: dict[str, Any] = {
        **dict.fromkeys(("scenario", "scheduler_name", "message"), ""),
        **dict.fromkeys(("all_nodes", "feasible_nodes", "evaluated_nodes"), 1),
        **dict.fromkeys(("choice", "current", "pod_rejection", "preemption")),
        **dict.fromkeys(("rejections", "nearest", "score_plugins", "nodes"), ()),
    }
    return PodReport(**{**base, "pod": "ns/p", "result": result, "answer": result, **fields})


def on(node: str, **scores: int) -> PodReport:
    """The report of a pod that this node takes."""
    total = sum(scores.values())
    choice = Choice(node=node, total=total, tied_nodes=1, tied_examples=())
    return report(
        "scheduled", choice=choice, nodes=(NodeVerdict(name=node, total=total, scores=scores),)
    )


NOWHERE = report(
    "unschedulable",
    nodes=(NodeVerdict(name="n", rejections=(0,)),),
    rejections=(rejection("NodePorts", "no free ports"),),
)
GATED = report("gated", pod_rejection=rejection("SchedulingGates", "gated"))
FAILED = report("error")


def preempting(*victims: str) -> PodReport:
    candidate = PreemptionCandidate(
        node="n",
        victims=tuple(Victim(pod=pod, priority=0) for pod in victims),
        violated_budgets=0,
        lost_by="",
    )
    preemption = PreemptionReport(message="", nominated_node="n", candidates=(candidate,))
    return report("unschedulable", preemption=preemption)


@pytest.mark.parametrize(
    ("one", "other", "differences"),
    [
        (on("n", A=3), on("n", A=3), []),
        (
            on("n", A=3),
            NOWHERE,
            [("result", "NodePorts", "n", "fits in 1.35, rejected in 1.36 (no free ports)")],
        ),
        (
            NOWHERE,
            on("n", A=3),
            [("result", "NodePorts", "n", "rejected in 1.35 (no free ports), fits in 1.36")],
        ),
        (GATED, FAILED, [("result", "SchedulingGates", "", "1.35: gated; 1.36: error")]),
        (FAILED, NOWHERE, [("result", "", "", "1.35: error; 1.36: unschedulable")]),
        (on("n", A=3), FAILED, [("result", "", "", "1.35: scheduled; 1.36: error")]),
        (
            preempting("ns/a"),
            preempting("ns/b"),
            [("preemption", "", "", "1.35: ; 1.36: ")],
        ),
    ],
)
def test_a_difference_names_plugin_node_and_reason(
    one: PodReport, other: PodReport, differences: list[tuple[str, str, str, str]]
) -> None:
    found = versions_of({"1.35": one, "1.36": other}).differences
    assert [(each.kind, each.plugin, each.node, each.text) for each in found] == differences


def test_the_table_shows_the_first_victims_of_each_version() -> None:
    out = io.StringIO()
    compared = versions_of({"1.35": preempting("ns/a"), "1.36": preempting(*"abcde")})
    TextPrinter(out, nodes_max=None).show(comparison_table([compared]))
    row = " ".join(out.getvalue().splitlines()[1].split())
    assert row.startswith("ns/p unschedulable, n without ns/a unschedulable, n without a, b, c...")
