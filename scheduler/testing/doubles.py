"""A handle that records, listers of fixed objects, and one plugin on its own."""

from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from scheduler.api.core import Pod
from scheduler.assembly.watched_kinds import kinds_to_watch, read_by
from scheduler.client.kinds import kind_key
from scheduler.config.types import (
    KubeSchedulerProfile,
    PluginConfig,
    Plugins,
    PluginSet,
    default_feature_gates,
)
from scheduler.config.types import Plugin as PluginEntry
from scheduler.config.versions import DEFAULT_SCHEDULER_VERSION, SchedulerVersion
from scheduler.framework.handle import KindNotWatchedError
from scheduler.framework.interface import Plugin
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import Nominator
from scheduler.runtime import Framework, PluginHandle, PodsInPreBind, Registry, WaitingPods
from scheduler.runtime.handle import run_in_parallel
from scheduler.snapshot.snapshot import Snapshot
from scheduler.testing.fake_api import FakeApi, RecordedEvents
from scheduler.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence

    from scheduler.api.unstructured import Kind
    from scheduler.client import ApiObject
    from scheduler.config.types import FeatureGates
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.extender import Extender
    from scheduler.framework.handle import Lister, Worlds
    from scheduler.framework.types import QueuedPod
    from scheduler.runtime.handle import DryRuns, MakeHandle
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_group_state import PodGroupState
    from scheduler.snapshot.pod_info import PodInfo

P = TypeVar("P", bound=Plugin)


class FakeLister:
    """A lister over a fixed list of objects: structs, or `Unstructured` objects."""

    def __init__(self, objects: Iterable[ApiObject] = ()) -> None:
        self._objects: dict[tuple[str, str], ApiObject] = {
            (o.metadata.namespace, o.metadata.name): o for o in objects
        }

    def change(self, old: ApiObject | None, new: ApiObject | None) -> None:
        """Put the new object in the place of the old one; None stands for no object."""
        for obj in (old, new):
            if obj is not None:
                self._objects.pop((obj.metadata.namespace, obj.metadata.name), None)
        if new is not None:
            self._objects[new.metadata.namespace, new.metadata.name] = new

    def get(self, name: str, namespace: str = "") -> Any:
        return self._objects.get((namespace, name))

    def list(self, namespace: str = "") -> Sequence[Any]:
        return [o for (ns, _), o in self._objects.items() if not namespace or ns == namespace]

    def changes_since(self, cursor: int) -> tuple[int, Collection[str] | None]:
        return 0, None if cursor < 0 else ()


