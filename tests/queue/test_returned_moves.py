"""Each move of a pod is returned to the caller of the queue."""

from scheduler.framework.events import DEFAULT_POD_EVENTS, ActionType
from scheduler.queue import HintAnswer, Place
from scheduler.testing import make_pod
from tests.queue.world import NODE_ADD, NODE_LABEL, START, LabelGate, World, fail, queue, skip


def story(world: World) -> list[str]:
    return [
        f"{move.at - START:g} {move.pod.pod_info.name}: {move.source} -> {move.target}"
        + (f" ({move.event_label})" if move.event_label else "")
        + "".join(f" {h.plugin_name}/{h.event_label}:{h.answer}" for h in move.hints)
        for move in world.moves
    ]


def test_all_moves_of_a_pod_from_add_to_bind_are_returned() -> None:
    world = World({NODE_ADD: [("Fit", queue)], NODE_LABEL: [("Fit", skip)]})
    world.add(make_pod("p"))
    info = world.pop()
    world.event(NODE_LABEL)
    world.now += 1
    world.give_back(info, "Fit")
    world.event(NODE_LABEL)
    world.event(NODE_ADD)
    world.now += 2
    world.flush_due()
    world.pop()
    world.done(info.uid)
    assert story(world) == [
        "0 p: outside -> active (UnschedulablePodAdd)",
        "0 p: active -> in-flight",
        "1 p: in-flight -> unschedulable (ScheduleAttemptFailure)"
        " Fit/NodeUpdateNodeLabel:QueueSkip",
        "1 p: unschedulable -> unschedulable (NodeUpdateNodeLabel)"
        " Fit/NodeUpdateNodeLabel:QueueSkip",
        "1 p: unschedulable -> backoff (NodeAdd) Fit/NodeAdd:Queue",
        "3 p: backoff -> active (BackoffComplete)",
        "3 p: active -> in-flight",
        "3 p: in-flight -> outside",
    ]
    assert world.moves[4].hints == (HintAnswer("Fit", "NodeAdd", "Queue"),)


def test_moves_by_gates_errors_and_deletions_are_returned() -> None:
    gate = LabelGate(name="gate")
    world = World(
        {NODE_ADD: [("gate", fail)], DEFAULT_POD_EVENTS.event(ActionType.UPDATE): [("gate", skip)]},
        gates=[gate],
    )
    pod = make_pod("p", labels={"p": ""})
    world.add(pod)
    world.event(NODE_ADD)
    world.update(pod, make_pod("p", labels={"p": ""}, annotations={"a": "b"}))
    gate.allowed = ("p",)
    world.event(NODE_ADD)
    world.give_back(world.pop())
    world.pop_names()
    world.delete(pod)
    assert story(world) == [
        "0 p: outside -> gated (UnschedulablePodAdd)",
        "0 p: gated -> gated (NodeAdd) gate/NodeAdd:Error: RuntimeError: unexpected error",
        "0 p: gated -> gated (UnschedulablePodUpdate) gate/UnschedulablePodUpdate:QueueSkip",
        "0 p: gated -> active (NodeAdd) gate/NodeAdd:Error: RuntimeError: unexpected error",
        "0 p: active -> in-flight",
        "0 p: in-flight -> backoff (ScheduleAttemptFailure)",
        "0 p: backoff -> outside",
    ]


def test_the_move_of_a_dropped_pod_is_returned() -> None:
    world = World()
    world.add(make_pod("p"))
    world.pop()
    world.add(make_pod("p"))
    assert world.pop_nowait() is None
    assert (world.moves[-1].source, world.moves[-1].target) == (Place.ACTIVE, Place.OUTSIDE)


def test_the_move_of_a_deleted_pod_has_its_last_place() -> None:
    world = World(gates=[LabelGate("ok")])
    pods = {n: make_pod(n, labels={"ok": ""}) for n in ("backoff", "unschedulable", "active")}
    world.try_in_vain(pods["backoff"])
    world.try_in_vain(pods["unschedulable"], "Fit")
    world.add(pods["active"], make_pod("gated"))
    world.moves.clear()
    for pod in (*pods.values(), make_pod("gated")):
        world.delete(pod)
    assert {m.pod.pod_info.name: str(m.source) for m in world.moves} == {
        name: name for name in (*pods, "gated")
    }
