"""The judge: a good run has no violation, and each way to go wrong has its own."""

import pytest

from conformance.format.resources import part
from conformance.replay.history import History
from conformance.replay.recording import Placement
from conformance.replay.verify import RULES, Evidence, verify
from tests.conformance.replay.evidence import CPU_ONLY, NODES, T4, World, held_node, held_pod, task

SMALL = task("small")
BIG = task("big", cpu_milli=7500)
HUGE = task("huge", cpu_milli=9000)
PICKY = task("picky", gpus=1, gpu_milli=500, models=("T4",))
LARGE = {"cpu": "100"}
NO_ROOM = "0/3 nodes are available: 3 Insufficient cpu."


def world(**nodes_of: str) -> World:
    history = History(NODES, (SMALL, BIG, HUGE, PICKY))
    placed = {"small": "node-cpu", "big": "node-v100", "huge": "", "picky": "node-t4"}
    return World(history, placed | nodes_of, {"huge": NO_ROOM})


def rules(world: World, evidence: Evidence | None = None) -> list[tuple[str, str]]:
    found = verify(world.history, evidence or world.evidence())
    return [(violation.rule, violation.subject) for violation in found]


def test_a_good_run_has_no_violation() -> None:
    assert rules(world()) == []


def test_a_pod_that_is_not_listed_is_lost() -> None:
    lost = world()
    del lost.nodes_of["small"]
    evidence = lost.evidence()
    assert rules(lost, evidence) == [("pod-lost", "small")]


def test_a_pod_that_asks_for_something_else_than_it_was_created_with_counts_as_lost() -> None:
    evidence = world().evidence()
    evidence.pods[0].spec.containers = [{"resources": {"requests": {"cpu": "1m"}}}]
    assert rules(world(), evidence) == [("pod-lost", "small")]


def test_a_pod_that_was_not_created_is_unknown() -> None:
    evidence = world().evidence()
    stranger = held_pod(task("stranger"), message="no room")
    assert rules(world(), evidence._replace(pods=[*evidence.pods, stranger])) == [
        ("pod-unknown", "stranger")
    ]


def test_a_pod_is_listed_once() -> None:
    evidence = world().evidence()
    twice = [*evidence.pods, evidence.pods[0]]
    assert ("pod-lost", "small") in rules(world(), evidence._replace(pods=twice))


def test_a_node_must_not_go_nor_change() -> None:
    evidence = world().evidence()
    nodes = [held_node(CPU_ONLY), held_node(T4)]
    nodes[1].status.allocatable["cpu"] = "64"
    found = rules(world(), evidence._replace(nodes=nodes))
    assert found[:2] == [("node-lost", "node-t4"), ("node-lost", "node-v100")]


def test_a_node_that_does_not_exist_is_no_place_for_a_pod() -> None:
    assert rules(world(small="nowhere")) == [("node-unknown", "small")]


def test_a_pod_without_a_node_has_a_reason() -> None:
    silent = world()
    silent.messages.clear()
    assert rules(silent) == [("not-reported", "huge")]


def test_a_model_that_was_not_named_is_wrong() -> None:
    assert rules(world(picky="node-v100", big="node-cpu", small="node-t4")) == [
        ("wrong-node", "picky")
    ]


def test_too_much_on_a_node_is_found_at_the_end_and_on_the_way() -> None:
    overcommitted = world(big="node-cpu")
    found = verify(overcommitted.history, overcommitted.evidence())
    assert [(violation.rule, violation.subject) for violation in found] == [
        ("over-capacity", "node-cpu"),
        ("over-capacity", "node-cpu"),
    ]
    assert found[0].problem == "at the end cpu 8500m > 8"
    assert "when big came (placement 2, 2.000) cpu 8500m > 8" in found[1].problem


