"""The status of PodDisruptionBudgets. Source: pkg/controller/disruption of Kubernetes v1.36.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.objects import NOTHING, Object, condition, with_condition
from fakeapi.actors.owners.pods import scaled
from fakeapi.actors.resources import (
    BUDGETS,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from fakeapi.decoding.selectors import label_selector_of
from fakeapi.types import times
from fakeapi.types.objects import Json, integer, string_map, text

if TYPE_CHECKING:
    from fakeapi.actors.informer import Informer

#: The time for which an evicted pod counts as disrupted without being deleted.
_DELETION_TIMEOUT_SECONDS: Final = 120


class DisruptionBudgets(Controller):
    """Computes the allowed disruptions of each budget."""

    name = "disruption-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._budgets = self.follow(BUDGETS)
        self._pods = self.informer(PODS, self._pod_changed)
        self._sets = self.informer(REPLICA_SETS)
        self._scales: dict[str, Informer] = {
            "Deployment": self.informer(DEPLOYMENTS),
            "ReplicaSet": self._sets,
            "ReplicationController": self.informer(REPLICATION_CONTROLLERS),
            "StatefulSet": self.informer(STATEFUL_SETS),
        }
        for informer in self._scales.values():
            informer.subscribe(self._owner_changed)

    async def sync(self, key: str) -> None:
        """Write the status of one budget."""
        budget = self._budgets.objects.get(key)
        if budget is None:
            return
        selector = label_selector_of(budget.spec.get("selector"))
        pods = [
            pod
            for pod in self._pods.of_namespace(budget.namespace)
            if selector.matches(pod.labels) and not pod.has_ended
        ]
        now = self.clock.now()
        disrupted = self._disrupted(key, budget, pods, now)
        expected, desired = self._expectation(budget, pods)
        healthy = sum(
            pod.is_ready and not pod.is_deleting and pod.name not in disrupted for pod in pods
        )
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        old = budget.status
        reason, observed = "SufficientPods" if allowed else "InsufficientPods", budget.generation
        new = condition(
            "DisruptionAllowed", str(allowed > 0), reason, "", observedGeneration=observed
        )
        status: Json = {
            "observedGeneration": observed,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": with_condition(old.get("conditions"), new, times.timestamp(now)),
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        await self.update_status(BUDGETS, budget, status)

    def _disrupted(
        self, key: str, budget: Object, pods: list[Object], now: float
    ) -> dict[str, str]:
        """Return evicted pods that are not being deleted yet, for at most two minutes."""
        evicted = string_map(budget.status.get("disruptedPods"))
        left = {}
        for pod in pods:
            stamp = evicted.get(pod.name)
            if stamp is None or pod.is_deleting:
                continue
            remaining = times.epoch_seconds(stamp) + _DELETION_TIMEOUT_SECONDS - now
            if remaining > 0:
                left[pod.name] = stamp
                self.queue.add_after(key, remaining)
        return left

    def _expectation(self, budget: Object, pods: list[Object]) -> tuple[int, int]:
        """Return the expected number of pods, and the number that must be healthy."""
        spec = budget.spec
        if spec.get("maxUnavailable") is not None:
            expected = self._scale(pods)
            return expected, max(expected - scaled(spec["maxUnavailable"], expected, up=True), 0)
        minimum = spec.get("minAvailable")
        if isinstance(minimum, str):
            expected = self._scale(pods)
            return expected, scaled(minimum, expected, up=True)
        return len(pods), integer(minimum)

    def _scale(self, pods: list[Object]) -> int:
        """Return the sum of the replicas of the pods' controllers."""
        scales: dict[str, int] = {}
        for pod in pods:
            reference, namespace = pod.owner, pod.namespace
            owner = self._owner(reference, namespace)
            if owner is not None and reference.get("kind") == "ReplicaSet":
                owner = self._owner(owner.owner, namespace) or owner
            if owner is not None:
                scales[owner.uid] = owner.replicas
        return sum(scales.values())

    def _owner(self, reference: Json, namespace: str) -> Object | None:
        informer = self._scales.get(text(reference.get("kind")))
        owner = informer.get(namespace, text(reference.get("name"))) if informer else None
        same = owner is not None and owner.uid == reference.get("uid")
        return owner if same else None

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pods = [pod for pod in (old, new) if pod is not None]
        for budget in self._budgets.of_namespace(pods[0].namespace):
            selector = label_selector_of(budget.spec.get("selector"))
            if any(selector.matches(pod.labels) for pod in pods):
                self.queue.add(budget.key)

    def _owner_changed(self, old: Object | None, new: Object | None) -> None:
        before, after = (old or NOTHING).spec, (new or NOTHING).spec
        if before.get("replicas") == after.get("replicas"):
            return
        for budget in self._budgets.of_namespace((new or old or NOTHING).namespace):
            self.queue.add(budget.key)
