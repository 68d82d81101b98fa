"""The scheduling cycle, the binding cycle and the failure handler of one pod.

The scheduler's own parts around fake plugins, with a client that only takes notes.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine, Iterable
from datetime import UTC, datetime
from typing import ClassVar

import pytest
from msgspec.structs import replace

from scheduler.api.core import Pod
from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.cache import Cache
from scheduler.client import ConnectionFailed, ServerError
from scheduler.config import DEFAULT_FEATURE_GATES, KubeSchedulerProfile, Plugins, PluginSet
from scheduler.config import Plugin as PluginEntry
from scheduler.cycle.attempt import Attempts, CycleParts
from scheduler.cycle.schedule_pod import FirstInOrder, SchedulingAlgorithm
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.framework import (
    CycleState,
    NodeInfo,
    Plugin,
    PodInfo,
    PostFilterResult,
    Status,
    unresolvable,
    unschedulable,
    wait,
)
from scheduler.framework.types import PODS_TO_ACTIVATE, NominatingInfo, NominatingMode
from scheduler.metrics import SchedulerMetrics
from scheduler.plugins import IN_TREE
from scheduler.queue import Nominator, PriorityQueue, build_queueing_hint_map
from scheduler.runtime import Framework, PodsInPreBind, Registry, WaitingPods
from scheduler.runtime.handle import MakeHandle
from scheduler.snapshot import Snapshot
from scheduler.stories import PodStories
from scheduler.testing import FakeHandle, VirtualClock, make_node, make_pod
from tests.queue.pools import pods_of


class Notes:
    """The client's place: takes notes of writes, and fails when told to."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}
        self.conditions: list[tuple[str, str, str]] = []
        self.nominated: list[str | None] = []
        self.failure: Exception | None = None

    async def bind(self, pod: Pod, node_name: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.bound[pod.metadata.name] = node_name

    async def get(self, resource: object, name: str, **options: str) -> Pod:
        raise ConnectionFailed(f"no answer to a read of {name}")

    async def patch(self, resource: object, name: str, patch: dict, **options: str) -> None:
        status = patch["status"]
        for condition in status.get("conditions", []):
            self.conditions.append((name, condition["reason"], condition["message"]))
        if "nominatedNodeName" in status:
            self.nominated.append(status["nominatedNodeName"])


class Line:
    """A whole scheduling line: queue, cache, cycle and binding, one profile, no sockets."""

    def __init__(self, *plugins: type[Plugin], nodes: Iterable[str] = ("a",)) -> None:
        self.clock, self.notes, self.cache = VirtualClock(), Notes(), Cache()
        self.handle_of_plugins = FakeHandle()
        self.events = self.handle_of_plugins.event_recorder.recorded
        self.known: dict[str, Pod] = {}
        self.tasks: list[asyncio.Task[None]] = []
        snapshot, waiting_pods = Snapshot(), WaitingPods(self.clock, SchedulerMetrics())
        self.waiting_pods = waiting_pods
        nominator, pods_in_pre_bind = Nominator(self._find), PodsInPreBind()
        dispatcher = ApiDispatcher(self.notes, self.clock)
        make_handle = self.handle_of_plugins.with_parts(
            snapshot=snapshot,
            clock=self.clock,
            waiting_pods=waiting_pods,
            pods_in_pre_bind=pods_in_pre_bind,
            nominator=nominator,
            api=dispatcher,
        )
        self.framework = _framework(plugins, make_handle)
        self.queue = PriorityQueue(
            self.framework.less,
            pre_enqueue_plugins={},
            queueing_hint_map={
                "default-scheduler": build_queueing_hint_map(self.framework.registered_events)
            },
            nominator=nominator,
            metrics=SchedulerMetrics(),
        )
        self.stories = stories = PodStories()
        self._metrics = SchedulerMetrics()
        self.cycle_parts = CycleParts(
            profiles={"default-scheduler": self.framework},
            cache=self.cache,
            queue=SchedulingQueue(self.queue, clock=self.clock, stories=stories),
            algorithm=SchedulingAlgorithm(snapshot, tie_break=FirstInOrder()),
            api=dispatcher,
            waiting_pods=waiting_pods,
            pods_in_pre_bind=pods_in_pre_bind,
            pod_lister=self._find,
            attempts=Attempts(clock=self.clock, metrics=self._metrics, stories=stories),
            spawn=self._spawn,
        )
        for name in nodes:
            self.cache.add_node(make_node(name))

    @property
    def attempts(self) -> dict[str, int]:
        return self._metrics.attempts_by_result()

    def _find(self, namespace: str, name: str) -> Pod | None:
        return self.known.get(f"{namespace}/{name}")

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work, name=name))

    async def schedule(self, pod: Pod, *, known: Pod | None = None) -> None:
        """Queue a pod, run its cycle and whatever that sets going."""
        self.known[pod.key] = known or pod
        self.queue.add(PodInfo(pod), self.clock.now())
        queued, _ = self.queue.pop_nowait(self.clock.now())
        assert queued is not None
        await schedule_one(self.cycle_parts, queued)
        await self.finish()
        self.queue.check()
        self.cache.check()

    async def finish(self) -> None:
        """Let background work run as far as it gets without time passing."""
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def places(self) -> dict[str, list[str]]:
        """The names of the pods in each place."""
        queue = self.queue
        lists = {
            "active": pods_of(queue.active_q.in_order()),
            "backoff": pods_of(queue.backoff_q.in_order()),
            "waiting": pods_of(queue.unschedulable_pods),
            "in flight": queue.in_flight_pods(),
        }
        found = {place: [pod.metadata.name for pod in pods] for place, pods in lists.items()}
        found["cache"] = [pod.name for pod in self.cache.pods.values()]
        return {place: names for place, names in found.items() if names}


