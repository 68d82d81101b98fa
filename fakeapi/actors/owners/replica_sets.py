"""ReplicaSets and ReplicationControllers: the number of pods that the spec demands.

Source: pkg/controller/{replicaset,replication} of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.objects import (
    is_active,
    is_ready,
    is_terminating,
    is_true,
    spec_of,
    status_of,
    with_condition,
)
from fakeapi.actors.owners.pods import Owner, deletion_rank, is_available, pod_from
from fakeapi.actors.resources import REPLICA_SETS, REPLICATION_CONTROLLERS
from fakeapi.decoding.selectors import label_selector_of
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
    from fakeapi.decoding.selectors import LabelSelector

_BURST: Final = 500


class ReplicaSets(Owner):
    """Creates and deletes pods until each ReplicaSet has as many as it demands."""

    name = "replicaset-controller"
    resource = REPLICA_SETS

    async def sync(self, key: str) -> None:
        """Create or delete pods of one ReplicaSet, then write its status."""
        owner = self.owners.objects.get(key)
        if owner is None:
            return
        pods = await self.claimed(owner, self.pods)
        active = [pod for pod in pods if is_active(pod)]
        error = None
        if not is_deleting(owner):
            missing = integer(spec_of(owner).get("replicas")) - len(active)
            if missing > 0:
                new = pod_from(self.resource, owner, mapping(spec_of(owner).get("template")))
                _, error = await self.create_pods(owner, [new] * min(missing, _BURST))
                if error is not None:
                    self.queue.retry(key)
            elif missing < 0:
                await self.delete_pods(owner, sorted(active, key=deletion_rank)[:-missing])
        status = self._status(owner, active, error)
        status |= self._terminating(pods)
        await self.update_status(self.resource, owner, status)
        self.plan_availability(key, active, integer(spec_of(owner).get("minReadySeconds")))

    def _terminating(self, pods: list[Json]) -> Json:
        return {"terminatingReplicas": sum(map(is_terminating, pods))}

    def _status(self, owner: Json, pods: list[Json], error: ActorApiError | None) -> Json:
        spec, now = spec_of(owner), self.clock.now()
        labels = labels_of(mapping(spec.get("template")))
        wait = integer(spec.get("minReadySeconds"))
        counts = {
            "fullyLabeledReplicas": sum(labels.items() <= labels_of(pod).items() for pod in pods),
            "readyReplicas": sum(is_ready(pod) for pod in pods),
            "availableReplicas": sum(is_available(pod, wait, now) for pod in pods),
            "observedGeneration": integer(metadata_of(owner).get("generation")),
        }
        status: Json = {"replicas": len(pods), **{k: v for k, v in counts.items() if v}}
        conditions = mappings(status_of(owner).get("conditions"))
        if error is None:
            conditions = [one for one in conditions if one.get("type") != "ReplicaFailure"]
        elif not is_true(owner, "ReplicaFailure"):
            # The message contains the name of a pod, each time another: it is written only once.
            condition: Json = {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate",
                "message": str(error),
            }
            conditions = with_condition(conditions, condition, times.timestamp(now))
        if conditions:
            status["conditions"] = conditions
        return status


class ReplicationControllers(ReplicaSets):
    """The same for ReplicationControllers."""

    name = "replication-controller"
    resource = REPLICATION_CONTROLLERS

    def selector_of(self, owner: Json) -> LabelSelector:
        return label_selector_of({"matchLabels": spec_of(owner).get("selector")})

    def _terminating(self, pods: list[Json]) -> Json:
        return {}  # not a field of this kind
