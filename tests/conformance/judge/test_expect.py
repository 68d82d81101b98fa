"""Expectations against a real API server, and the descriptions of those that do not hold."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from conformance.api import ApiClient, Ref
from conformance.clock import VirtualClock
from conformance.connection import Connection
from conformance.format.expectation import Expectation, pod_group_ref
from conformance.format.objects import Item, objects_of
from conformance.judge.expect import is_about_rest, unmet
from conformance.outcome import Aspect
from fakeapi import FakeApiServer, ServerOptions

MESSAGE = "0/1 nodes are available: 1 Insufficient cpu. preemption: none."


async def _create(api: ApiClient, **item: object) -> None:
    for obj in objects_of(msgspec.convert(item, Item)):
        await api.create(obj)


async def _record(api: ApiClient, name: str, reason: str, note: str, count: int = 1) -> None:
    pod = await api.find(Ref("Pod", "waits"))
    assert pod is not None
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    event: dict[str, object] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": f"2026-01-01T00:00:0{count}.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host",
        "action": "Scheduling",
        "reason": reason,
        "regarding": {
            "kind": "Pod",
            "name": "waits",
            "namespace": "default",
            "uid": metadata["uid"],
        },
        "note": note,
        "type": "Warning",
    }
    if count > 1:
        event["series"] = {"count": count, "lastObservedTime": "2026-01-01T00:00:09.000000Z"}
    await api.create(event)


@pytest.fixture
async def api() -> AsyncIterator[ApiClient]:
    """A node, a pod on it, a pod that waits after three attempts, a gated pod, two pod groups."""
    clock = VirtualClock()
    options = ServerOptions(runtime_config=["api/alpha=true"])
    async with (
        FakeApiServer(clock=clock, seed=1, options=options) as server,
        ApiClient(Connection(server.url)) as client,
    ):
        await _create(client, node={"name": "a", "cpu": 1})
        await _create(client, pod={"name": "bound", "cpu": 1})
        await client.bind(Ref("Pod", "bound"), "a")
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": MESSAGE,
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:01:00Z",
        }
        status = {"conditions": [condition], "nominatedNodeName": "a"}
        await _create(client, pod={"name": "waits", "status": status})
        await _record(client, "waits.1", "FailedScheduling", MESSAGE)
        await _record(client, "waits.2", "FailedScheduling", MESSAGE, count=2)
        await _create(client, pod={"name": "gated", "scheduling_gates": ["g"]})
        await _create(client, pod_group={"name": "new", "min_count": 2})
        await _create(client, pod_group={"name": "group"})
        scheduled = {**condition, "type": "PodGroupScheduled", "observedGeneration": 0}
        status = {"conditions": [scheduled]}
        await client.patch(
            pod_group_ref("group"), {"status": status}, patch_type="merge", subresource="status"
        )
        yield client


async def _judge(api: ApiClient, **expectation: object) -> str | None:
    started_at = VirtualClock().now()
    wrong = await unmet(api, msgspec.convert(expectation, Expectation), started_at)
    return f"{wrong[0].subject}: {wrong[0].problem}" if wrong else None


HOLDS: list[dict[str, object]] = [
    {"pod": "bound", "bound_to": "a", "phase": "Pending", "attempts": 0},
    {"pod": "bound", "bound_to_one_of": ["b", "a"]},
    {"pod": "bound", "condition": {"type": "PodScheduled", "status": "True"}},
    {"pod": "waits", "not_bound": True, "nominated_node_name": "a"},
    {"pods": ["waits", "gated"], "not_bound": True},
    {"pod": "waits", "unschedulable": {}},
    {"pod": "waits", "unschedulable": {"message": MESSAGE}},
    {"pod": "waits", "unschedulable": {"message_prefix": "0/1 nodes", "message_contains": "cpu"}},
    {"pod": "waits", "attempts": 3},
    {"pod": "waits", "attempts": {"at_least": 2, "at_most": 3}},
    {"pod": "waits", "event": {"reason": "FailedScheduling", "note": MESSAGE, "count": 3}},
    {"pod": "waits", "event": {"reason": "FailedScheduling", "type": "Warning"}},
    {"pod": "waits", "event": {"reason": "FailedScheduling", "series_count": 2}},
    {"pod": "waits", "no_event": {"reason": "Scheduled"}},
    {"pod": "waits", "no_event": {"reason": "FailedScheduling", "type": "Normal"}},
    {"pod": "waits", "condition": {"type": "PodScheduled", "observed_generation": "current"}},
    {
        "pod": "waits",
        "condition": {
            "type": "PodScheduled",
            "transitioned": {"at_least": "1m", "at_most": "60s"},
        },
    },
    {"pod": "gated", "gated": True, "nominated_node_name": ""},
    {"pod": "gone", "deleted": True, "attempts": 0},
    {"pods": ["bound", "waits"], "bound_count": 1},
    {"pod": "bound", "no_condition": "DisruptionTarget"},
    {"pod_group": "new", "no_condition": "PodGroupScheduled", "no_event": {"reason": "Scheduled"}},
    {"pod_group": "group", "condition": {"type": "PodGroupScheduled", "status": "False"}},
    {"pod_group": "team/group", "deleted": True},
    {"node": "a", "pod_count": 1},
    {"nodes": "no_overcommit"},
    {"pod": "waits", "has": {"status": {"nominatedNodeName": "a", "startTime": None}}},
    {"object": {"kind": "Node", "name": "a"}, "has": {"spec": {"taints": None}}},
    {"object": {"kind": "Node", "name": "b"}, "deleted": True},
]


@pytest.mark.parametrize("expectation", HOLDS, ids=str)
async def test_expectations_that_hold(api: ApiClient, expectation: dict[str, object]) -> None:
    assert await _judge(api, **expectation) is None


FAILS: list[tuple[dict[str, object], str]] = [
    (
        {"object": {"kind": "Node", "name": "a"}, "has": {"kind": "Node", "apiVersion": "v2"}},
        'node a: expected another apiVersion, found "v1"',
    ),
    (
        {"object": {"kind": "Node", "name": "b"}, "has": {"spec": {}}},
        "node b: expected to exist, does not",
    ),
    ({"pod": "bound", "bound_to": "b"}, "pod bound: expected on b, is bound to a"),
    ({"pod": "waits", "bound_to": "a"}, "pod waits: expected on a, is not bound"),
    ({"pod": "bound", "bound_to_one_of": ["b", "c"]}, "expected on one of b, c, is bound to a"),
    ({"pods": ["waits", "bound"], "not_bound": True}, "pod bound: expected not to be bound"),
    ({"pod": "bound", "unschedulable": {}}, "expected to be unschedulable, is bound to a"),
    ({"pod": "waits", "unschedulable": {"message": "0/1"}}, "expected the message '0/1', found"),
    (
        {"pod": "waits", "unschedulable": {"message_prefix": "0/2 nodes"}},
        f"expected a message that begins with '0/2 nodes', found {MESSAGE!r}",
    ),
    ({"pod": "waits", "unschedulable": {"message_contains": "gpu"}}, "that contains 'gpu'"),
    (
        {"pod": "waits", "unschedulable": {"reason": "SchedulerError"}},
        "expected the reason SchedulerError, found Unschedulable",
    ),
    ({"pod": "gated", "unschedulable": {}}, "the reason Unschedulable, found SchedulingGated"),
    ({"pod": "waits", "gated": True}, "expected the reason SchedulingGated, found Unschedulable"),
    ({"pod": "bound", "gated": True}, "expected to be gated, is bound to a"),
    ({"pod": "waits", "condition": {"type": "Ready"}}, "expected the condition Ready, there is no"),
    (
        {"pod": "waits", "condition": {"type": "PodScheduled", "status": "True"}},
        "expected PodScheduled with status True, found False",
    ),
    (
        {"pod": "waits", "condition": {"type": "PodScheduled", "observed_generation": 2}},
        "with observedGeneration 2, found 1",
    ),
    (
        {"pod": "waits", "condition": {"type": "PodScheduled", "transitioned": {"at_most": "5s"}}},
        "to have changed by 5s after the start, was 60s",
    ),
    (
        {"pod": "waits", "condition": {"type": "PodScheduled", "transitioned": {"at_least": "2m"}}},
        "to have changed 2m after the start, was 60s",
    ),
    ({"pod": "waits", "event": {"reason": "Scheduled"}}, "expected an event Scheduled, there is n"),
    (
        {"pod": "waits", "event": {"reason": "FailedScheduling", "action": "Binding"}},
        "expected an event FailedScheduling with action Binding, found Scheduling",
    ),
    (
        {"pod": "waits", "event": {"reason": "FailedScheduling", "count": 2}},
        "expected 2 events FailedScheduling, found 3",
    ),
    (
        {"pod": "waits", "event": {"reason": "FailedScheduling", "series_count": 3}},
        "expected 3 events FailedScheduling in one series, found 2",
    ),
    ({"pod": "waits", "no_event": {"reason": "FailedScheduling"}}, "expected no event FailedSche"),
    ({"pod": "waits", "attempts": 2}, "expected 2 attempts, found 3"),
    ({"pod": "waits", "attempts": {"at_least": 4}}, "expected at least 4 attempts, found 3"),
    ({"pod": "waits", "attempts": {"at_most": 2}}, "expected at most 2 attempts, found 3"),
    ({"pod": "waits", "nominated_node_name": ""}, "nominatedNodeName not to be set, found a"),
    ({"pod": "gated", "nominated_node_name": "a"}, "expected nominatedNodeName a, found none"),
    ({"pod": "bound", "phase": "Running"}, "expected the phase Running, found Pending"),
    ({"pod": "bound", "deleted": True}, "expected to be gone, is still there"),
    ({"pod": "gone", "bound_to": "a"}, "pod gone: expected to exist, does not"),
    ({"pods": ["bound", "waits"], "bound_count": 2}, "2 pods: expected 2 of the pods with a node"),
    (
        {"pod_group": "group", "no_condition": "PodGroupScheduled"},
        "podgroup group: expected no condition PodGroupScheduled, there is one",
    ),
    (
        {"pod_group": "group", "condition": {"type": "PodGroupScheduled", "status": "True"}},
        "podgroup group: expected PodGroupScheduled with status True, found False",
    ),
    ({"node": "a", "pod_count": {"at_least": 2}}, "node a: expected at least 2 pods on it, found"),
]


@pytest.mark.parametrize(("expectation", "problem"), FAILS, ids=[text for _, text in FAILS])
async def test_expectations_that_do_not_hold_are_described(
    api: ApiClient, expectation: dict[str, object], problem: str
) -> None:
    found = await _judge(api, **expectation)
    assert found is not None
    assert problem in found


async def test_overcommitment_is_seen_on_the_server(api: ApiClient) -> None:
    await _create(api, pod={"name": "more", "cpu": 1, "node": "a"})
    found = await _judge(api, nodes="no_overcommit")
    assert found == "nodes: node a: pods request 2 of cpu, 1 is allocatable"


@pytest.mark.parametrize(
    ("expectation", "final"),
    [
        ({"pod": "bound", "bound_to": "b"}, {Aspect.PLACEMENT: True}),
        ({"pod": "bound", "not_bound": True}, {Aspect.PLACEMENT: True}),
        ({"pod": "waits", "bound_to": "a"}, {Aspect.PLACEMENT: False}),
        ({"pod": "gone", "bound_to": "a"}, {Aspect.PLACEMENT: True}),
        ({"pod": "waits", "attempts": 2}, {Aspect.EVENTS: True}),
        ({"pod": "waits", "attempts": 4}, {Aspect.EVENTS: False}),
        ({"pod": "waits", "no_event": {"reason": "FailedScheduling"}}, {Aspect.EVENTS: True}),
        (
            {"pod": "gated", "unschedulable": {"message": "m"}, "attempts": 1},
            {Aspect.STATUS: False, Aspect.MESSAGES: False, Aspect.EVENTS: False},
        ),
    ],
    ids=str,
)
async def test_each_aspect_has_its_mismatch_which_may_be_final(
    api: ApiClient, expectation: dict[str, object], final: dict[Aspect, bool]
) -> None:
    wrong = await unmet(api, msgspec.convert(expectation, Expectation), 0.0)
    assert {each.aspect: each.is_final for each in wrong} == final


async def test_a_failure_shows_the_pods_conditions_and_events(api: ApiClient) -> None:
    expected = msgspec.convert({"pod": "waits", "bound_to": "a"}, Expectation)
    (wrong,) = await unmet(api, expected, 0.0)
    assert wrong.lines == (
        "pod waits is Pending, on no node, nominated for a",
        "conditions:",
        f"  PodScheduled=False Unschedulable: {MESSAGE}",
        "events:",
        f"  Warning FailedScheduling (Scheduling): {MESSAGE}",
        f"  Warning FailedScheduling x2 (Scheduling): {MESSAGE}",
    )


async def test_events_of_an_earlier_pod_of_that_name_do_not_count(api: ApiClient) -> None:
    await api.delete(Ref("Pod", "waits"))
    await _create(api, pod={"name": "waits"})
    assert await _judge(api, pod="waits", attempts=0) is None


@pytest.mark.parametrize(
    ("expectation", "about_rest"),
    [
        ({"pod": "p", "bound_to": "a"}, False),
        ({"pod": "p", "unschedulable": {}}, False),
        ({"pod": "p", "event": {"reason": "Scheduled"}}, False),
        ({"pod": "p", "event": {"reason": "Scheduled", "count": 1}}, True),
        ({"pod": "p", "bound_to": "a", "attempts": 1}, True),
        ({"pod": "p", "not_bound": True}, True),
        ({"pod": "p", "nominated_node_name": ""}, True),
        ({"pod": "p", "nominated_node_name": "a"}, False),
        ({"nodes": "no_overcommit"}, True),
    ],
    ids=str,
)
def test_expectations_that_something_does_not_happen_are_judged_at_rest(
    expectation: dict[str, object], about_rest: bool
) -> None:
    assert is_about_rest(msgspec.convert(expectation, Expectation)) is about_rest