def _framework(plugins: tuple[type[Plugin], ...], make_handle: MakeHandle) -> Framework:
    names = ["PrioritySort", "NodeResourcesFit", *(p.name for p in plugins), "DefaultBinder"]
    enabled = tuple(PluginEntry(name=name) for name in names)
    profile = KubeSchedulerProfile(
        scheduler_name="default-scheduler", plugins=Plugins(multi_point=PluginSet(enabled=enabled))
    )
    return Framework(
        profile,
        registry=Registry([*IN_TREE.values(), *plugins]),
        make_handle=make_handle,
    )


class Journal(Plugin):
    """Writes down which of its methods were called."""

    calls: ClassVar[list[str]] = []

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.calls.append("reserve")

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.calls.append("unreserve")

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.calls.append("post_bind")


@pytest.fixture(autouse=True)
def _new_journal() -> None:
    Journal.calls.clear()


async def test_a_pod_that_fits_is_assumed_bound_and_announced() -> None:
    line = Line(Journal)
    await line.schedule(make_pod("pod"))
    assert line.notes.bound == {"pod": "a"}
    assert line.places == {"cache": ["pod"]}
    (event,) = line.events
    assert event.note == "Successfully assigned default/pod to a"
    assert (event.type, event.reason, event.action) == ("Normal", "Scheduled", "Binding")
    assert Journal.calls == ["reserve", "post_bind"]
    assert line.attempts == {"scheduled": 1, "unschedulable": 0, "error": 0}


async def test_a_pod_that_does_not_fit_waits_and_is_reported() -> None:
    line = Line()
    await line.schedule(make_pod("pod", requests={"cpu": "9"}))
    message = "0/1 nodes are available: 1 Insufficient cpu."
    assert line.notes.conditions == [("pod", "Unschedulable", message)]
    assert line.places == {"waiting": ["pod"]}
    (event,) = line.events
    assert (event.type, event.reason, event.action) == ("Warning", "FailedScheduling", "Scheduling")
    assert event.note == message
    waiting = line.queue.find("default/pod")
    assert waiting is not None
    assert waiting.unschedulable_plugins == {"NodeResourcesFit"}


async def test_without_nodes_a_pod_backs_off() -> None:
    line = Line(nodes=())
    await line.schedule(make_pod("pod"))
    message = "no nodes available to schedule pods"
    assert line.notes.conditions == [("pod", "Unschedulable", message)]
    assert line.places == {"backoff": ["pod"]}


