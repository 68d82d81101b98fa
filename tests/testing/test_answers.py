"""`check_plugin` names the method of a plugin whose answer the scheduler would not accept."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from scheduler.framework import Plugin, Rejections, Status, reject, skip, unschedulable, wait
from scheduler.framework.status import Code
from scheduler.testing import check_plugin
from tests.runtime.profiles import answering

if TYPE_CHECKING:
    from scheduler.framework import CycleState, Nodes, PodInfo, QueuedPod

RESERVED = unschedulable("node(s) were reserved for GPU pods")


class Accepts(Plugin):
    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections:
        return Rejections(np.zeros(len(nodes), dtype=np.int16), (Status(Code.SUCCESS),))


class LooksAround(Plugin):
    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        return reject(np.full(len(nodes), len(nodes) == 1), RESERVED)


class GatesByTurn(Plugin):
    def __init__(self) -> None:
        self.turn = itertools.count()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return RESERVED if next(self.turn) % 2 else None


class SortsOtherwise(Plugin):
    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        return first.pod_info.name < second.pod_info.name

    def sort_key(self, queued: QueuedPod) -> tuple[object, ...]:
        return (0,)


async def _answers_badly(self: Plugin, *arguments: object) -> str:
    return "yes"


def answering_async(point: str) -> type[Plugin]:
    return type("P", (Plugin,), {point: _answers_badly})


@pytest.mark.parametrize(
    ("plugin_class", "complaint"),
    [
        (Accepts, "expected rejections only"),
        (LooksAround, "differently when it is alone in view: "),
        (GatesByTurn, "answered differently when asked again: pre_enqueue: "),
        (SortsOtherwise, "orders pods by sort_key in another way than by less"),
        (answering("P", filter=False), "filter answered False: expected a rejection or None"),
        (answering("P", filter=skip()), "expected a rejection or None"),
        (answering("P", filter_nodes=[True]), "expected Rejections or None"),
        (
            answering("P", filter_nodes=Rejections(np.array([]), (Status(Code.ERROR, "x"),))),
            "filter_nodes gave (0,) verdicts",
        ),
        (answering("P", pre_filter={"n"}), "expected a PreFilterResult, Skip, a rejection or None"),
        (answering("P", pre_filter=Status(Code.ERROR, "x")), "expected a PreFilterResult"),
        (answering("P", pre_enqueue=True), "pre_enqueue answered True: expected a rejection"),
        (answering("P", score=0, pre_score=RESERVED), "expected Skip or None"),
        (answering("P", score=1.0), "score answered 1.0: expected a plain int"),
        (answering("P", score=True), "score answered True: expected a plain int"),
        (answering("P", score=np.int64(1)), "expected a plain int"),
        (answering("P", score=101), "101, which is not in 0..100"),
        (answering("P", score=-1), "-1, which is not in 0..100"),
        (answering("P", score_nodes=[1.5] * 3), "integers"),
        (answering("P", score_nodes=5), "score_nodes answered 5: expected"),
        (answering("P", score=0, normalize_score=None), "normalize_score answered None: expected"),
        (answering("P", reserve=wait(5)), "only permit may let a pod wait"),
        (answering("P", reserve=skip()), "only bind may skip"),
        (answering("P", permit=True), "permit answered True: expected a Status or None"),
        (answering("P", reserve=None, unreserve=5), "unreserve answered 5: expected None"),
        (answering("P", pre_bind=None, pre_bind_pre_flight=5), "a PreBindPreFlightResult, Skip"),
        (answering_async("bind"), "bind answered 'yes': expected a Status or None"),
        (answering_async("post_bind"), "post_bind answered 'yes': expected None"),
        (answering_async("post_filter"), "post_filter answered 'yes': expected a PostFilterResult"),
        (answering("P", filter=RESERVED, remedies=["x"]), "expected a sequence of Remedy"),
        (answering("P", less=True), "orders pods both ways"),
        (answering("P", less=5), "less answered 5: expected a bool"),
    ],
)
def test_the_error_names_the_method_and_what_was_expected(
    plugin_class: type[Plugin], complaint: str
) -> None:
    with pytest.raises(AssertionError) as story:
        check_plugin(plugin_class)
    assert complaint in str(story.value).splitlines()[0]


def _not_reached(self: Plugin, *arguments: object) -> None:
    raise AssertionError("the attempt has ended")


async def _rejects(self: Plugin, *arguments: object) -> Status:
    return RESERVED


async def _not_reached_async(self: Plugin, *arguments: object) -> None:
    raise AssertionError("the attempt has ended")


@pytest.mark.filterwarnings("ignore::scheduler.testing.NotJudgedWarning")
@pytest.mark.parametrize(
    "plugin_class",
    [
        type("P", (answering("P", reserve=RESERVED),), {"permit": _not_reached}),
        type("P", (Plugin,), {"pre_bind": _rejects, "bind": _not_reached_async}),
        type("P", (answering("P", pre_bind_pre_flight=skip()),), {"pre_bind": _not_reached_async}),
    ],
)
def test_a_rejection_or_skip_ends_an_attempt_as_in_the_scheduler(
    plugin_class: type[Plugin],
) -> None:
    check_plugin(plugin_class, seeds=range(2))
