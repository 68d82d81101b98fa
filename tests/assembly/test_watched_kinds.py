"""Plugins make the scheduler watch kinds, and changes of these kinds move pods."""

import pytest

from scheduler.api.core import ObjectMeta
from scheduler.api.pod_groups import PodGroup
from scheduler.api.storage import StorageClass
from scheduler.api.workloads import Service
from scheduler.assembly.event_handlers import ObjectEventHandler
from scheduler.assembly.profiles import build_profiles
from scheduler.assembly.watched_kinds import kinds_to_watch
from scheduler.client.informer import Required
from scheduler.client.kinds import KINDS, POD_GROUPS, GroupVersionResource
from scheduler.config import GANG_SCHEDULING, GENERIC_WORKLOAD, default_config
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.framework import CycleState, NodeInfo, Plugin, PodInfo, Status, unschedulable
from scheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, EventResource
from scheduler.framework.registrations import events_of
from scheduler.metrics import SchedulerMetrics
from scheduler.plugins import SCHEME
from scheduler.queue import Nominator, PriorityQueue, build_queueing_hint_map
from scheduler.runtime import Framework, PluginSetupError
from scheduler.stories import PodStories
from scheduler.testing import FakeHandle, VirtualClock, make_pod

_CLASS_CHANGE = ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD | ActionType.UPDATE)


class Picky(Plugin):
    """Reads services, and waits for storage classes and for things of its own kind."""

    reads = ("services",)
    waits_for = (
        ClusterEventWithHint(_CLASS_CHANGE),
        ClusterEventWithHint(ClusterEvent("things.v1.example.com", ActionType.DELETE)),
    )

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("picky")

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return self.waits_for


def _profiles(plugin: type[Plugin]) -> dict[str, Framework]:
    return build_profiles(default_config(SCHEME), FakeHandle().make, plugins=[plugin])


def test_kinds_that_plugins_read_or_register_for_are_watched() -> None:
    watched = {kind.resource.plural: kind for kind in kinds_to_watch(_profiles(Picky))}
    assert "services" in watched
    actions = watched["storageclasses"].events[EventResource.STORAGE_CLASS]
    assert actions & _CLASS_CHANGE.action_type == _CLASS_CHANGE.action_type
    things = watched["things"]
    assert things.resource == GroupVersionResource("example.com", "v1", "things")
    assert things.events == {"things.v1.example.com": ActionType.DELETE}
    assert not {"pods", "nodes"} & watched.keys()


def test_a_kind_is_written_as_a_type_a_plural_or_a_name() -> None:
    gizmos, maps = "gizmos.v1.example.com", "configmaps.v1"
    plugin = type(
        "Reader", (Picky,), {"reads": (Service, "services.v1", maps), "required": (gizmos,)}
    )
    watched = {kind.resource.key: kind for kind in kinds_to_watch(_profiles(plugin))}
    assert list(watched).count("services") == 1
    assert watched["services"].resource is KINDS["services"]
    assert watched["services"].required == Required.YES  # by in-tree plugins
    assert (watched[gizmos].required, watched[maps].required) == (Required.YES, Required.NO)


def test_a_server_without_pod_groups_is_not_waited_for_unless_a_plugin_requires_them() -> None:
    scheme = SCHEME._replace(gates=frozenset({GENERIC_WORKLOAD, GANG_SCHEDULING}))

    def required(plugin: type[Plugin]) -> Required:
        handle = FakeHandle(feature_gates=scheme.gates)
        profiles = build_profiles(default_config(scheme), handle.make, plugins=[plugin])
        return {k.resource: k.required for k in kinds_to_watch(profiles)}[POD_GROUPS]

    assert required(Picky) == Required.IF_SERVED
    assert required(type("Needs", (Picky,), {"required": (PodGroup,)})) == Required.YES


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"reads": ("gizmos",)}, "reads: 'gizmos' is not a known kind"),
        (
            {"reads": ("servics",)},
            r"reads: 'servics' is not a known kind \(did you mean \"services\"\?\)",
        ),
        (
            {"reads": ("things.example.com",)},
            "reads: 'things.example.com' is not a known kind",
        ),
        (
            {"reads": ("configmaps",)},
            r"reads: 'configmaps' .* \(did you mean \"configmaps.v1\"\?\)",
        ),
        ({"required": (int,)}, "reads: <class 'int'> is no type of a kind of objects"),
        (
            {"waits_for": (ClusterEventWithHint(ClusterEvent("Nod", ActionType.ADD)),)},
            r"events: 'Nod' is not a known kind \(did you mean \"Node\"\?\)",
        ),
    ],
)
def test_a_kind_that_cannot_exist_is_refused(changed: dict[str, object], text: str) -> None:
    plugin = type("Lost", (Picky,), changed)
    with pytest.raises(PluginSetupError, match=f'plugin "Lost": {text}'):
        kinds_to_watch(_profiles(plugin))


@pytest.mark.parametrize("events", [ClusterEventWithHint(_CLASS_CHANGE), [_CLASS_CHANGE], 5, None])
def test_events_that_are_no_list_of_events_with_hints_are_refused(events: object) -> None:
    plugin = type("Lost", (Picky,), {"waits_for": events})
    with pytest.raises(
        PluginSetupError,
        match=r'plugin "Lost": events_to_register returned .*: '
        r"return a list of ClusterEventWithHint$",
    ):
        _profiles(plugin)


@pytest.mark.parametrize(
    ("action", "registered", "comes_back"),
    [
        ("added", ActionType.ADD, True),
        ("updated", ActionType.UPDATE, True),
        ("updated", ActionType.ADD, False),
        ("recreated", ActionType.ADD, True),
        ("recreated", ActionType.UPDATE, False),
        ("deleted", ActionType.ADD | ActionType.UPDATE, False),
    ],
)
def test_only_registered_changes_bring_a_pod_back(
    action: str, registered: ActionType, *, comes_back: bool
) -> None:
    queue = PriorityQueue(
        lambda first, second: first.timestamp < second.timestamp,
        pre_enqueue_plugins={"default-scheduler": ()},
        queueing_hint_map={"default-scheduler": build_queueing_hint_map([events_of(Picky())])},
        nominator=Nominator(lambda namespace, name: None),
        metrics=SchedulerMetrics(),
    )
    queue.add(PodInfo(make_pod("p")), 0.0)
    queued, _ = queue.pop_nowait(0.0)
    assert queued is not None
    queued.unschedulable_plugins = {"Picky"}
    queue.add_unschedulable_if_not_present(queued, 0.0)
    handler = ObjectEventHandler(
        resource=EventResource.STORAGE_CLASS,
        actions=registered,
        queue=SchedulingQueue(queue, clock=VirtualClock(), stories=PodStories()),
        metrics=SchedulerMetrics(),
    )
    fast = StorageClass(provisioner="fast")
    recreated = StorageClass(metadata=ObjectMeta(uid="other"))
    changes = {
        "added": (None, fast),
        "updated": (fast, fast),
        "recreated": (fast, recreated),
        "deleted": (fast, None),
    }
    handler.on_change(*changes[action])
    statistics = queue.statistics()
    assert (statistics.unschedulable == 0) is comes_back
