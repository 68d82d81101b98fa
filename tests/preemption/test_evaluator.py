"""A preemption from beginning to end: may the pod, where does it help, which node is it to be."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from scheduler.api.core import Pod, PodCondition
from scheduler.framework import (
    CycleState,
    NodeInfo,
    NominatingInfo,
    NominatingMode,
    Plugin,
    PostFilterResult,
    Status,
    unresolvable,
    unschedulable,
)
from scheduler.framework.status import Code
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.preemption import PREEMPTION, Candidate
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod
from scheduler.testing.doubles import FakeLister
from tests.preemption.builders import PREEMPTOR, Scene, running

_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
NOWHERE = NominatingInfo("", NominatingMode.OVERRIDE)


def nominated(result: PostFilterResult | None) -> NominatingInfo | None:
    return None if result is None else result.nominating_info


def preempted(pod: Pod, *, status: str = "True", reason: str = "PreemptionByScheduler") -> Pod:
    """A pod on its way out."""
    conditions = (PodCondition("DisruptionTarget", status, reason=reason),)
    return replace(
        pod,
        metadata=replace(pod.metadata, deletion_timestamp=_LONG_AGO),
        status=replace(pod.status, conditions=conditions),
    )


async def test_the_pod_is_nominated_to_the_node_and_the_victims_go() -> None:
    scene = Scene(running("a", "x", priority=1), running("b", "y", priority=2))
    result, status = await scene.post_filter()
    assert status is None
    assert nominated(result) == NominatingInfo("x", NominatingMode.OVERRIDE)
    assert scene.handle.api.deleted == ["default/a"]
    found = scene.state.read(PREEMPTION)
    assert sorted(c.name for c in found.candidates) == ["x", "y"]
    assert found.choice.lost_by == {"y": 1}


async def test_the_pod_is_looked_at_as_it_now_is() -> None:
    scene = Scene(running("a", "x"))
    never = replace(PREEMPTOR, spec=replace(PREEMPTOR.spec, preemption_policy="Never"))
    scene.handle.listers["pods"] = FakeLister([never])
    result, status = await scene.post_filter()
    assert (nominated(result), status) == (
        None,
        unschedulable("preemption: not eligible due to preemptionPolicy=Never."),
    )


async def test_a_deleted_pod_preempts_no_pod() -> None:
    scene = Scene(running("a", "x"))
    scene.handle.listers["pods"] = FakeLister()
    _, status = await scene.post_filter()
    assert status is not None
    assert (status.code, status.message) == (
        Code.ERROR,
        'preemption: pod "preemptor" not found',
    )


WAITING = unschedulable("preemption: not eligible due to a terminating pod on the nominated node.")


@pytest.mark.parametrize(
    ("on_node", "status", "waits"),
    [
        ("preempted", unschedulable("no"), True),
        ("preempted", unresolvable("no"), False),
        ("going", unschedulable("no"), False),
        ("other reason", unschedulable("no"), False),
        ("not yet", unschedulable("no"), False),
        ("as important", unschedulable("no"), False),
    ],
)
async def test_a_pod_waits_for_the_victims_of_its_first_preemption(
    on_node: str, status: Status, *, waits: bool
) -> None:
    pod = running("a", "x", priority=10 if on_node == "as important" else 0)
    going = {
        "preempted": preempted(pod),
        "as important": preempted(pod),
        "going": replace(pod, metadata=replace(pod.metadata, deletion_timestamp=_LONG_AGO)),
        "other reason": preempted(pod, reason="EvictionByEvictionAPI"),
        "not yet": preempted(pod, status="False"),
    }[on_node]
    waiting = replace(PREEMPTOR, status=replace(PREEMPTOR.status, nominated_node_name="x"))
    scene = Scene(going, preemptor=waiting)
    _, answer = await scene.post_filter(x=status)
    assert (answer == WAITING) == waits


async def test_a_nominated_node_that_is_gone_is_not_waited_for() -> None:
    waiting = replace(PREEMPTOR, status=replace(PREEMPTOR.status, nominated_node_name="gone"))
    scene = Scene(running("a", "x"), preemptor=waiting)
    result, _ = await scene.post_filter()
    assert nominated(result) == NominatingInfo("x", NominatingMode.OVERRIDE)


async def test_a_pod_that_preemption_cannot_help_is_not_nominated() -> None:
    scene = Scene(
        running("a", "x", priority=10),
        running("b", "y", priority=10, cpu="1"),
        running("c", "y", cpu="2"),
        nodes="w x y z",
    )
    result, status = await scene.post_filter(w=unresolvable("w"), z=unresolvable("z"))
    assert nominated(result) == NOWHERE
    assert status == unschedulable(
        "preemption: 0/4 nodes are available: 1 Insufficient cpu, "
        "1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )
    assert scene.state.find(PREEMPTION) is None


async def test_only_as_many_nodes_are_tried_as_it_takes_from_one_chosen_by_chance() -> None:
    names = [f"n{i}" for i in range(9)]
    for seed in range(4):
        scene = Scene(
            *(running(f"p-{name}", name) for name in names),
            args={"minCandidateNodesPercentage": 25, "minCandidateNodesAbsolute": 1},
            seed=seed,
        )
        await scene.post_filter()
        start = random.Random(seed).randrange(9)
        found = [c.name for c in scene.state.read(PREEMPTION).candidates]
        assert found == [names[start], names[(start + 1) % 9]]


@pytest.mark.parametrize(
    ("percentage", "absolute", "nodes", "wanted"),
    [(10, 100, 5000, 500), (10, 100, 500, 100), (10, 100, 50, 50), (0, 7, 50, 7), (50, 0, 9, 4)],
)
def test_the_number_of_candidates_is_limited(
    percentage: int, absolute: int, nodes: int, wanted: int
) -> None:
    args = {"minCandidateNodesPercentage": percentage, "minCandidateNodesAbsolute": absolute}
    plugin = Scene(running("a", "x"), args=args).plugin
    offset, num_candidates = plugin.offset_and_num_candidates(nodes)
    assert num_candidates == wanted
    assert 0 <= offset < nodes


class Fussy(Plugin):
    """Breaks on some nodes."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if node.name.startswith("bad") and node.pod_count == 0:
            raise ValueError(f"cannot look at {node.name}")
        return None