class FakeHandle(PluginHandle):
    """The handle of one plugin on its own, made of fakes that record the plugin's actions.

    `listers` are by kind, written as in `Plugin.reads`; `change` changes an object of one. Writes
    are in `api`, events in `event_recorder`, activated pods in `activated`, work for the background
    in `spawned`; `active` is the active queue. For dry runs it needs a framework: `make` serves as
    its `make_handle`.
    """

    api: FakeApi
    clock: VirtualClock
    dry_runs: DryRuns
    event_recorder: RecordedEvents
    nominator: Nominator

    # The handle of the scheduler is frozen; the parts of a fake may be replaced.
    __setattr__ = object.__setattr__

    def __init__(
        self,
        snapshot: Snapshot | None = None,
        *,
        profile_name: str = "default-scheduler",
        seed: int = 0,
        clock: VirtualClock | None = None,
        listers: Mapping[Kind, Lister[Any]] | None = None,
        feature_gates: FeatureGates | None = None,
        version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION,
        extenders: Sequence[Extender] = (),
    ) -> None:
        gates = default_feature_gates(version) if feature_gates is None else feature_gates
        clock, metrics = VirtualClock() if clock is None else clock, SchedulerMetrics()
        self.active: Final[list[PodInfo]] = []
        self.activated: Final[dict[str, PodInfo]] = {}
        self.pod_groups: Final[dict[str, PodGroupState]] = {}
        self.spawned: Final[list[Coroutine[None, None, None]]] = []
        self.listers: Final = {kind_key(kind): lister for kind, lister in (listers or {}).items()}
        self._on_change: Final[dict[str, list[Callable[[Any, Any], object]]]] = {}
        unassigned = Pod()
        super().__init__(
            profile_name=profile_name,
            snapshot=Snapshot() if snapshot is None else snapshot,
            # Every pod is known, and without a node.
            nominator=Nominator(lambda namespace, name: unassigned),
            event_recorder=RecordedEvents(),
            api=FakeApi(),
            feature_gates=gates,
            version=version,
            metrics=metrics,
            rng=random.Random(seed),
            clock=clock,
            waiting_pods=WaitingPods(clock, metrics),
            pods_in_pre_bind=PodsInPreBind(),
            dry_runs=_NoDryRuns(),
            lister=self._lister,
            on_change=self._add_function,
            pod_group=self.pod_groups.get,
            active_pods=lambda count: self.active[:count],
            activate=self.activated.update,
            spawn=self._spawn,
            run_in_parallel=run_in_parallel,
            shared_objects={},
            extenders=extenders,
        )

    def make(self, profile_name: str, dry_runs: DryRuns) -> FakeHandle:
        """Return this handle for a framework, whose plugins the handle then runs in dry runs."""
        self.dry_runs = dry_runs
        return self

    def change(self, kind: Kind, old: ApiObject | None, new: ApiObject | None) -> None:
        """Change an object in its `FakeLister`, and call the functions of `on_change`."""
        lister = self._lister(kind)
        assert isinstance(lister, FakeLister), "the lister of this kind is no FakeLister"
        lister.change(old, new)
        for function in self._on_change.get(kind_key(kind), ()):
            function(old, new)

    def with_parts(self, **parts: object) -> MakeHandle:
        """Return a `make_handle` for other parts, by field name, in place of some of the fakes."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

        def make_handle(profile_name: str, dry_runs: DryRuns) -> PluginHandle:
            return PluginHandle(
                **(fields | {"profile_name": profile_name, "dry_runs": dry_runs} | parts)
            )

        return make_handle

    def _lister(self, kind: Kind, /) -> Lister[Any]:
        key = kind_key(kind)
        if key not in self.listers:
            raise KindNotWatchedError(key)
        return self.listers[key]

    def _add_function(self, kind: Kind, function: Callable[[Any, Any], object], /) -> None:
        self._on_change.setdefault(kind_key(kind), []).append(function)

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        self.spawned.append(work)


class _NoDryRuns:
    """The dry runs of a handle that belongs to no framework."""

    def worlds(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Worlds:
        raise AssertionError("the handle belongs to no framework")

    def feasible_nodes(self, state: CycleState, pod: PodInfo) -> Nodes:
        raise AssertionError("the handle belongs to no framework")


class _Sort(Plugin):
    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        return False


class _Binder(Plugin):
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        pass


def make_plugin(
    plugin_class: type[P], *, args: object = None, handle: FakeHandle | None = None
) -> P:
    """Return a plugin as the scheduler makes it, in a profile of its own.

    `args` are its arguments as in `pluginConfig`. Without a handle the plugin gets a `FakeHandle`
    of an empty cluster; kinds that it reads and the handle does not have are empty. Raises
    `PluginSetupError`.
    """
    framework = framework_with(plugin_class, args=args, handle=handle or FakeHandle())
    return next(plugin for plugin in framework.instances if isinstance(plugin, plugin_class))


def framework_with(plugin_class: type[Plugin], *, args: object, handle: FakeHandle) -> Framework:
    """Return a profile with this plugin; raises `PluginSetupError`, as the scheduler does."""
    for kind in (*plugin_class.reads, *plugin_class.required):
        handle.listers.setdefault(read_by(plugin_class, kind).key, FakeLister())
    classes: list[type[Plugin]] = [plugin_class, _Binder]
    if not hasattr(plugin_class, "less"):
        classes.insert(0, _Sort)
    enabled = tuple(PluginEntry(name=plugin.name) for plugin in classes)
    profile = KubeSchedulerProfile(
        scheduler_name=handle.profile_name,
        plugins=Plugins(multi_point=PluginSet(enabled=enabled)),
        plugin_config=(PluginConfig(name=plugin_class.name, args=args),) if args else (),
    )
    framework = Framework(profile, registry=Registry(classes), make_handle=handle.make)
    kinds_to_watch({handle.profile_name: framework})  # raises for a kind that cannot exist
    return framework
