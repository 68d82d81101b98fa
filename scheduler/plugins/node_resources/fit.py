"""NodeResourcesFit: filter nodes by the free amounts of the pod's requests, and score them.

Filter: the node must take one more pod, and have the requested amount of each resource left. All
shortages of a node are reported together; if a request exceeds the node's allocatable amount, no
preemption helps. Score: one of three strategies over the configured resources (see `_scorers`).
Extended resources that devices provide are left to DynamicResources, and count in the score.
Mirrors `pkg/scheduler/framework/plugins/noderesources/fit.go`, v1.36.3.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from scheduler.api import resources
from scheduler.api.core import Node, Pod
from scheduler.api.dynamic_resources import DEVICE_CLASS_PREFIX, DeviceClass
from scheduler.config.types import RESIZE_PREEMPTION
from scheduler.config.versions import SchedulerVersion
from scheduler.devices.classes import DRA_EXTENDED_RESOURCE
from scheduler.devices.manager import DraManager
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin, Remedy
from scheduler.framework.resizes import waits_for_resize
from scheduler.framework.status import Status, reject_together, unresolvable, unschedulable
from scheduler.plugins.node_resources.args import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    NodeResourcesFitArgs,
    ScoringStrategy,
)
from scheduler.plugins.node_resources.resource_allocation import (
    Scorer,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
    requests_of,
    score,
    score_placement,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from scheduler.framework.status import Rejections
    from scheduler.framework.types import PodGroupAssignments, PodGroupInfo
    from scheduler.snapshot.columns import BoolArray, IntArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo

_TOO_MANY_PODS: Final = unschedulable("Too many pods")

#: Joined to the reasons of a node that could not hold the pod even if it were empty.
_HOPELESS: Final = unresolvable()

#: The pod's requests in the scheduler's units.
_REQUESTS: Final = StateKey["Mapping[str, int]"](
    "PreFilterNodeResourcesFit", 'error reading "{}" from cycleState: not found'
)

#: What the pod holds on its node already, if it waits for a resize.
_HELD: Final = StateKey["Mapping[str, int]"]("HeldNodeResourcesFit")

#: The pod's request for each scored resource.
_SCORED_REQUESTS: Final = StateKey[tuple[int, ...]]("PreScoreNodeResourcesFit")

#: The gate of changes of requests while a pod runs.
_RESIZE: Final = "InPlacePodVerticalScaling"
#: The feature gate of init containers that go on running; off only if an old version is emulated.
_SIDECARS: Final = "SidecarContainers"
_NO_SIDECARS: Final = unresolvable(
    "Pod has a restartable init container and the SidecarContainers feature is disabled"
)

#: The order in which shortages of these are named; all others follow by name.
_NATIVE: Final = (resources.CPU, resources.MEMORY, resources.EPHEMERAL_STORAGE)


class NodeResourcesFit(Plugin):
    """Never promise more than a node has."""

    only_takes_room: ClassVar[bool] = True
    only_ranks = True
    Args = NodeResourcesFitArgs
    args: NodeResourcesFitArgs
    reads = ("resourceclaims", "deviceclasses", "resourceslices", "devicetaintrules")

    def __init__(self) -> None:
        args = self.args
        assert args.scoring_strategy is not None, "a default has filled it in"
        self._ignored: Final = frozenset(args.ignored_resources)
        self._ignored_groups: Final = frozenset(args.ignored_resource_groups)
        self._scored: Final = args.scoring_strategy.resources
        self._scorer: Final = _scorer_of(args.scoring_strategy)
        self._has_devices: Final = DRA_EXTENDED_RESOURCE in self.handle.feature_gates
        self._is_first: Final = self._has_devices and self.handle.version == SchedulerVersion.V1_34
        self._backed: Final = self._backed_in_1_34 if self._is_first else self._backed_by_devices
        self._absent: Final = _unlisted if self._is_first else self._backed_and_absent
        self._refuses_sidecars: Final = (
            self.handle.version < SchedulerVersion.V1_37
            and _SIDECARS not in self.handle.feature_gates
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Store the pod's requests, and what a pod that waits for its resize has of them."""
        if self._refuses_sidecars and any(map(resources.is_sidecar, pod.spec.init_containers)):
            return _NO_SIDECARS
        state.write(_REQUESTS, pod.spec_requests)
        if waits_for_resize(pod.pod, self.handle.feature_gates):
            node = nodes.position(pod.spec.node_name)
            held = nodes[node].pods if node is not None else ()
            for cached in held:
                if cached.uid == pod.uid:
                    state.write(_HELD, cached.requests.resources)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes that are short of a resource, each with all its shortages."""
        requests, held = state.read(_REQUESTS), state.find(_HELD) or {}
        names = _in_order(requests)
        backed, classes = self._backed(names), self._devices.classes
        rejected: list[tuple[BoolArray, Status]] = [
            (nodes.pod_count >= nodes.allocatable(resources.PODS), _TOO_MANY_PODS)
        ]
        for name in names:
            missing = max(0, requests[name] - held.get(name, 0))
            short = nodes.unrequested(name) < missing
            if self._is_ignored(name) or not np.count_nonzero(short):
                continue
            if name in backed:
                short &= ~classes.needs_devices(nodes, name)
            rejected.append((short, unschedulable(f"Insufficient {name}")))
            # Of other resources upstream compares only what the pod does not hold already.
            whole = requests[name] if name in _NATIVE else missing
            rejected.append((short & (nodes.allocatable(name) < whole), _HOPELESS))
        return reject_together(*rejected)

    def _backed_by_devices(self, names: Iterable[str]) -> frozenset[str]:
        """Return the requested resources that may be devices'."""
        return self._devices.classes.backed_by_devices(names)

    def _backed_in_1_34(self, names: Sequence[str]) -> frozenset[str]:
        """Return the same resources; all scalar ones if none is an extended one (v1.34)."""
        if any(map(resources.is_extended_resource_name, names)):
            return self._backed_by_devices(names)
        return frozenset(names) - {*_NATIVE}

    def _backed_and_absent(self, wanted: Collection[str], node: Node) -> Collection[str]:
        """Return the requested resources that may be devices' and that the node does not offer."""
        offered = resources.node_allocatable(node.status.allocatable)
        return {name for name in self._backed_by_devices(wanted) if offered.get(name, 0) <= 0}

    @functools.cached_property
    def _devices(self) -> DraManager:
        return self.handle.shared(DraManager)

    def remedies(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> list[Remedy]:
        """Return the missing amount of each resource."""
        allocatable, requested = node.allocatable, node.requested
        remedies = []
        if node.pod_count >= node.allowed_pods:
            remedies.append(Remedy("needs room for one more pod", on_nodes="room for one more pod"))
        requests = state.read(_REQUESTS)
        for name in _in_order(requests):
            request = requests[name]
            short = request - (allocatable.get(name, 0) - requested.get(name, 0))
            if request and short > 0 and not self._is_ignored(name):
                amount = resources.count_text(name, short)
                has_room = allocatable.get(name, 0) >= request
                remedies.append(
                    Remedy(
                        f"needs {amount} more {name}",
                        short / request,
                        f"request {amount} less {name}",
                        f"free {amount} of {name}" if has_room else f"add {amount} {name}",
                        kind=f"needs more {name}",
                    )
                )
        return remedies

    def cause(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> str:
        """Name each resource of which no node has enough, with the largest free amount."""
        texts = []
        requests = state.read(_REQUESTS)
        for name in _in_order(requests):
            free, wanted = nodes.unrequested(name), requests[name]
            best = int(free.argmax())
            if wanted and not self._is_ignored(name) and free[best] < wanted:
                amount = resources.count_text(name, wanted)
                if (nodes.allocatable(name) < wanted).all():
                    texts.append(f"no node is large enough for {amount} {name}")
                    free = nodes.allocatable(name)
                    best = int(free.argmax())
                else:
                    texts.append(f"no node has {amount} {name} free")
                most = max(int(free[best]), 0)
                if most:
                    at = f"{resources.count_text(name, most)} on {nodes.name(best)}"
                    texts[-1] += f"; the most is {at}"
        return "; ".join(texts)

    def _is_ignored(self, name: str) -> bool:
        """True if the args exclude an extended resource."""
        return (
            name in self._ignored or name.partition("/")[0] in self._ignored_groups
        ) and resources.is_extended_resource_name(name)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        """Store the pod's requests for the scored resources."""
        state.write(_SCORED_REQUESTS, self._scored_requests(pod))

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """Return a score from 0 to 100 by the configured strategy."""
        # Nothing is stored if the profile disables PreScore.
        requests = state.find(_SCORED_REQUESTS) or self._scored_requests(pod)
        return score(
            nodes, self._scorer, self._scored, requests, non_zero=True, devices=self._devices
        )

    def score_placement(
        self, state: CycleState, pod_group: PodGroupInfo, assignments: PodGroupAssignments
    ) -> int:
        """Prefer the fullest placement, with the resources of the configured strategy."""
        requests = [self._scored_requests(pod) for pod, _ in assignments.proposed]
        return score_placement(assignments.placement.nodes, self._scored, requests)

    def _scored_requests(self, pod: PodInfo) -> tuple[int, ...]:
        """Return the requests to score; pod-level requests do not count, unlike in Filter."""
        return requests_of(self._scored, pod.non_zero_container_requests)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        """Pods that leave or shrink, nodes that are new or offer more, and classes of devices."""
        resizes = _RESIZE in self.handle.feature_gates
        shrinks = ActionType.UPDATE_POD_SCALE_DOWN if resizes else ActionType.NONE
        node_change = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        class_change = ActionType.ADD | ActionType.UPDATE
        events = [
            *self.on_pods(
                self.is_schedulable_after_pod_event,
                assigned=ActionType.DELETE | shrinks,
                target=shrinks,
            ),
            *self._events_of_resizes(),
            on(Node, node_change, self.is_schedulable_after_node_change),
        ]
        if self._has_devices and not self._is_first:
            hint = self.is_schedulable_after_device_class_event
            events.append(on(DeviceClass, class_change, hint))
        return events

    def _events_of_resizes(self) -> list[ClusterEventWithHint]:
        """Pods that grow take room for which a pod that fits has been waiting."""
        if RESIZE_PREEMPTION not in self.handle.feature_gates:
            return []
        grows, hint = ActionType.UPDATE_POD_SCALE_UP, self.is_schedulable_after_pod_scale_up
        return self.on_pods(hint, assigned=grows, target=grows)

    def is_schedulable_after_pod_scale_up(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if a pod on the node of a pod that waits for its resize requests more."""
        _, modified = as_kind(Pod, old, new)
        return QueueingHint(
            pod.pod.is_resize_deferred
            and modified is not None
            and modified.spec.node_name == pod.spec.node_name
        )

    def is_schedulable_after_pod_event(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if a pod has left its node or its nominated node, or resources have been freed.

        Resources are freed if this pod requests less, or if another pod on a node requests less of
        a resource that this pod needs. For a resize only the pod's own node matters.
        """
        original, modified = as_kind(Pod, old, new)
        if original is None:
            return QueueingHint.QUEUE_SKIP
        changed = modified or original
        is_elsewhere = changed.spec.node_name != pod.spec.node_name
        if is_elsewhere and waits_for_resize(pod.pod, self.handle.feature_gates):
            return QueueingHint.QUEUE_SKIP
        if modified is None:
            return QueueingHint(
                bool(original.spec.node_name or original.status.nominated_node_name)
            )
        if modified.metadata.uid == pod.uid:
            return QueueingHint.QUEUE
        return QueueingHint(bool(modified.spec.node_name) and _frees(pod, original, modified))

    def is_schedulable_after_node_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if an empty node like this could hold the pod, and the node is new or offers more.

        More means more pods, or more of a resource that the pod requests. Ignored resources of the
        configuration are not ignored here, as in upstream's hint. A resource that the node lacks,
        but devices may provide, counts as present, and as more than before.
        """
        original, modified = as_kind(Node, old, new)
        if modified is None:
            return QueueingHint.QUEUE_SKIP
        is_elsewhere = modified.metadata.name != pod.spec.node_name
        if is_elsewhere and waits_for_resize(pod.pod, self.handle.feature_gates):
            return QueueingHint.QUEUE_SKIP
        wanted = {name: count for name, count in pod.spec_requests.items() if count > 0}
        offered = resources.node_allocatable(modified.status.allocatable)
        left_to_devices = self._absent(wanted, modified)
        if not _fits_empty(wanted, offered, left_to_devices):
            return QueueingHint.QUEUE_SKIP
        if original is None:
            return QueueingHint.QUEUE
        before = resources.node_allocatable(original.status.allocatable)
        grown = any(
            offered.get(name, 0) > before.get(name, 0) for name in (resources.PODS, *wanted)
        )
        return QueueingHint(grown or bool(left_to_devices))

    def is_schedulable_after_device_class_event(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the class provides a resource of the pod, and did not before.

        The resource is the one named after a new class, or the one that the class names.
        """
        original, modified = as_kind(DeviceClass, old, new)
        if modified is None:
            return QueueingHint.QUEUE_SKIP
        name = modified.spec.extended_resource_name
        if original is None:
            called_after = f"{DEVICE_CLASS_PREFIX}{modified.metadata.name}"
            if called_after in pod.spec_requests:
                return QueueingHint.QUEUE
        elif (original.spec.extended_resource_name or "") == (name or ""):
            return QueueingHint.QUEUE_SKIP
        return QueueingHint(name is not None and name in pod.spec_requests)

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        """The pod's requests, and the node on which it waits for a resize."""
        requests = tuple(sorted(pod.spec_requests.items()))
        return requests, pod.spec.node_name, pod.pod.is_resize_deferred


def _unlisted(wanted: Collection[str], node: Node) -> Collection[str]:
    """Return the requested scalar resources that a node does not list, even with 0 (v1.34)."""
    return {*wanted} - {*_NATIVE} - node.status.allocatable.keys()


def _scorer_of(strategy: ScoringStrategy) -> Scorer:
    if strategy.type == LEAST_ALLOCATED:
        return least_allocated
    if strategy.type == MOST_ALLOCATED:
        return most_allocated
    assert strategy.requested_to_capacity_ratio is not None, "validation has seen to it"
    return requested_to_capacity_ratio(strategy.requested_to_capacity_ratio.shape)


def _in_order(requests: Mapping[str, int]) -> list[str]:
    """Return the requested resources in the order in which insufficient ones are reported.

    Upstream has no order for extended resources; here they are sorted by name.
    """
    native = [name for name in _NATIVE if requests.get(name, 0) > 0]
    others = [name for name, count in requests.items() if count > 0 and name not in _NATIVE]
    return native + sorted(others)


def _fits_empty(
    wanted: Mapping[str, int], offered: Mapping[str, int], left_out: Collection[str]
) -> bool:
    return offered.get(resources.PODS, 0) > 0 and all(
        count <= offered.get(name, 0) for name, count in wanted.items() if name not in left_out
    )


def _frees(pod: PodInfo, original: Pod, modified: Pod) -> bool:
    """Return True if an update of a pod lowers a request for a resource that `pod` requests."""
    before = resources.counted(resources.pod_requests(original, use_status=True))
    after = resources.counted(resources.pod_requests(modified, use_status=True))
    return any(
        count and before.get(name, 0) > after.get(name, 0)
        for name, count in pod.requests.resources.items()
    )
