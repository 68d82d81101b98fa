"""DynamicResources: devices for the claims of pods.

    PreEnqueue   the pod waits until all its claims exist
    PreFilter    the claims, the classes and the allocated devices
    Filter       allocated claims must be available on the node; the allocator finds devices for
                 the others (`scheduler.devices.allocator`)
    PostFilter   a claim that is available on no node of the pod is deallocated
    Score        earlier alternatives of requests are better
    Reserve      the devices are taken, in memory
    PreBind      the claims are written, and devices become ready (`ClaimBinder`)

Extended resources that devices provide are one more claim, which PreBind creates.
Members of a pod group that are scheduled in one cycle share allocations in flight, as upstream on
any node; the first that is written counts, and the other members fail in PreBind and are tried
again. Upstream may bind a member to a node that its devices cannot reach; here it fails too. Nodes
whose devices and usage are equal get one answer.
Mirrors `pkg/scheduler/framework/plugins/dynamicresources/*.go`, v1.36.3.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec.structs import replace

from scheduler.api.core import Node, Pod
from scheduler.api.dynamic_resources import (
    FINALIZER,
    ClaimError,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
    claim_referenced_by,
    frees,
    frees_if_deleted,
    is_claim_for_extended_resources,
    is_controlled_by,
    is_dra_extended_resource_name,
    names_claim,
)
from scheduler.api.node_selectors import parse_node_selector
from scheduler.api.resources import is_extended_resource_name
from scheduler.config.types import DYNAMIC_RESOURCE_ALLOCATION
from scheduler.config.versions import SchedulerVersion
from scheduler.devices.allocator import Allocator
from scheduler.devices.classes import DRA_EXTENDED_RESOURCE
from scheduler.devices.manager import DraManager
from scheduler.devices.results import allocation_result
from scheduler.devices.rules import BINDING_CONDITIONS
from scheduler.framework.arithmetic import default_normalize_score
from scheduler.framework.cycle_state import CLAIM_STATUSES, CycleStateError
from scheduler.framework.events import (
    ActionType,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    as_kind,
    on,
)
from scheduler.framework.interface import Plugin, Remedy
from scheduler.framework.status import Status, error, skip, unresolvable, unschedulable
from scheduler.framework.types import PreBindPreFlightResult
from scheduler.plugins._queueing_hints import updated_self
from scheduler.plugins.dynamic_resources.args import DynamicResourcesArgs
from scheduler.plugins.dynamic_resources.binding_conditions import (
    DeviceBindingError,
    is_binding_timed_out,
    is_ready_for_binding,
)
from scheduler.plugins.dynamic_resources.claim_binder import ClaimBinder
from scheduler.plugins.dynamic_resources.claim_owners import ClaimOwners
from scheduler.plugins.dynamic_resources.explanation import MissingDevices
from scheduler.plugins.dynamic_resources.extended_resources import (
    IN_MEMORY,
    claim_in_memory,
    extended_requests,
    requests_by_container,
)
from scheduler.plugins.dynamic_resources.filtering import NodeFilter, claims_of_next
from scheduler.plugins.dynamic_resources.node_allocatable import (
    NODE_ALLOCATABLE_RESOURCES,
    RULES_OF_1_36,
    RULES_OF_1_37,
    NodeAllocatable,
)
from scheduler.plugins.dynamic_resources.scoring import scores, scores_of_new_claims
from scheduler.plugins.dynamic_resources.state import (
    STATE,
    ClaimState,
    StateData,
    claims_of_group,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from scheduler.api.dynamic_resources import AllocationResult, ClaimReference
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.status import NodeToStatus, Rejections
    from scheduler.framework.types import PostFilterResult
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo

_DEALLOCATED: Final = unschedulable("deallocation of ResourceClaim completed")
_RELEASED: Final = unresolvable("ResourceClaim unreserved for PodGroup")
_DELETED: Final = unschedulable("deletion of ResourceClaim completed")
_DISABLED: Final = unschedulable("plugin disabled")
_NOTHING_TO_DEALLOCATE: Final = unschedulable("no new claims to deallocate")
_STILL_NOT_SCHEDULABLE: Final = unschedulable("still not schedulable")


_DEFAULT_BINDING_TIMEOUT_SECONDS: Final = 600.0
_PRIORITIZED_LIST: Final = "DRAPrioritizedList"
PRE_QUEUEING_HINTS: Final = "SchedulerPreQueueingHints"


class DynamicResourcesError(Exception):
    """An object is not as the API server accepts it, or state is missing. Upstream's text."""


