"""Evicts the victims of a preemption and clears nominations to the node of less important pods.

    start --all victims but the last, in parallel--> the last victim --> done
                    |                                     |
                    +-------------- a failure ------------+--> done, the preemptor is activated

Until the end the preemptor is kept out of the active queue (`is_running_preemption`), so that it
does not preempt twice. During the eviction of the last victim it may enter the queue as soon as
that victim is deleted: the preemptor may wait for this event.
Source: `pkg/scheduler/framework/preemption/executor.go`; KEP-4832.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.core import ObjectReference, Pod
from scheduler.api.references import reference_to
from scheduler.config.versions import SchedulerVersion
from scheduler.framework.status import Code, Status
from scheduler.framework.types import Condition, NominatingInfo, NominatingMode
from scheduler.klog import V2

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.api.pod_groups import PodGroup
    from scheduler.framework.handle import Handle
    from scheduler.preemption.importance import Candidate
    from scheduler.snapshot.pod_info import PodInfo

_log: Final = logging.getLogger(__name__)

#: The feature gate behind preemption in the background.
ASYNC_PREEMPTION: Final = "SchedulerAsyncPreemption"

#: More would only wait for one another in the queue of writes.
_EVICTIONS_AT_ONCE: Final = 64

_DISRUPTION_TARGET: Final = "DisruptionTarget"
_NOWHERE: Final = NominatingInfo("", NominatingMode.OVERRIDE)


class Preemptor(NamedTuple):
    """The pod or the pod group for which victims are evicted, and its pods by key."""

    type: str
    uid: str
    key: str
    scheduler_name: str
    priority: int
    reference: ObjectReference
    pods: Mapping[str, PodInfo]

    @classmethod
    def from_pod(cls, pod: PodInfo) -> Preemptor:
        reference = reference_to("v1", "Pod", pod.pod.metadata)
        name = pod.spec.scheduler_name
        return cls("pod", pod.uid, pod.key, name, pod.priority, reference, {pod.key: pod})

    @classmethod
    def from_pod_group(cls, pod_group: PodGroup, pods: Sequence[PodInfo]) -> Preemptor:
        metadata = pod_group.metadata
        return cls(
            "podgroup",
            metadata.uid,
            pod_group.key,
            # All members have the same.
            pods[0].spec.scheduler_name,
            pod_group.priority,
            reference_to("scheduling.k8s.io/v1alpha2", "PodGroup", metadata),
            {pod.key: pod for pod in pods},
        )


class Executor:
    """Evicts victims for one plugin."""

    def __init__(self, plugin_name: str, handle: Handle) -> None:
        self._plugin_name: Final = plugin_name
        self._handle: Final = handle
        #: The uids of preemptors, and the last victim once its eviction has started.
        self._preempting: Final[set[str]] = set()
        self._last_victims: Final[dict[str, Pod]] = {}
        #: Since 1.35 victims that go already, or have gone, are left alone, and the preemptor waits
        #: until the deletion of the last one has been seen.
        self._looks_at_deletions: Final = handle.version >= SchedulerVersion.V1_35
        since_1_36 = handle.version >= SchedulerVersion.V1_36
        self._cancel: Final = self._cancel_binding if since_1_36 else self._cancel_waiting
        self._note_in_memory: Final = " (in kube-scheduler memory)." if since_1_36 else ""
        #: Since 1.36 the event of a victim refers to a pod group that preempts, but to no pod:
        #: upstream passes a wrapper of the pod to the recorder, and no scheme knows its type.
        self._refers_to_pods: Final = not since_1_36
        #: Since 1.36 victims are counted if there is one to evict, and always in the foreground;
        #: before, unless an eviction has failed in the foreground.
        self._counts_failures: Final = since_1_36

    def is_running_preemption(self, uid: str) -> bool:
        """True if a pod, or a pod group, must wait for the end of its own preemption."""
        if uid not in self._preempting:
            return False
        last = self._last_victims.get(uid)
        return last is None or (self._looks_at_deletions and self._is_not_deleted(last))

    def _is_not_deleted(self, pod: Pod) -> bool:
        """Return True until the deletion of a pod has been seen."""
        metadata = pod.metadata
        current = self._handle.lister(Pod).get(metadata.name, metadata.namespace)
        return current is not None and current.metadata.deletion_timestamp is None

    async def actuate(self, candidate: Candidate, preemptor: Preemptor) -> Status | None:
        """Evict the victims, in the background if its gate is on; return a status on failure."""
        victims = candidate.victims.pods
        if self._looks_at_deletions:
            victims = [v for v in victims if v.pod.metadata.deletion_timestamp is None]
        is_async = ASYNC_PREEMPTION in self._handle.feature_gates
        status = None if is_async else await self._make_room(candidate.name, preemptor, victims)
        is_counted = (bool(victims) or not is_async) if self._counts_failures else status is None
        if is_counted:
            self._handle.metrics.preemption_victims.observe(len(candidate.victims.pods))
        if victims and is_async:
            self._preempting.add(preemptor.uid)
            work = self._make_room_in_background(candidate.name, preemptor, victims)
            self._handle.spawn(work, f"preempt for {preemptor.key}")
        return status

    async def _make_room(
        self, node_name: str, preemptor: Preemptor, victims: Sequence[PodInfo]
    ) -> Status | None:
        try:
            await self._preempt_pods(victims, preemptor, node_name)
        except Exception as failure:  # noqa: BLE001 - any failure is the status
            return Status(Code.ERROR, str(failure), cause=failure)
        await self._clear_nominations(node_name, preemptor)
        return None

    async def _make_room_in_background(
        self, node_name: str, preemptor: Preemptor, victims: Sequence[PodInfo]
    ) -> None:
        _log.log(
            V2,
            "Start the preemption asynchronously",
            {"preemptor": preemptor.key, "node": node_name, "numVictims": len(victims)},
        )
        metrics = self._handle.metrics
        started, succeeded = metrics.stopwatch(), False
        try:
            cleared = await self._clear_nominations(node_name, preemptor)
            await self._preempt_all(victims, preemptor, node_name)
            succeeded = cleared
        except Exception as failure:  # noqa: BLE001 - no other task sees the error
            pair = {"preemptor": preemptor.key, "err": failure}
            _log.error("Error occurred during preemption", pair)
        finally:
            self._preempting.discard(preemptor.uid)
            self._last_victims.pop(preemptor.uid, None)
            metrics.preemption_ended("success" if succeeded else "error", started)
        if not succeeded:
            # There may be no event for a pod whose victims were not evicted. There is one if the
            # binding of the last was cancelled, although 1.37 activates the preemptor then, too.
            self._handle.activate(preemptor.pods)

    async def _preempt_all(
        self, victims: Sequence[PodInfo], preemptor: Preemptor, node_name: str
    ) -> None:
        """Evict all victims, the last one only after all others succeeded."""
        *others, last = victims
        await self._preempt_pods(others, preemptor, node_name)
        self._last_victims[preemptor.uid] = last.pod
        await self._preempt_pod(last, preemptor, node_name)

    async def _preempt_pods(
        self, victims: Sequence[PodInfo], preemptor: Preemptor, node_name: str
    ) -> None:
        """Evict victims, some at a time; the first failure is raised."""
        left = iter(victims)

        async def work() -> None:
            for victim in left:
                await self._preempt_pod(victim, preemptor, node_name)

        await self._handle.run_in_parallel(work() for _ in victims[:_EVICTIONS_AT_ONCE])

    async def _preempt_pod(self, victim: PodInfo, preemptor: Preemptor, node_name: str) -> None:
        """Evict one victim: cancel its binding if it is not bound yet, else delete it."""
        note = f"Preempted by {preemptor.type} {preemptor.uid} on node {node_name}"
        if self._cancel(victim):
            note += self._note_in_memory
        elif not await self._evict(victim, preemptor):
            _log.log(
                V2,
                "Victim Pod is already deleted",
                {"preemptor": preemptor.key, "victim": victim.key, "node": node_name},
            )
            return
        is_related = self._refers_to_pods or preemptor.reference.kind == "PodGroup"
        self._handle.event_recorder.event(
            victim.pod,
            related=preemptor.reference if is_related else None,
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=note,
        )

    def _cancel_binding(self, victim: PodInfo) -> bool:
        """Cancel the binding cycle of a victim that is not bound yet; False if there is none."""
        waiting = self._handle.get_waiting_pod(victim.uid)
        if waiting is not None:
            return waiting.preempt(self._plugin_name, "preempted")
        in_pre_bind = self._handle.get_pod_in_pre_bind(victim.uid)
        if in_pre_bind is not None:
            return in_pre_bind.cancel_pod(f"preempted by {self._plugin_name}")
        return False

    def _cancel_waiting(self, victim: PodInfo) -> bool:
        """Reject a victim at Permit, as a plugin does; False if it is not there (up to v1.35)."""
        waiting = self._handle.get_waiting_pod(victim.uid)
        if waiting is not None:
            waiting.reject(self._plugin_name, "preempted")
        return waiting is not None

    async def _evict(self, victim: PodInfo, preemptor: Preemptor) -> bool:
        """Write the victim's disruption condition and delete it; False if it does not exist.

        Raises LookupError for a victim that does not exist, as 1.34 does.
        """
        api = self._handle.api
        condition = Condition(
            _DISRUPTION_TARGET,
            "True",
            "PreemptionByScheduler",
            f"{preemptor.scheduler_name}: preempting to accommodate a higher priority "
            f"{preemptor.type}",
        )
        exists = await api.patch_pod_status(victim.pod, condition=condition, nominating_info=None)
        if not exists and not self._looks_at_deletions:
            raise LookupError(f"the victim {victim.key} does not exist")
        return exists and await api.delete_pod(victim.pod)

    async def _clear_nominations(self, node_name: str, preemptor: Preemptor) -> bool:
        """Clear the nominations of pods of lower priority to the node.

        They may not fit there any more. Returns False if one of the writes failed.
        """
        succeeded = True
        for pod in self._handle.nominator.nominated_pods_for_node(node_name):
            if pod.priority >= preemptor.priority or not pod.pod.status.nominated_node_name:
                continue
            try:
                pod_exists = await self._handle.api.patch_pod_status(
                    pod.pod, condition=None, nominating_info=_NOWHERE
                )
            except Exception as failure:  # noqa: BLE001 - the other pods are cleared
                pair = {"pod": pod.key, "err": failure}
                _log.error("Cannot clear the nominated node of a pod", pair)
                pod_exists = False
            succeeded &= pod_exists
        return succeeded
