"""ReplicaSets: as many pods as they say. Source: pkg/controller/replicaset of v1.36.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.conditions import condition_of, is_ready, with_condition
from fakeapi.actors.owners.pods import (
    Owner,
    deletion_rank,
    is_active,
    is_available,
    phase_of,
    pod_from,
)
from fakeapi.actors.resources import REPLICA_SETS
from fakeapi.types import times
from fakeapi.types.objects import (
    Json,
    integer,
    is_deleting,
    labels_of,
    mapping,
    mappings,
    metadata_of,
)

if TYPE_CHECKING:
    from fakeapi.actors.client import ActorApiError

__all__ = ["ReplicaSets"]

_BURST: Final = 500


class ReplicaSets(Owner):
    """Keeps the number of each ReplicaSet's pods."""

    name = "replicaset-controller"
    resource = REPLICA_SETS

    async def sync(self, key: str) -> None:
        """Make or delete pods, then tell. Raises ActorApiError."""
        owner = self.owners.objects.get(key)
        if owner is None:
            return
        pods = await self.claimed(owner, self.pods)
        active = [pod for pod in pods if is_active(pod)]
        failure = None
        spec = mapping(owner.get("spec"))
        if not is_deleting(owner):
            missing = integer(spec.get("replicas")) - len(active)
            if missing > 0:
                template = mapping(spec.get("template"))
                made = pod_from(self.resource, owner, template)
                _, failure = await self.create_pods(owner, [made] * min(missing, _BURST))
                if failure is not None:
                    self.queue.retry(key)
            elif missing < 0:
                await self.delete_pods(owner, sorted(active, key=deletion_rank)[:-missing])
        terminating = [
            p for p in pods if is_deleting(p) and phase_of(p) not in ("Succeeded", "Failed")
        ]
        status = self._status(owner, active, len(terminating), failure)
        await self.update_status(self.resource, owner, status)
        self.plan_availability(key, active, integer(spec.get("minReadySeconds")))

    def _status(
        self, owner: Json, pods: list[Json], terminating: int, failure: ActorApiError | None
    ) -> Json:
        spec, old, now = mapping(owner.get("spec")), mapping(owner.get("status")), self.clock.now()
        labels = mapping(metadata_of(mapping(spec.get("template"))).get("labels"))
        wait = integer(spec.get("minReadySeconds"))
        counts = {
            "fullyLabeledReplicas": sum(labels.items() <= labels_of(pod).items() for pod in pods),
            "readyReplicas": sum(is_ready(pod) for pod in pods),
            "availableReplicas": sum(is_available(pod, wait, now) for pod in pods),
        }
        status: Json = {"replicas": len(pods), **{k: v for k, v in counts.items() if v}}
        status["terminatingReplicas"] = terminating
        generation = integer(metadata_of(owner).get("generation"))
        if generation:
            status["observedGeneration"] = generation
        conditions = mappings(old.get("conditions"))
        known = condition_of(owner, "ReplicaFailure").get("status") == "True"
        if failure is None:
            conditions = [one for one in conditions if one.get("type") != "ReplicaFailure"]
        elif not known:  # its words name a pod, each time another: to tell them would never end
            condition: Json = {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate",
                "message": str(failure),
            }
            conditions = with_condition(conditions, condition, times.timestamp(now))
        if conditions:
            status["conditions"] = conditions
        return status