async def test_a_failed_binding_gives_everything_back_and_backs_off() -> None:
    line = Line(Journal)
    line.notes.failure = ServerError(500, "InternalError", "etcd is gone")
    await line.schedule(make_pod("pod"))
    message = 'running Bind plugin "DefaultBinder": etcd is gone'
    assert line.notes.conditions == [("pod", "SchedulerError", message)]
    assert line.places == {"backoff": ["pod"]}
    assert Journal.calls == ["reserve", "unreserve"]


async def test_a_failed_binding_frees_its_room_for_others() -> None:
    line = Line()
    await line.schedule(make_pod("other", requests={"cpu": "9"}))
    line.notes.failure = ServerError(500, "InternalError", "no")
    await line.schedule(make_pod("pod"))
    assert sorted(line.places["backoff"]) == ["other", "pod"]


async def test_a_pod_bound_by_a_lost_answer_is_dropped() -> None:
    line = Line()
    line.notes.failure = ServerError(500, "InternalError", "no")
    pod = make_pod("pod")
    bound = replace(pod, spec=replace(pod.spec, node_name="a"))
    await line.schedule(pod, known=bound)
    assert (line.places, line.notes.conditions, line.events) == ({}, [], [])


async def test_a_pod_deleted_meanwhile_is_dropped() -> None:
    line = Line()
    pod = make_pod("pod", requests={"cpu": "9"})
    line.known["default/pod"] = pod
    line.queue.add(PodInfo(pod), 0.0)
    queued, _ = line.queue.pop_nowait(0.0)
    assert queued is not None
    del line.known["default/pod"]
    await schedule_one(line.cycle_parts, queued)
    assert (line.places, line.events) == ({}, [])


async def test_a_pod_recreated_meanwhile_is_not_requeued() -> None:
    line = Line()
    twin = make_pod("pod", uid="another")
    await line.schedule(make_pod("pod", requests={"cpu": "9"}), known=twin)
    assert (line.places, line.events) == ({}, [])


async def test_a_pod_found_waiting_already_stays_where_it_is_and_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    line = Line()
    pod = make_pod("pod", requests={"cpu": "9"})
    line.known["default/pod"] = pod
    line.queue.add(PodInfo(pod), 0.0)
    queued, _ = line.queue.pop_nowait(0.0)
    assert queued is not None
    line.queue.add(PodInfo(pod), 0.0)
    await schedule_one(line.cycle_parts, queued)
    await line.finish()
    assert line.places == {"active": ["pod"]}
    assert [event.reason for event in line.events] == ["FailedScheduling"]
    assert "default/pod" in str(caplog.records[-1].exc_info)


async def test_a_pod_being_deleted_is_not_scheduled() -> None:
    line = Line()
    await line.schedule(make_pod("pod", deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)))
    (event,) = line.events
    assert event.note == "skip schedule deleting pod: default/pod"
    assert line.places == {}


async def test_a_pod_that_is_being_bound_is_not_scheduled_again() -> None:
    line = Line()
    pod = make_pod("pod")
    line.cache.assume_pod(PodInfo(pod).assigned_to("a"))
    await line.schedule(pod)
    assert (line.notes.bound, line.places) == ({}, {"cache": ["pod"]})


async def test_a_pod_of_an_unknown_profile_is_dropped() -> None:
    line = Line()
    await line.schedule(make_pod("pod", scheduler_name="nobody"))
    assert line.places == {}


class Reluctant(Plugin):
    """Turns pods down after their node was chosen."""

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return unschedulable("not this one")


async def test_a_rejection_at_reserve_is_about_the_chosen_node_only() -> None:
    line = Line(Reluctant, Journal, nodes=("a", "b"))
    await line.schedule(make_pod("pod"))
    message = "0/1 nodes are available: 1 not this one."
    assert line.notes.conditions == [("pod", "Unschedulable", message)]
    assert line.places == {"waiting": ["pod"]}
    assert Journal.calls == ["unreserve"]


