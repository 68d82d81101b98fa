"""The informers of a scheduler, one for each kind that it watches."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, overload

from scheduler.api.dynamic_resources import ResourceSlice
from scheduler.api.pod_groups import PodGroup
from scheduler.assembly import gated_fields
from scheduler.assembly.event_handlers import ObjectEventHandler, TaintRuleEventHandler
from scheduler.assembly.part_sharing import PartSharing
from scheduler.assembly.watched_kinds import kinds_to_watch
from scheduler.client import NODES, PODS, ApiObject
from scheduler.client.informer import Required
from scheduler.client.kinds import (
    DEVICE_TAINT_RULES,
    GroupVersionResource,
    kind_key,
    read_as,
    resource_named,
)
from scheduler.config import SchedulerVersion, uses_queueing_hints
from scheduler.devices.taint_rules import rule_selection
from scheduler.framework.events import ActionType, EventResource
from scheduler.framework.handle import KindNotWatchedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.api.core import Pod
    from scheduler.api.unstructured import Kind, Unstructured
    from scheduler.client import Informer, Resource
    from scheduler.config import Extender, FeatureGates
    from scheduler.cycle.scheduling_queue import SchedulingQueue
    from scheduler.framework.handle import Lister
    from scheduler.metrics import SchedulerMetrics
    from scheduler.queue.without_hints import PreChecks
    from scheduler.runtime import Framework

_log: Final = logging.getLogger(__name__)

A = TypeVar("A", bound=ApiObject)
T = TypeVar("T")

#: Finished pods need no node and use no resources.
UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"


class MakesInformers(Protocol):
    """Makes the informer of a kind, as `scheduler.client.InformerFactory` does for a server."""

    def informer(
        self,
        resource: Resource[A],
        *,
        field_selector: str = "",
        transform: Callable[[A], A] | None = None,
    ) -> Informer[A]: ...

    def discovered(self, name: GroupVersionResource) -> Informer[Unstructured]: ...


class Informers:
    """The informers of the scheduler, by the key of the kind they watch (`kind_key`)."""

    def __init__(
        self,
        factory: MakesInformers,
        extenders: Sequence[Extender],
        gates: FeatureGates,
        version: SchedulerVersion,
    ) -> None:
        self._factory: Final = factory
        self._version: Final = version
        self._transforms: Final = gated_fields.transforms(gates, version)
        without_cache = [extender for extender in extenders if not extender.node_cache_capable]
        sends_victims = any(extender.preempt_verb for extender in without_cache)
        compares_all = not uses_queueing_hints(gates, version)
        self.pods: Final = factory.informer(
            replace(
                PODS,
                keeps_json=bool(extenders) or compares_all,
                keeps_managed_fields=version < SchedulerVersion.V1_36,
            ),
            field_selector=UNFINISHED,
            transform=PartSharing(
                keeps_json=sends_victims, first=self._transforms.get(PODS.plural)
            ),
        )
        self.nodes: Final = factory.informer(
            replace(NODES, keeps_json=bool(without_cache)),
            transform=self._transforms.get(NODES.plural),
        )
        self.by_kind: Final[dict[str, Informer[Any]]] = {"pods": self.pods, "nodes": self.nodes}
        self._is_complete = False

    @overload
    def lister(self, kind: type[T], /) -> Lister[T]: ...

    @overload
    def lister(self, kind: str, /) -> Lister[Unstructured]: ...

    def lister(self, kind: Kind, /) -> Lister[Any]:
        """Return the objects of a kind, watched from now on if plugins are still being created.

        Raises `KindNotWatchedError` for a kind that is not watched.
        """
        key = kind_key(kind)
        if key not in self.by_kind and not self._is_complete:
            self.watch(resource_named(kind), required=Required.NO)
        if key not in self.by_kind:
            raise KindNotWatchedError(key)
        return self.by_kind[key].lister

    def on_change(self, kind: Kind, function: Callable[[Any, Any], object], /) -> None:
        """Call a plugin's function with each object of a kind before and after a change.

        Raises RuntimeError once all plugins are created: the function would miss changes.
        """
        if self._is_complete:
            raise RuntimeError("on_change: to be called in __init__ of a plugin")
        self.lister(kind)
        key = kind_key(kind)

        def call(old: Any, new: Any) -> None:
            try:
                function(old, new)
            except Exception:  # noqa: BLE001 - code of a plugin
                _log.exception("A plugin's function failed for a change of %s", key)

        self.by_kind[key].on_change(call)

    def watch(
        self, resource: Resource[Any] | GroupVersionResource, *, required: Required
    ) -> Informer[Any]:
        """Return the informer of a kind, made if there is none yet."""
        informer = self.by_kind.get(resource.key)
        if informer is None:
            if isinstance(resource, GroupVersionResource):
                informer = self._factory.discovered(resource)
            else:
                transform = self._transforms.get(resource.plural)
                served = read_as(resource, self._version)
                informer = self._factory.informer(served, transform=transform)
            informer.required = Required.NO
            self.by_kind[resource.key] = informer
        informer.required = max(informer.required, required)
        return informer

    def watch_other_kinds(
        self,
        profiles: Mapping[str, Framework],
        queue: SchedulingQueue,
        metrics: SchedulerMetrics,
        pre_checks: PreChecks | None,
    ) -> None:
        """Watch the kinds that plugins read or register for; events go to the queue."""
        for resource, events, required, _ in kinds_to_watch(profiles):
            informer = self.watch(resource, required=required)
            for name, actions in events.items():
                handler = ObjectEventHandler(
                    resource=name,
                    actions=actions,
                    queue=queue,
                    metrics=metrics,
                    pre_checks=pre_checks,
                )
                informer.on_change(handler.on_change)
            if resource is DEVICE_TAINT_RULES:
                of_slices = ObjectEventHandler(
                    resource=EventResource.RESOURCE_SLICE,
                    actions=ActionType.UPDATE,
                    queue=queue,
                    metrics=metrics,
                )
                # All profiles have the same gates and listers.
                framework, *_ = profiles.values()
                of_rules = TaintRuleEventHandler(
                    slices=self.lister(ResourceSlice),
                    selects=rule_selection(framework.handle),
                    on_slice_change=of_slices.on_change,
                )
                informer.on_change(of_rules.on_change)
        self._is_complete = True

    def find_pod_group(self, namespace: str, name: str) -> PodGroup | None:
        """Return a pod group as the informer has it; None if there is none."""
        return self.lister(PodGroup).get(name, namespace)

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod as the informer has it; None if there is none."""
        return self.pods.lister.get(name, namespace)
