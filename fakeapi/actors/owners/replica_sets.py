"""ReplicaSets and ReplicationControllers: the number of pods that the spec demands.

Source: pkg/controller/{replicaset,replication} of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.objects import Object, condition, with_condition
from fakeapi.actors.owners.pods import Owner, deletion_rank, is_available, pod_from
from fakeapi.actors.resources import REPLICA_SETS, REPLICATION_CONTROLLERS
from fakeapi.decoding.selectors import label_selector_of
from fakeapi.types import times
from fakeapi.types.objects import Json, integer, mappings

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
        active = [pod for pod in pods if pod.is_active]
        error = None
        if not owner.is_deleting:
            missing = owner.replicas - len(active)
            if missing > 0:
                new = pod_from(self.resource, owner, owner.template)
                _, error = await self.create_pods(owner, [new] * min(missing, _BURST))
                if error is not None:
                    self.queue.retry(key)
            elif missing < 0:
                await self.delete_pods(owner, sorted(active, key=deletion_rank)[:-missing])
        status = self._status(owner, active, error)
        status |= self._terminating(pods)
        await self.update_status(self.resource, owner, status)
        self.plan_availability(key, active, integer(owner.spec.get("minReadySeconds")))

    def _terminating(self, pods: list[Object]) -> Json:
        return {"terminatingReplicas": sum(pod.is_terminating for pod in pods)}

    def _status(self, owner: Object, pods: list[Object], error: ActorApiError | None) -> Json:
        spec, now = owner.spec, self.clock.now()
        labels = owner.template.labels
        wait = integer(spec.get("minReadySeconds"))
        counts = {
            "fullyLabeledReplicas": sum(labels.items() <= pod.labels.items() for pod in pods),
            "readyReplicas": sum(pod.is_ready for pod in pods),
            "availableReplicas": sum(is_available(pod, wait, now) for pod in pods),
            "observedGeneration": integer(owner.generation),
        }
        status: Json = {"replicas": len(pods), **{k: v for k, v in counts.items() if v}}
        conditions = mappings(owner.status.get("conditions"))
        if error is None:
            conditions = [one for one in conditions if one.get("type") != "ReplicaFailure"]
        elif not owner.is_true("ReplicaFailure"):
            # The message contains the name of a pod, each time another: it is written only once.
            failed = condition("ReplicaFailure", "True", "FailedCreate", str(error))
            conditions = with_condition(conditions, failed, times.timestamp(now))
        if conditions:
            status["conditions"] = conditions
        return status


class ReplicationControllers(ReplicaSets):
    """The same for ReplicationControllers."""

    name = "replication-controller"
    resource = REPLICATION_CONTROLLERS

    def selector_of(self, owner: Object) -> LabelSelector:
        return label_selector_of({"matchLabels": owner.spec.get("selector")})

    def _terminating(self, pods: list[Object]) -> Json:
        return {}  # not a field of this kind
