"""Scheduling and binding cycles around plugins that fail, reject or wait: upstream's own cases."""

import asyncio
import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from scheduler.api.core import ObjectMeta, Pod, PodSchedulingGroup
from scheduler.api.pod_groups import PodGroup
from scheduler.client import ServerError
from scheduler.config import GENERIC_WORKLOAD
from scheduler.cycle.failure_handler import fail
from scheduler.framework import (
    NominatingInfo,
    NominatingMode,
    Plugin,
    Status,
    WaitingPod,
    unschedulable,
)
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod
from tests.cycle.line import Line, profile_of
from tests.runtime.profiles import plugin
from tests.upstream.extenders import FakeExtender
from tests.upstream.loading import Case, Fields, cases, feature_gates, status_of

TOPIC = "schedule_one"


def _methods(answers: Fields) -> dict[str, Callable[..., Any]]:
    """Make a plugin with scripted answers; `pre_bind: never` waits for ever."""
    methods: dict[str, Callable[..., Any]] = {}
    for point, value in answers.items():
        if point == "pre_bind":

            async def pre_bind(self: Plugin, *arguments: object, value: Any = value) -> Status:
                if value == "never":
                    await asyncio.get_running_loop().create_future()
                return status_of(value)

            methods[point] = pre_bind
        else:
            name = "pre_bind_pre_flight" if point == "pre_flight" else point
            methods[name] = lambda self, *_, value=value: status_of(value)
    return methods


class _Watched(Line):
    """Records if the pod is in flight when its failure is handled."""

    seen: bool | None = None

    def watch(self) -> None:
        find = self.cycle_parts.pod_lister

        def seen(namespace: str, name: str) -> Pod | None:
            if self.seen is None:
                self.seen = bool(self.names("in_flight"))
            return find(namespace, name)

        self.cycle_parts = dataclasses.replace(self.cycle_parts, pod_lister=seen)


def _line(case: Case, *others: type[Plugin], as_group: bool = False) -> _Watched:
    classes = [
        *(
            plugin(name, **_methods(answers))
            for name, answers in (case.get("plugins") or {}).items()
        ),
        *others,
    ]
    line = _Watched(
        [profile_of(*(each.name for each in classes))],
        classes,
        feature_gates=feature_gates(case) | ({GENERIC_WORKLOAD} if as_group else set()),
        groups=[PodGroup(metadata=ObjectMeta(name="pg", namespace="default"))],
    )
    line.watch()
    if case.get("bind_failure"):
        line.client.bind_failure = ServerError(500, "InternalError", case["bind_failure"])
    return line


def _pod(case: Case) -> Pod:
    deleted = datetime(2026, 1, 1, tzinfo=UTC) if case.get("deleted") else None
    return make_pod(
        "foo",
        nominated_node_name=case.get("nominated_before", ""),
        deletion_timestamp=deleted,
    )


async def _interfere(case: Case, line: Line, pod: Pod) -> None:
    """Allow, reject or cancel the pod, as the case wants it."""
    waiting = line.waiting_pods.get(pod.metadata.uid)
    if waiting is not None:
        if "reject" in case.fields:
            waiting.reject("FakePermit", case["reject"])
        elif "preempt" in case.fields:
            waiting.preempt("FakePermit", case["preempt"])
        else:
            waiting.allow(case["allow"])
    elif "cancel" in case.fields:
        in_pre_bind = line.pods_in_pre_bind.get(pod.metadata.uid)
        assert in_pre_bind is not None
        assert in_pre_bind.cancel_pod(case["cancel"])
    await line.rest()


def _check_outcome(case: Case, line: Line, pod: Pod) -> None:
    """Check the bindings, events and conditions."""
    assert bool(line.client.bound) == case.get("bound", False)
    (event,) = line.recorders["default-scheduler"].recorded
    assert event.reason == case["event"]
    messages = [condition["message"] for condition in line.client.conditions]
    assert messages == ([case["message"]] if "message" in case.fields else [])
    assert line.names("in_flight") == []
    is_bound = case["event"] == "Scheduled"
    assert (line.cache.get_pod(pod) is not None) == is_bound


