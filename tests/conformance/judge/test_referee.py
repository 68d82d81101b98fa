"""Answers of `kubesched-explain`, as the comparison of two schedulers reads them."""

import sys
from typing import Any

import pytest

from conformance.judge import referee
from conformance.judge.referee import Question, answers_to

#: A process that answers each question, and fails at a pod that is called `bad`.
FAILING = """
import json, sys
for line in sys.stdin:
    name = json.loads(line)["name"]
    if name == "bad":
        sys.exit(f"warning\\nno such plugin: {name}" if len(sys.argv) > 1 else 3)
    empty = {"nodes": [], "rejections": [], "podRejection": None, "preemption": None}
    answer = {"result": name, "message": "", **empty}
    print(json.dumps({"pods": [answer]}), flush=True)
"""
NODE = {
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "2", "pods": "9"}},
}


def pod(name: str, cpu: str, **spec: object) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": containers, **spec},
    }


@pytest.mark.slow
async def test_answers_have_nodes_scores_rejections_and_victims() -> None:
    low = pod("low", "2", nodeName="n")
    asked = [
        Question(objects=[NODE, *others], pod=waiting, config=None, gates={}, plugins=())
        for others, waiting in (
            ([], pod("fits", "1")),
            ([low], pod("high", "1", priority=10)),
            ([], pod("gated", "1", schedulingGates=[{"name": "g"}])),
        )
    ]
    fits, high, gated = (await answers_to(asked)).answers
    assert fits is not None
    assert fits.best == ("n",)
    assert fits.about("n").startswith(f"n: {fits.total['n']}, the best (")
    assert high is not None
    assert high.post_filter is not None
    assert (high.post_filter.nominated_node, high.post_filter.victims) == ("n", ("default/low",))
    assert high.about("n") == "n: rejected by NodeResourcesFit: Insufficient cpu"
    assert high.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert gated is not None
    assert gated.result == "gated"
    assert gated.about("n") == "n: rejected by SchedulingGates: waiting for scheduling gates: [g]"


@pytest.mark.parametrize(
    ("version", "problem"), [("1.36", "no such plugin: bad"), ("", "status 3")]
)
async def test_a_question_that_breaks_the_process_has_no_answer(
    version: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(referee, "_EXPLAIN", (sys.executable, "-S", "-c", FAILING))
    questions = [
        Question(objects=[], pod=pod(name, "1"), config=None, gates={}, plugins=(), version=version)
        for name in ("first", "bad", "last", "bad")
    ]
    asked = [questions[0], None, *questions[1:]]
    found = await answers_to(asked)
    results = [answer and answer.result for answer in found.answers]
    assert results == ["first", None, None, "last", None]
    assert found.problem == problem