@pytest.mark.parametrize(
    ("pod", "excess"),
    [
        (task("p", memory_mib=16385), "memory 17180917760 > 17179869184"),
        (task("p", gpus=3, gpu_milli=700), "gpu-milli 2100 > 2000"),
    ],
)
def test_every_resource_counts(pod: object, excess: str) -> None:
    full = World(History((T4,), (pod,)), {"p": "node-t4"})  # type: ignore[arg-type]
    assert excess in str(verify(full.history, full.evidence())[0])


def test_the_number_of_pods_counts() -> None:
    pods = tuple(task(f"p{number}", cpu_milli=1, memory_mib=1) for number in range(111))
    full = World(History((CPU_ONLY,), pods), {pod.name: "node-cpu" for pod in pods})
    assert "pods 111 > 110" in str(verify(full.history, full.evidence())[0])


def test_too_much_for_a_moment_is_too_much() -> None:
    """Both were on the node at once, though only one is at the end."""
    evidence = world().evidence()
    first = [
        Placement(1.0, "small", "uid-gone", "node-v100"),
        Placement(2.0, "big", "uid-big", "node-v100"),
        Placement(3.0, "small", "uid-gone", ""),
    ]
    rest = [p for p in evidence.placements if p.pod != "big"]
    assert rules(world(), evidence._replace(placements=[*first, *rest])) == [
        ("over-capacity", "node-v100")
    ]


def test_resources_of_a_deleted_pod_are_free_for_the_next() -> None:
    evidence = world().evidence()
    before = [
        Placement(0.1, "big", "uid-earlier", "node-v100"),
        Placement(0.2, "big", "uid-earlier", ""),
    ]
    assert rules(world(), evidence._replace(placements=[*before, *evidence.placements])) == []


def test_a_pod_that_moves_is_bound_twice() -> None:
    evidence = world().evidence()
    moved = [Placement(0.5, "small", "uid-small", "node-t4"), *evidence.placements]
    assert rules(world(), evidence._replace(placements=moved)) == [("bound-twice", "small")]


def test_the_list_and_the_watch_agree() -> None:
    evidence = world().evidence()
    elsewhere = [p._replace(node="node-t4") if p.pod == "small" else p for p in evidence.placements]
    assert rules(world(), evidence._replace(placements=elsewhere)) == [("bound-twice", "small")]
    assert rules(world(), evidence._replace(placements=evidence.placements[1:])) == [
        ("bound-twice", "small")
    ]


def test_a_pod_that_would_fit_is_left_behind() -> None:
    idle = world(small="")
    idle.messages["small"] = NO_ROOM
    assert rules(idle) == [("left-behind", "small")]


def test_room_on_a_node_of_the_wrong_model_is_no_room() -> None:
    history = History(NODES, (task("picky", gpus=1, gpu_milli=500, models=("P100",)),))
    assert rules(World(history, {"picky": ""}, {"picky": "no such model"})) == []


def test_violations_come_in_the_order_of_the_rules() -> None:
    bad = world(small="nowhere", picky="node-cpu", big="")
    found = [rule for rule, _ in rules(bad)]
    assert found == [
        "node-unknown",
        "not-reported",
        "over-capacity",
        "over-capacity",
        "wrong-node",
    ]
    assert found == sorted(found, key=list(RULES).index)


def test_a_pod_is_not_left_behind_where_its_init_container_does_not_fit() -> None:
    spec = {**part(SMALL.object, "spec"), "initContainers": [{"resources": {"requests": LARGE}}]}
    first_large = SMALL._replace(object={**SMALL.object, "spec": spec})
    idle = World(History(NODES, (first_large,)), {"small": ""}, {"small": NO_ROOM})
    assert rules(idle) == []


def test_what_depends_on_the_state_of_a_changed_node_is_not_judged() -> None:
    moved = world(picky="node-cpu")
    assert {rule for rule, _ in rules(moved)} == {"over-capacity", "wrong-node"}
    evidence = moved.evidence()._replace(changed={"node-cpu"})
    assert {rule for rule, _ in rules(moved, evidence)} == {"over-capacity"}