@pytest.mark.parametrize("as_group", [False, True])
@pytest.mark.parametrize("case", cases(TOPIC, "schedule_one"))
async def test_schedule_one(case: Case, *, as_group: bool) -> None:
    """As upstream's test does, run the case again with the pod as the only member of a group."""
    if as_group and "allow" in case.fields:
        return  # A group whose member has to wait is unschedulable.
    line, pod = _line(case, as_group=as_group), _pod(case)
    if as_group:
        spec = msgspec.structs.replace(pod.spec, scheduling_group=PodSchedulingGroup("pg"))
        pod = msgspec.structs.replace(pod, spec=spec)
    await line.schedule(pod)
    await _interfere(case, line, pod)
    _check_outcome(case, line, pod)
    places = {place: line.names(place) for place in ("active", "backoff", "waiting")}
    found = [place for place, names in places.items() if names]
    place = case.get("place")
    if as_group and place == "waiting":
        place = "backoff"  # Members of groups back off after each attempt.
    assert found == ([place] if place else [])
    assert line.client.nominated == case.get("nominated", [])


@pytest.mark.parametrize("case", cases(TOPIC, "in_flight"))
async def test_pod_is_processed_before_pre_bind(case: Case) -> None:
    seen: dict[str, bool] = {}

    def pre_flight(self: Plugin, *arguments: object) -> None:
        seen["wait on permit"] = bool(line.names("in_flight"))

    async def pre_bind(self: Plugin, *arguments: object) -> None:
        seen["pre bind"] = bool(line.names("in_flight"))

    line = _line(case, plugin("Observer", pre_bind_pre_flight=pre_flight, pre_bind=pre_bind))
    pod = _pod(case)
    await line.schedule(pod)
    await _interfere(case, line, pod)
    _check_outcome(case, line, pod)
    assert line.seen == case.get("at_failure")
    assert seen.get("wait on permit", False) == case.get("at_wait_on_permit", False)
    assert not seen.get("pre bind", False)


@pytest.mark.parametrize("case", cases(TOPIC, "profiles"))
async def test_profiles_are_chosen_as_upstreams(case: Case) -> None:
    """Each profile binds and announces its own pods."""

    def only(self: Plugin, state: object, pod: object, node: Any) -> Any:
        wanted = case["profiles"][self.handle.profile_name]
        return None if node.name == wanted else unschedulable()

    profiles = [profile_of("Only", scheduler_name=name) for name in case["profiles"]]
    nodes = [make_node(name) for name in case["nodes"]]
    line = Line(profiles, [plugin("Only", filter=only)], nodes=nodes)
    for name, scheduler_name in case["pods"].items():
        await line.schedule(make_pod(name, scheduler_name=scheduler_name))
    assert line.client.bound == case["bound"]
    announced = {
        event.regarding.partition("/")[2]: profile
        for profile, recorder in line.recorders.items()
        for event in recorder.recorded
    }
    assert announced == case["pods"]


@pytest.mark.parametrize("case", cases(TOPIC, "phantom"))
async def test_a_pod_that_is_gone_holds_no_port(case: Case) -> None:
    line = Line([profile_of("NodePorts")])
    first = make_pod("first", host_ports=[case["port"]])
    second = make_pod("second", host_ports=[case["port"]])
    await line.schedule(first)
    await line.schedule(second)
    (condition,) = line.client.conditions
    assert condition["message"] == case["message"]
    bound = PodInfo(first).assigned_to("node1").pod
    line.pods.put(bound)
    line.pods.delete(bound)
    line.clock.advance_nowait(60)
    line.queue.flush_due(line.clock.now())
    await line.schedule_next()
    assert line.client.bound == {"first": "node1", "second": "node1"}


