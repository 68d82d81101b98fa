"""`PriorityQueue.check` finds and names each broken invariant."""

from collections.abc import Callable

import pytest

from scheduler.framework.types import NominatingInfo, NominatingMode
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_pod
from tests.queue.world import NODE_ADD, START, World, queue, waiting


def peopled() -> World:
    """Return a world with a pod at each place; the place is its name."""
    world = World({NODE_ADD: [("Fit", queue)]})
    world.try_in_vain(make_pod("error"))
    world.try_in_vain(make_pod("backoff", priority=1), "Fit")
    world.event(NODE_ADD)
    world.try_in_vain(make_pod("waits"), "Fit")
    world.add(make_pod("in-flight"))
    world.pop()
    world.add(make_pod("active"), make_pod("active-too", nominated_node_name="n1"))
    world.queue.check()
    return world


def add_active(world: World, name: str) -> None:
    info = waiting(make_pod(name))
    info.initial_attempt_timestamp = START
    world.queue.active_q.add(info)


def wait_too(world: World, name: str) -> None:
    info = waiting(make_pod(name), "Fit")
    world.queue.unschedulable_pods.add(info)


def change(world: World, name: str, **attributes: object) -> None:
    info = world.queue.find(f"default/{name}")
    assert info is not None
    for attribute, value in attributes.items():
        setattr(info, attribute, value)


def nominate_another_version(world: World) -> None:
    world.queue.nominator.add_nominated_pod(
        PodInfo(make_pod("waits")), NominatingInfo("n1", NominatingMode.OVERRIDE)
    )


@pytest.mark.parametrize(
    ("break_it", "complaint"),
    [
        (lambda w: add_active(w, "backoff"), "default/backoff is in activeQ and in backoffQ"),
        (lambda w: wait_too(w, "active"), "default/active is in activeQ and in unschedulablePods"),
        (lambda w: wait_too(w, "error"), "default/error is in backoffQ and in unschedulablePods"),
        (lambda w: add_active(w, "in-flight"), "default/in-flight is in flight and active"),
        (
            lambda w: change(w, "active", gating_plugin="gate"),
            "default/active is gated by gate, but can be popped",
        ),
        (
            lambda w: change(w, "active", initial_attempt_timestamp=None),
            "default/active is active, but has no initial attempt timestamp",
        ),
        (
            lambda w: change(w, "active", timestamp=START + 1),
            "default/active-too would be popped after default/active, but is more urgent",
        ),
        (
            lambda w: change(w, "waits", pending_plugins={"Volumes"}),
            "default/waits is not filed under plugin Volumes of profile default-scheduler",
        ),
        (lambda w: change(w, "waits", gating_plugin="Fit"), "default/waits is counted as gated"),
        (
            lambda w: change(w, "waits", gating_plugin="gate"),
            "default/waits is gated by gate, which is none of its rejectors",
        ),
        (
            lambda w: change(w, "waits", pod_info=PodInfo(make_pod("renamed"))),
            "default/renamed waits under the key default/waits",
        ),
        (
            lambda w: w.queue.unschedulable_pods._by_age.pop(),
            "default/waits will never be flushed",
        ),
        (nominate_another_version, "default/waits is nominated in another version"),
    ],
)
def test_a_broken_invariant_is_named(break_it: Callable[[World], None], complaint: str) -> None:
    world = peopled()
    break_it(world)
    with pytest.raises(AssertionError) as caught:
        world.queue.check()
    assert complaint in str(caught.value)


def test_backoffs_out_of_order_are_noticed() -> None:
    world = World({NODE_ADD: [("Fit", queue)]})
    for name in ("a", "b"):
        world.try_in_vain(make_pod(name), "Fit")
    world.event(NODE_ADD)
    change(world, "a", backoff_expiration=START + 9)
    with pytest.raises(AssertionError, match="the ends of backoff are out of order"):
        world.queue.check()


def test_the_error_lists_the_place_of_every_pod() -> None:
    world = peopled()
    add_active(world, "backoff")
    with pytest.raises(AssertionError) as caught:
        world.queue.check()
    lines = str(caught.value).splitlines()
    assert lines[0] == "default/backoff is in activeQ and in backoffQ"
    assert [line for line in lines if not line.startswith(" ")][1:] == [
        "activeQ:",
        "backoffQ:",
        "unschedulablePods:",
        "in flight:",
        "nominated: {'uid-default-active-too': 'n1'}",
    ]
    assert (
        "  default/waits uid=uid-default-waits since=1767225600.0 attempts=1 unschedulable=1 "
        "errors=0 backoff_expiration=0.0 rejectors=Fit pending=- gate=-"
    ) in lines
    assert "  QueuedPodInfo(default/in-flight, attempts=1)" in lines