async def test_an_error_on_one_node_does_not_matter_if_another_node_is_a_candidate() -> None:
    scene = Scene(running("a", "bad"), running("b", "good"), filters=[Fussy])
    result, status = await scene.post_filter()
    assert status is None
    assert nominated(result) == NominatingInfo("good", NominatingMode.OVERRIDE)


async def test_an_error_on_all_nodes_is_an_error() -> None:
    scene = Scene(running("a", "bad1"), running("b", "bad2"), filters=[Fussy])
    result, status = await scene.post_filter()
    assert result is None
    assert status is not None
    assert status.code == Code.ERROR
    texts = [f'running "Fussy" filter plugin: cannot look at bad{n}' for n in (1, 2)]
    assert status.message in {
        f"preemption: [{first}, {second}]" for first, second in (texts, texts[::-1])
    }


async def test_a_node_where_the_pod_fits_with_everybody_on_it_makes_no_sense() -> None:
    scene = Scene(running("a", "x", cpu="1"), preemptor=make_pod("preemptor", priority=10))
    _, status = await scene.post_filter()
    assert status is not None
    assert (status.code, status.message) == (
        Code.ERROR,
        'preemption: expected at least one victim pod on node "x"',
    )


class Choosy(DefaultPreemption):
    """Spares pods that are called so, and prefers the last node by name."""

    def is_eligible_pod(self, node: NodeInfo, victim: PodInfo, preemptor: PodInfo) -> bool:
        return not victim.name.startswith("spared")

    def ordered_score_funcs(self, candidates: Sequence[Candidate]) -> list[object]:
        return [lambda candidate: ord(candidate.name)]


async def test_a_plugin_of_ones_own_may_change_the_rules() -> None:
    scene = Scene(
        running("a", "x"), running("b", "y", priority=5), running("spared", "z"), plugin=Choosy
    )
    result, _ = await scene.post_filter()
    assert nominated(result) == NominatingInfo("y", NominatingMode.OVERRIDE)
    assert not scene.state.read(PREEMPTION).has_default_criteria


async def test_nominated_pods_of_lower_priority_look_for_another_node() -> None:
    scene = Scene(running("a", "x"))
    for name, priority, node in (("low", 1, "x"), ("same", 10, "elsewhere"), ("off", 1, "y")):
        pod = make_pod(name, priority=priority, nominated_node_name=node, requests={"cpu": "1"})
        scene.handle.nominator.add_nominated_pod(
            PodInfo(pod), NominatingInfo(node, NominatingMode.OVERRIDE)
        )
    await scene.post_filter()
    cleared = [p.pod for p in scene.handle.api.status_patches if p.nominating_info is not None]
    assert cleared == ["default/low"]


async def test_a_place_promised_to_a_pod_as_important_is_no_place_for_this_one() -> None:
    scene = Scene(running("a", "x"), running("b", "y", priority=3))
    promised = make_pod("promised", priority=10, requests={"cpu": "1"})
    scene.handle.nominator.add_nominated_pod(
        PodInfo(promised), NominatingInfo("x", NominatingMode.OVERRIDE)
    )
    result, _ = await scene.post_filter()
    assert nominated(result) == NominatingInfo("y", NominatingMode.OVERRIDE)
