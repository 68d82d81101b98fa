"""The disruption controller and the eviction API: which pods may be evicted at this moment."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from scheduler.api.selectors import parse_label_selector
from scheduler.client import PODS

if TYPE_CHECKING:
    from scheduler.api.core import Pod
    from scheduler.api.workloads import PodDisruptionBudget
    from scheduler.assembly.simulated_cluster import SimulatedCluster
    from scheduler.client import Store
    from scheduler.simulate.controllers.pods import Kubelets

_KIND: Final = "poddisruptionbudgets"
_TWO_BUDGETS: Final = "it has more than one PodDisruptionBudget, which evictions do not support"


class Budgets:
    """Keeps the status of budgets up to date, and evicts pods. Created before pods are loaded.

    The scheduler sees a new status once no pod can be scheduled at this moment: a controller is
    slower than a cycle. How many pods must be healthy is computed once, in `start`: the owners do
    not scale.
    """

    def __init__(self, cluster: SimulatedCluster, kubelets: Kubelets) -> None:
        self._cluster: Final = cluster
        self._starting: Final = kubelets.starting
        self._by_namespace: Final[dict[str, list[_Budget]]] = {}
        self._by_labels: Final[dict[tuple[str, frozenset[tuple[str, str]]], list[_Budget]]] = {}
        cluster.core.informers.pods.add_event_handler(
            on_add=lambda pod, is_initial: self._count(pod),
            on_update=lambda old, new: self._count(new),
            on_delete=lambda pod, final_state_unknown: self._count(pod, is_gone=True),
        )

    def start(self) -> None:
        """Read the budgets and their pods, once all objects are loaded."""
        objects = self._cluster.api.objects(_KIND)
        for budget in objects.list():
            of_namespace = self._by_namespace.setdefault(budget.metadata.namespace, [])
            of_namespace.append(_Budget(budget, objects))
        for pod in self._cluster.pods:
            for each in self._of(pod):
                each.expected += 1
                each.count(pod, is_healthy=self._is_healthy(pod))
        for budgets in self._by_namespace.values():
            for each in budgets:
                self._publish(each)

    def evict(self, pod: Pod) -> str:
        """Evict a pod. Returns the reason why this is not allowed now, or an empty text.

        Source: `Create` in `pkg/registry/core/pod/storage/eviction.go`.
        """
        budgets = self._of(pod)
        if pod.spec.node_name and budgets:
            if len(budgets) > 1:
                return _TWO_BUDGETS
            if not budgets[0].allows(is_ready=self._is_ready(pod)):
                return f"budget {budgets[0].name}"
        self._cluster.api.terminate(PODS.plural, pod.key)
        return ""

    def _of(self, pod: Pod) -> list[_Budget]:
        """Return the budgets that select a pod, computed once for equal labels."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        of_namespace = self._by_namespace.get(namespace)
        if of_namespace is None:
            return []
        key = namespace, frozenset(labels.items())
        found = self._by_labels.get(key)
        if found is None:
            found = [each for each in of_namespace if each.selector.matches(labels)]
            self._by_labels[key] = found
        return found

    def _count(self, pod: Pod, *, is_gone: bool = False) -> None:
        for budget in self._of(pod):
            budget.count(pod, is_healthy=not is_gone and self._is_healthy(pod))
            self._cluster.after(0, functools.partial(self._publish, budget))

    def _publish(self, budget: _Budget) -> None:
        if (changed := budget.changed()) is not None:
            self._cluster.apply(changed)

    def _is_healthy(self, pod: Pod) -> bool:
        is_running = pod.metadata.deletion_timestamp is None and bool(pod.spec.node_name)
        return is_running and self._is_ready(pod)

    def _is_ready(self, pod: Pod) -> bool:
        """True if a bound pod is ready. A pod of a file may have no conditions; it is ready."""
        if pod.metadata.uid in self._starting:
            return False
        return all(each.status == "True" for each in pod.status.conditions if each.type == "Ready")


class _Budget:
    """One budget, and its healthy pods by uid. `expected` is the number of its pods."""

    def __init__(self, budget: PodDisruptionBudget, objects: Store[Any]) -> None:
        self._objects: Final = objects
        self._loaded: Final = budget
        self._healthy: Final[set[str]] = set()
        self.name: Final = budget.metadata.name
        self.selector: Final = parse_label_selector(budget.spec.selector)
        self.expected = 0

    @property
    def _desired(self) -> int:
        """The number of pods that must be healthy."""
        spec, status = self._loaded.spec, self._loaded.status
        expected = status.expected_pods or self.expected
        if spec.max_unavailable is not None:
            return max(expected - _scaled(spec.max_unavailable, expected), 0)
        if spec.min_available is not None:
            return _scaled(spec.min_available, expected)
        # An old dump: only the number of allowed disruptions is known.
        return status.desired_healthy or max(self.expected - status.disruptions_allowed, 0)

    def count(self, pod: Pod, *, is_healthy: bool) -> None:
        """Count a pod, or not."""
        (self._healthy.add if is_healthy else self._healthy.discard)(pod.metadata.uid)

    def allows(self, *, is_ready: bool) -> bool:
        """True if a pod may be evicted now."""
        healthy, desired = len(self._healthy), self._desired
        if not is_ready:
            policy = self._loaded.spec.unhealthy_pod_eviction_policy
            if policy == "AlwaysAllow" or healthy >= desired > 0:
                return True
        return healthy > desired

    def changed(self) -> PodDisruptionBudget | None:
        """Return the budget with its new status; None if the status is as before."""
        namespace = self._loaded.metadata.namespace
        stored: PodDisruptionBudget | None = self._objects.get(self.name, namespace)
        if stored is None:
            return None
        healthy, desired = len(self._healthy), self._desired
        status = replace(
            stored.status,
            disruptions_allowed=max(healthy - desired, 0),
            current_healthy=healthy,
            desired_healthy=desired,
        )
        return replace(stored, status=status) if status != stored.status else None


def _scaled(value: int | str, total: int) -> int:
    """Return a number of pods; a percentage is rounded up."""
    if isinstance(value, int):
        return value
    return -(-int(value.removesuffix("%")) * total // 100)
