"""Answers as text: the sentence, and the tables below it."""

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.reports.model import ClusterReport
from scheduler.simulate.answers import (
    AddedNodes,
    Answer,
    Capacity,
    ChangedPod,
    Changes,
    Drain,
    DrainedNode,
    EvictedPod,
    Growth,
    Loss,
    Outcome,
    PlacedPod,
    Stop,
    WaitingPod,
)
from scheduler.simulate.text import outcomes, print_answer


def outcome(**parts: Any) -> Outcome:
    none: dict[str, Any] = {"placed": (), "waiting": (), "evicted": ()}
    return Outcome(
        cluster=ClusterReport(nodes=(), pod_count=0),
        waiting_before=(),
        steps=(),
        requested={"cpu": (0.25, 0.5)},
        seconds=0.0,
        **{**none, **parts},
    )


REQUESTED = "requested of all nodes: cpu 25% -> 50%"
NOWHERE = WaitingPod(pod="ns/p", owner="web", reason="Insufficient cpu", unsure=("claims",))
LOST = EvictedPod(pod="ns/p", owner="", node="n", cause="loss of n")
PREEMPTED = EvictedPod(pod="ns/q", owner="web", node="n", cause="preempted by ns/p", successor="r")


def loss(domain: str, *evicted: EvictedPod, survives: bool = True) -> Loss:
    after = outcome(evicted=evicted)
    return Loss(domain=domain, nodes=("n",), lost_pods=3, survives=survives, outcome=after)


def changed(number: int) -> ChangedPod:
    return ChangedPod(
        pod=f"ns/p-{number}", owner="", node="n" * number, before="a", after="", why="x" * 170
    )


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        (
            {"place": outcome(placed=[PlacedPod(pod=f"p-{n}", owner="web", node=f"n-{n % 6}")
                                      for n in range(7)])},
            ["pods placed on", "7 web n-0 (2), n-1, n-2, n-3 and 2 more nodes", REQUESTED],
        ),
        (
            {"place": outcome(waiting=[NOWHERE, NOWHERE], evicted=[PREEMPTED, LOST])},
            [
                "pods waiting why",
                "2 web Insufficient cpu (unsure: no claims in the input)",
                "pods evicted cause",
                "1 web preempted by ns/p then waiting",
                "1 ns/p loss of n gone",
                REQUESTED,
            ],
        ),
        (
            {"drain": Drain(
                nodes=(
                    DrainedNode(node="a", steps=1, evicted=2, daemon_pods=3, stopped_by={}),
                    DrainedNode(node="b", steps=0, evicted=0, daemon_pods=0,
                                stopped_by={"p": "budget web", "q": "budget web"}),
                ),
                outcome=outcome(),
            )},
            [
                "node evicted steps daemons stopped by",
                "a 2 1 3 drained",
                "b 0 0 0 budget web (2 pods)",
                REQUESTED,
            ],
        ),
        (
            {"losses": (loss("a", PREEMPTED), loss("b", survives=False))},
            [
                "lost nodes pods waiting evicted survives",
                "a 1 3 0 1 yes",
                "b 1 3 0 0 no",
            ],
        ),
        (
            {"losses": (loss("a"),)},
            ["lost nodes pods waiting evicted survives", "a 1 3 0 0 yes", REQUESTED],
        ),
        (
            {"capacities": (
                Capacity(template="web", copies=1200, is_limited=False, outcome=outcome(),
                         stopped_by=(Stop(reason="Insufficient cpu", nodes=1),)),
                Capacity(template="api", copies=9, is_limited=True, stopped_by=(),
                         outcome=outcome()),
            )},
            [
                "copies of what stops the next one",
                "1,200 web 1 node: Insufficient cpu",
                "9 api or more",
            ],
        ),
        (
            {"growths": (
                Growth(preemption=False, added=(), price=0.0, hopeless=(), checks=1,
                       outcome=outcome()),
                Growth(preemption=True, price=2.5, hopeless=(NOWHERE,), checks=1,
                       added=(AddedNodes(shape="m", count=2, price=2.5),), outcome=outcome()),
            )},
            [
                "preemption nodes to add price placed hopeless",
                "off none 0 0",
                "on 2 m 2.5 0 1",
                "pods waiting why",
                "1 web Insufficient cpu (unsure: no claims in the input)",
            ],
        ),
        ({"changes": Changes(compared=3, ties=0, pods=())}, []),
        (
            {"changes": Changes(compared=3, ties=0, pods=tuple(map(changed, range(14))))},
            [
                "pod now before after why",
                f"ns/p-0 waiting a waiting {'x' * 160} ...",
                *(f"ns/p-{n} {'n' * n} a waiting {'x' * 160} ..." for n in range(1, 12)),
                "and 2 more (-o json)",
            ],
        ),
    ],
)  # fmt: skip
def test_an_answer_is_a_sentence_and_tables(
    parts: dict[str, Any], lines: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    print_answer(Answer(question="q", summary="the sentence", **parts))
    shown = (" ".join(line.split()) for line in capsys.readouterr().out.splitlines())
    assert [line for line in shown if line] == ["the sentence", *lines]


def test_each_course_of_an_answer_has_a_title() -> None:
    course = outcome()
    answer = Answer(
        question="lose n",
        summary="",
        place=course,
        drain=Drain(nodes=(), outcome=course),
        losses=(loss("a"),),
        capacities=(
            Capacity(template="t", copies=0, is_limited=False, stopped_by=(), outcome=course),
        ),
        growths=tuple(
            Growth(preemption=p, added=(), price=0.0, hopeless=(), checks=0, outcome=course)
            for p in (False, True)
        ),
    )
    titles = ["lose n", "lose n", "loss of a", "copies of t", "preemption off", "preemption on"]
    assert [title for title, _ in outcomes(answer)] == titles