def _buggy(where: str) -> type[Plugin]:
    """A plugin that raises at one extension point."""

    def check(here: str) -> None:
        if here == where:
            raise RuntimeError("a bug")

    class Buggy(Plugin):
        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
            check("filter")

        def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
            check("reserve")

        def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
            check("permit")

        async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
            check("pre_bind")

    return Buggy


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("filter", 'running "Buggy" filter plugin: a bug'),
        ("reserve", 'running Reserve plugin "Buggy": a bug'),
        ("permit", 'running Permit plugin "Buggy": a bug'),
        ("pre_bind", 'running PreBind plugin "Buggy": a bug'),
    ],
)
async def test_a_bug_in_a_plugin_costs_its_pod_a_backoff(where: str, message: str) -> None:
    line = Line(_buggy(where))
    await line.schedule(make_pod("pod"))
    assert line.notes.conditions == [("pod", "SchedulerError", message)]
    assert line.places == {"backoff": ["pod"]}


class Doorkeeper(Plugin):
    """Has every pod wait for ten seconds at most."""

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return wait(10.0)


async def test_a_pod_held_at_permit_is_nominated_and_goes_when_it_is_allowed() -> None:
    line = Line(Doorkeeper)
    await line.schedule(make_pod("pod"))
    assert line.places == {"in flight": ["pod"], "cache": ["pod"]}
    assert line.notes.nominated == ["a"]
    waiting = line.waiting_pods.get("uid-default-pod")
    assert waiting is not None
    waiting.allow("Doorkeeper")
    await line.finish()
    assert line.notes.bound == {"pod": "a"}
    assert len(line.waiting_pods) == 0


async def test_without_its_gate_a_pod_held_at_permit_is_not_nominated() -> None:
    line = Line(Doorkeeper)
    gates = DEFAULT_FEATURE_GATES - {"NominatedNodeNameForExpectation"}
    line.cycle_parts = dataclasses.replace(line.cycle_parts, feature_gates=gates)
    await line.schedule(make_pod("pod"))
    assert line.places == {"in flight": ["pod"], "cache": ["pod"]}
    assert line.notes.nominated == []


async def test_a_pod_that_is_not_allowed_in_time_is_rejected() -> None:
    line = Line(Doorkeeper, Journal)
    await line.schedule(make_pod("pod"))
    await line.clock.advance(9.9)
    assert line.notes.conditions == []
    await line.clock.advance(0.1)
    message = (
        "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin Doorkeeper."
    )
    assert line.notes.conditions == [("pod", "Unschedulable", message)]
    assert line.places == {"waiting": ["pod"]}
    assert Journal.calls == ["reserve", "unreserve"]


def _rescuer(result: PostFilterResult | None, status: Status | None) -> type[Plugin]:
    """A plugin that makes room for pods that do not fit, or does not."""

    class Rescuer(Plugin):
        async def post_filter(
            self, state: CycleState, pod: PodInfo, statuses: object
        ) -> tuple[PostFilterResult | None, Status | None]:
            return result, status

    return Rescuer


async def test_a_pod_for_which_room_is_made_is_expected_there() -> None:
    line = Line(_rescuer(PostFilterResult(NominatingInfo("a", NominatingMode.OVERRIDE)), None))
    await line.schedule(make_pod("pod", requests={"cpu": "9"}))
    assert line.notes.nominated == ["a"]
    expected = [pod.name for pod in line.queue.nominator.nominated_pods_for_node("a")]
    assert expected == ["pod"]


async def test_the_reason_of_post_filter_ends_the_message() -> None:
    line = Line(_rescuer(None, unresolvable("no help for it")))
    await line.schedule(make_pod("pod", requests={"cpu": "9"}, nominated_node_name="a"))
    ((_, _, message),) = line.notes.conditions
    assert message == "0/1 nodes are available: 1 Insufficient cpu. no help for it"
    # Nothing was said of nominations, so an older one stays.
    assert line.notes.nominated == []


async def test_pods_a_plugin_wants_tried_are_tried_once_its_own_pod_is_through() -> None:
    class Waker(Plugin):
        """Activates the pod that waits."""

        def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
            state.read(PODS_TO_ACTIVATE)["default/other"] = PodInfo(make_pod("other"))

    line = Line(Waker)
    await line.schedule(make_pod("other", requests={"cpu": "9"}))
    assert line.places == {"waiting": ["other"]}
    await line.schedule(make_pod("pod"))
    assert line.places == {"active": ["other"], "cache": ["pod"]}