class DynamicResources(Plugin):
    """Allocate devices for the claims of pods.

    Without the gate DynamicResourceAllocation a profile may still name the plugin, which then does
    nothing.
    """

    only_ranks = True
    ignores_resizes = True
    points_since: ClassVar = {"score": SchedulerVersion.V1_35}
    Args = DynamicResourcesArgs
    args: DynamicResourcesArgs
    reads = ("resourceclaims", "deviceclasses", "resourceslices", "devicetaintrules", "podgroups")

    def __init__(self) -> None:
        gates, version = self.handle.feature_gates, self.handle.version
        self._is_enabled: Final = DYNAMIC_RESOURCE_ALLOCATION in gates
        self._owners: Final = ClaimOwners(self.handle)
        filter_timeout, binding_timeout = self.args.filter_timeout, self.args.binding_timeout
        self._filter_timeout_seconds: Final = filter_timeout.seconds if filter_timeout else 0.0
        self._binding_timeout_seconds: Final = (
            binding_timeout.seconds if binding_timeout else _DEFAULT_BINDING_TIMEOUT_SECONDS
        )
        of_new = version < SchedulerVersion.V1_36
        self._scores: Final = scores_of_new_claims if of_new else scores
        has_implicit = version >= SchedulerVersion.V1_35
        self._makes_requests: Final = extended_requests if has_implicit else requests_by_container
        self._may_be_devices: Final = (
            is_dra_extended_resource_name if has_implicit else is_extended_resource_name
        )
        since_1_37 = version >= SchedulerVersion.V1_37
        rules = RULES_OF_1_37 if since_1_37 else RULES_OF_1_36
        self._allocatable_rules: Final = rules if NODE_ALLOCATABLE_RESOURCES in gates else None
        #: PostFilter gives no reason in 1.37 if it changes no claim.
        self._gives_reasons: Final = not since_1_37
        self._frees_devices: Final = frees_if_deleted if since_1_37 else frees
        deletion = ActionType.DELETE if since_1_37 else ActionType.NONE
        self._claim_actions: Final = ActionType.ADD | ActionType.UPDATE | deletion
        narrowing = {EventResource.RESOURCE_CLAIM: self.pods_of_claim}
        #: By kind: which pods a change is about.
        self.pre_queueing_hints: Final = narrowing if PRE_QUEUEING_HINTS in gates else {}
        if DRA_EXTENDED_RESOURCE in gates:
            self.handle.on_change(
                DeviceClass, lambda old, new: self._devices.classes.follow_informer()
            )

    @functools.cached_property
    def _devices(self) -> DraManager:
        return self.handle.shared(DraManager)

    @functools.cached_property
    def _binder(self) -> ClaimBinder:
        return ClaimBinder(
            self.handle,
            self._devices.claims,
            self._owners,
            timeout_seconds=self._binding_timeout_seconds,
        )

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Reject a pod unless all its claims exist."""
        if not self._is_enabled:
            return None
        try:
            self._claims_of(pod.pod)
        except ClaimError as failure:
            return unresolvable(str(failure))
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Collect the claims and check them; skip pods without claims."""
        state.write(STATE, StateData())
        if not self._is_enabled:
            return skip()
        try:
            claims = self._claims_of(pod.pod)
            entries = [e for e in pod.spec.resource_claims if claim_referenced_by(pod.pod, e)]
            users = [self._owners.user(pod.pod, each) for each in entries]
        except ClaimError as failure:
            return unresolvable(str(failure))
        data = StateData([ClaimState(c, user=user) for c, user in zip(claims, users, strict=True)])
        group_claims = claims_of_group(state)
        self._add_extended_claim(data, pod)
        if not data.claims:
            return skip()
        for entry in data.claims:
            try:
                reason = self._prepare(entry, group_claims)
            except DynamicResourcesError as failure:
                return error(failure)
            if reason:
                return unresolvable(reason)
        if any(entry.claim.status.allocation is None for entry in data.claims):
            self._devices.refresh()
            data.allocator = Allocator(
                state=self._devices.claims.allocated,
                class_of=self._class,
                verdicts=self._devices.verdicts,
                gates=self._devices.gates,
                rules=self._devices.rules,
            )
        state.write(STATE, data)
        if self._allocatable_rules is not None:
            state.write(CLAIM_STATUSES, data.claim_statuses)
        return None

    def _prepare(self, state: ClaimState, group_claims: Container[str]) -> str:
        """Return why a claim cannot be used or allocated now; empty if it can.

        An allocation in flight can be shared with the members that are scheduled in one cycle.
        """
        claim = state.claim
        allocation = claim.status.allocation
        if allocation is not None:
            if allocation.node_selector is not None:
                state.available_on = parse_node_selector(allocation.node_selector)
                if state.available_on.errors:
                    raise DynamicResourcesError(", ".join(map(str, state.available_on.errors)))
            return ""
        pending = self._devices.claims.pending_allocation(state.uid)
        if pending is not None and state.uid in group_claims:
            state.pending = pending
            return ""
        if pending is not None:
            return f"resource claim {claim.key} is in the process of being allocated"
        return "" if state.is_extended else self._wrong_class(claim)

    def _wrong_class(self, claim: ResourceClaim) -> str:
        """Return the reason if a class that a claim requests does not exist."""
        for request in claim.spec.devices.requests:
            if request.exactly is not None:
                classes = [(request.name, request.exactly.device_class_name)]
            elif request.first_available and _PRIORITIZED_LIST not in self.handle.feature_gates:
                return (
                    f"resource claim {claim.key}, request {request.name}: has subrequests, "
                    f"but the {_PRIORITIZED_LIST} feature is disabled"
                )
            elif request.first_available:
                classes = [
                    (f"{request.name}/{sub.name}", sub.device_class_name)
                    for sub in request.first_available
                ]
            else:
                return f"resource claim {claim.key}, request {request.name}: unknown request type"
            for name, class_name in classes:
                if not class_name:
                    raise DynamicResourcesError(f"request {name}: unsupported request type")
                if self._class(class_name) is None:
                    return f"request {name}: device class {class_name} does not exist"
        return ""

    def _class(self, name: str) -> DeviceClass | None:
        return self._devices.classes.named(name)

    def _add_extended_claim(self, data: StateData, pod: PodInfo) -> None:
        """Add the claim for extended resources if devices may provide one of them."""
        if DRA_EXTENDED_RESOURCE not in self.handle.feature_gates:
            return
        requests = pod.spec_requests
        names = [name for name, count in requests.items() if count and self._may_be_devices(name)]
        if not self._devices.classes.backed_by_devices(names):
            return
        data.extended_resources = {name: requests[name] for name in names}
        for claim in self._devices.claims.list(pod.namespace):
            # Left from an earlier attempt: PostFilter deletes it.
            if is_claim_for_extended_resources(pod.pod, claim):
                break
        else:
            claim = claim_in_memory(pod.pod)
        data.claims.append(ClaimState(claim, is_extended=True))

    def _new_uid(self) -> str:
        """Return a random UUID, version 4."""
        digits = f"{self.handle.rng.randrange(2**128):032x}"
        variant = "89ab"[int(digits[16], 16) % 4]
        return (
            f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
        )

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes that cannot have the devices of all claims."""
        data = state.read(STATE)
        if not data.claims:
            return None
        rules, check = self._allocatable_rules, None
        if rules is not None:
            is_reserved = functools.partial(self._owners.is_reserved, pod.pod)
            check = NodeAllocatable(rules, data, pod.pod, self._devices, is_reserved=is_reserved)
        return NodeFilter(
            data,
            pod.pod,
            manager=self._devices,
            is_late=self._is_late,
            monotonic=self.handle.monotonic,
            timeout_seconds=self._filter_timeout_seconds,
            may_pause=state.may_pause,
            allocatable=check,
            next_claims=claims_of_next(state, self._claims_of, self._devices.claims),
            makes_requests=self._makes_requests,
        ).run(nodes)

    def remedies(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> list[Remedy]:
        """Name the requests, constraints and counters that are in the way."""
        data = state.read(STATE)
        changes: list[Remedy] = []
        for entry in data.claims:
            claim, matcher = entry.claim, entry.available_on
            if matcher is not None and not matcher.matches(node.node):
                changes.append(Remedy(f"claim {claim.key} has devices that this node cannot reach"))
            elif self._is_late(claim):
                changes.append(Remedy(f"claim {claim.key} has devices that are not ready"))
        claims = [entry.claim for entry in data.to_allocate if entry.claim.spec.devices.requests]
        if changes or not claims:
            return changes
        missing = MissingDevices(self._devices, self._devices.groups.node_pools(node.node))
        return [Remedy(reason) for reason in missing.reasons(claims)]

    def _is_late(self, claim: ResourceClaim) -> bool:
        """Return True if devices of an allocated claim have failed or are not ready in time."""
        has_conditions = self.handle.feature_gates >= BINDING_CONDITIONS
        if claim.status.allocation is None or not has_conditions:
            return False
        try:
            is_ready = is_ready_for_binding(claim)
        except DeviceBindingError:
            return True
        return not is_ready and is_binding_timed_out(
            claim, self.handle.now(), self._binding_timeout_seconds
        )

    async def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeToStatus
    ) -> tuple[PostFilterResult | None, Status]:
        """Deallocate a claim that is not available on some node and that nothing else uses.

        A claim for extended resources of an earlier attempt is deleted. Upstream chooses any of
        several claims; here it is the first. Fails, with upstream's text, if PreFilter did not run,
        because another plugin's PreFilter rejected the pod.
        """
        if not self._is_enabled:
            return None, _DISABLED
        if pod.spec.node_name and self.name in state.skip_filter_plugins:
            return None, unschedulable()
        data = state.find(STATE)
        if data is None:
            return None, error(CycleStateError(STATE))
        if not data.claims:
            return None, _NOTHING_TO_DEALLOCATE if self._gives_reasons else unschedulable()
        for entry in data.claims:
            users = [user.uid for user in entry.claim.status.reserved_for]
            if entry.is_unavailable and not entry.is_extended and users in ([], [pod.uid]):
                await self._binder.deallocate(entry.claim)
                return None, _DEALLOCATED
        extended = data.extended_claim
        if extended is not None and extended.metadata.name != IN_MEMORY:
            await self._binder.delete(extended)
            return None, _DELETED
        if await self._release_for_group(pod.pod):
            return None, _RELEASED
        return None, _STILL_NOT_SCHEDULABLE if self._gives_reasons else unschedulable()

    async def _release_for_group(self, pod: Pod) -> bool:
        """Take an allocated claim from the pod's group, if no member has a node.

        Raises ClaimError.
        """
        for (name, must_be_own), uid in self._owners.claims_to_release(pod):
            claim = self._devices.claims.get(name, pod.metadata.namespace)
            if claim is None:
                raise ClaimError(f'could not find ResourceClaim "{pod.metadata.namespace}/{name}"')
            if must_be_own and not is_controlled_by(claim, uid):
                continue
            is_held = claim.status.allocation is not None and self._owners.is_reserved(pod, claim)
            if is_held and await self._binder.release(claim, uid):
                return True
        return False

    def post_filter_is_idle(self, state: CycleState, pod: PodInfo) -> bool:
        """True for a pod without claims."""
        data = state.find(STATE)
        return data is not None and not data.claims

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        return self._scores(state.read(STATE), nodes)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        return default_normalize_score(scores)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Take the devices for the claims, until they are written.

        Raises `DynamicResourcesError` if Filter has found none.
        """
        data = state.read(STATE)
        to_allocate, group_claims = data.to_allocate, claims_of_group(state)
        data.reserved_statuses = pod.pod.status.node_allocatable_resource_claim_statuses
        for entry in data.claims:
            if entry.pending is not None:
                self._take(entry, entry.claim, entry.pending, group_claims)
                selector = entry.pending.node_selector
                node = self.handle.snapshot.get(node_name).node
                entry.is_unreachable = selector is not None and not parse_node_selector(
                    selector
                ).matches(node)
        if not to_allocate:
            return
        node_allocation = data.reserved = data.node_allocation(node_name)
        if node_allocation is None:
            if all(entry.is_extended for entry in to_allocate):
                # The node provides the extended resources without devices.
                return
            raise DynamicResourcesError("claim allocation not found for node")
        for entry, allocated in zip(to_allocate, node_allocation.claims, strict=True):
            claim = entry.claim
            rules, node_pools = self._devices.rules.results, node_allocation.node_pools
            result = allocation_result(allocated, node_pools, rules, self._new_uid)
            if entry.is_extended and node_allocation.extended_claim is not None:
                claim = node_allocation.extended_claim
                entry.uid = entry.uid or self._new_uid()
            self._take(entry, claim, result, group_claims)
            names = ", ".join(f"{r.driver}/{r.pool}/{r.device}" for r in result.devices.results)
            state.note(f"devices for claim {claim.key}: {names or 'none'}")

    def _take(
        self,
        state: ClaimState,
        claim: ResourceClaim,
        result: AllocationResult,
        group_claims: set[str],
    ) -> None:
        """Take the devices of an allocation in memory, or share them if they are taken already."""
        state.allocation = result
        metadata = claim.metadata
        if FINALIZER not in metadata.finalizers:
            metadata = replace(metadata, finalizers=(*metadata.finalizers, FINALIZER))
        status = replace(claim.status, allocation=result)
        taken = replace(claim, metadata=metadata, status=status)
        self._devices.claims.signal_pending_allocation(state.uid, taken)
        group_claims.add(state.uid)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Give the devices back, and remove the pod from the users of its claims."""
        data = state.find(STATE)
        if data is None:
            return
        tracker, group_claims = self._devices.claims, claims_of_group(state)
        for entry in data.claims:
            claim = entry.claim
            if tracker.remove_pending_allocation(entry.uid, force=False):
                tracker.restore(claim)
                group_claims.discard(entry.uid)
            if entry.is_extended:
                if claim.metadata.name != IN_MEMORY:
                    work = self._binder.undo_creation(claim, pod.pod)
                    self.handle.spawn(work, f"delete {claim.key}")
            elif claim.status.allocation is not None and claim.is_reserved_for(pod.uid):
                work = self._binder.give_up(claim, pod.pod)
                self.handle.spawn(work, f"release {claim.key}")
        if data.reserved_statuses:
            self.handle.spawn(self._binder.clear_statuses(pod.pod), f"clear {pod.key}")

    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> PreBindPreFlightResult:
        return PreBindPreFlightResult(allow_parallel=True, skip=not state.read(STATE).claims)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Write the claims, and wait until their devices are ready.

        Raises the errors of `ClaimBinder.bind`; then the pod is retried.
        """
        await self._binder.bind(state.read(STATE), pod.pod, node_name)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        if not self._is_enabled:
            return []
        add_or_update = ActionType.ADD | ActionType.UPDATE
        node_change = ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        pod_change = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
        return [
            on(Node, ActionType.ADD | node_change),
            on(ResourceClaim, self._claim_actions, self.is_schedulable_after_claim_change),
            *self.on_pods(self.is_schedulable_after_pod_change, target=pod_change),
            on(DeviceClass, add_or_update),
            on(ResourceSlice, add_or_update),
        ]

    def is_schedulable_after_claim_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if devices were deallocated, or a claim of this pod is new or has a new status.

        Skip while not all of the pod's claims exist.
        """
        original, modified = as_kind(ResourceClaim, old, new)
        if modified is None:
            return QueueingHint(self._frees_devices(original, modified))
        try:
            claims = self._claims_of(pod.pod)
        except ClaimError:
            return QueueingHint.QUEUE_SKIP
        if self._frees_devices(original, modified):
            return QueueingHint.QUEUE
        if all(claim.metadata.uid != modified.metadata.uid for claim in claims):
            return QueueingHint.QUEUE_SKIP
        return QueueingHint(original is None or original.status != modified.status)

    def pods_of_claim(
        self, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> Callable[[PodInfo], bool] | None:
        """Return which pods name a changed claim; None if the change may help any pod."""
        claim = new or old
        if claim is None or self._frees_devices(old, new):
            return None
        return lambda info: names_claim(info.pod, claim)

    def is_schedulable_after_pod_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if this pod was updated and all its claims exist now."""
        modified = updated_self(pod, None, new)
        if modified is None:
            return QueueingHint.QUEUE_SKIP
        try:
            self._claims_of(modified)
        except ClaimError:
            return QueueingHint.QUEUE_SKIP
        return QueueingHint.QUEUE

    def _claims_of(self, pod: Pod) -> list[ResourceClaim]:
        """Return a pod's claims; raises `ClaimError` if one is missing or not the pod's."""
        entries = pod.spec.resource_claims
        if not entries:
            return []
        references: Iterable[ClaimReference | None] = (
            claim_referenced_by(pod, entry) for entry in entries
        )
        return [self._claim(pod, reference) for reference in references if reference is not None]

    def _claim(self, pod: Pod, reference: ClaimReference) -> ResourceClaim:
        name, namespace = reference.name, pod.metadata.namespace
        claim = self._devices.claims.get(name, namespace)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{name}" is being deleted')
        if reference.must_be_own:
            self._owners.ensure_is_for_pod(pod, claim)
        return claim