@pytest.mark.parametrize("case", cases(TOPIC, "many_reasons"))
async def test_the_reasons_of_many_nodes_are_short(case: Case) -> None:
    offered = case["allocatable"]
    nodes = [make_node(f"node{n}", allocatable=offered) for n in range(case["nodes_total"])]
    line = Line([profile_of("NodeResourcesFit")], nodes=nodes)
    await line.schedule(make_pod("bar", requests=case["requests"]))
    (condition,) = line.client.conditions
    assert condition["message"] == case["message"]
    assert len(condition["message"]) <= 150


@pytest.mark.parametrize("case", [*cases(TOPIC, "failure_handler"), *cases(TOPIC, "recreated")])
async def test_failure_handler(case: Case) -> None:
    """Meanwhile the pod has been updated, deleted, recreated or bound, or nothing has happened."""
    line, old = Line([profile_of()]), make_pod("test-pod")
    line.known.put(old)
    queued: QueuedPodInfo | None = QueuedPodInfo(PodInfo(old), timestamp=line.clock.now())
    if case["meanwhile"] != "bound":
        line.queue.add(PodInfo(old), line.clock.now())
        queued, _ = line.queue.pop_nowait(line.clock.now())
    assert queued is not None
    _happen(case["meanwhile"], line, old)
    info = NominatingInfo("node1", NominatingMode.OVERRIDE) if case.get("nominated") else None
    framework = line.profiles["default-scheduler"]
    attempt = line.cycle_parts.attempts.start(framework, queued)
    fail(line.cycle_parts, attempt, unschedulable("no fit"), nominating_info=info)
    await line.rest()
    pending = {pod.key: pod for pod in line.queue.pending_pods()[0]}
    wanted = case.get("labels")
    if wanted is None:
        assert pending == {}
        assert line.queue.nominator.nominated_pods_for_node("node1") == []
        assert line.client.conditions == []
    else:
        assert pending[old.key].metadata.labels == wanted
    assert line.names("in_flight") == []


def _happen(what: str, line: Line, old: Pod) -> None:
    replace = msgspec.structs.replace
    if what == "updated":
        metadata = replace(old.metadata, labels={"foo": ""}, resource_version="2")
        new = replace(old, metadata=metadata)
        line.known.put(new)
        line.queue.update(old, PodInfo(new), line.clock.now())
    elif what == "deleted":
        line.known.remove(old.key)
        line.queue.delete(old, line.clock.now())
    elif what == "recreated":
        line.known.put(replace(old, metadata=replace(old.metadata, uid="new-uid")))
    elif what == "bound":
        line.known.put(PodInfo(old).assigned_to("foo").pod)


@pytest.mark.parametrize("case", cases(TOPIC, "waiting_pods"))
async def test_pods_held_at_permit_are_known_to_all_profiles(case: Case) -> None:
    holder = plugin("FakePermit", permit=lambda self, *_: status_of("Wait"))
    names = dict.fromkeys(case["pods"].values())
    profiles = [profile_of("FakePermit", scheduler_name=name) for name in names]
    line = Line(profiles, [holder])
    for name, scheduler_name in case["pods"].items():
        await line.schedule(make_pod(name, scheduler_name=scheduler_name))
    for framework in line.profiles.values():
        found: list[str] = []

        def note(waiting: WaitingPod, found: list[str] = found) -> None:
            found.append(waiting.pod.name)

        framework.handle.iterate_over_waiting_pods(note)
        assert sorted(found) == case["waiting"]
    for name in case["waiting"]:
        line.waiting_pods.reject(f"uid-default-{name}")
    await line.rest()


@pytest.mark.parametrize("case", cases(TOPIC, "binding"))
async def test_a_binding_cycle_ends_as_upstreams(case: Case) -> None:
    extenders = [FakeExtender(fields) for fields in case["extenders"]]
    line = Line([profile_of()], extenders=extenders)
    await line.schedule(make_pod(case["pod"]))
    wanted = case["bound_by"]
    assert line.client.bound == ({case["pod"]: "node1"} if wanted is None else {})
    assert [e.bound for e in extenders] == [
        [case["pod"]] if number == wanted else [] for number in range(len(extenders))
    ]
