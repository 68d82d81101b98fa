"""Plugins that read kinds which the scheduler itself does not: for `test_any_kind`."""

from scheduler import (
    ActionType,
    ClusterEventWithHint,
    CycleState,
    Nodes,
    Plugin,
    Pod,
    PodInfo,
    PreFilterResult,
    QueueingHint,
    Status,
    Unstructured,
    unschedulable,
)

QUOTAS = "quotas.v1.example.com"
CONFIG_MAPS = "configmaps.v1"
CHANGED = ActionType.ADD | ActionType.UPDATE | ActionType.DELETE


class CustomQuota(Plugin):
    """Limit the pods of a namespace by the custom object `pods`."""

    reads = (Pod, QUOTAS)

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> PreFilterResult | Status | None:
        quota = self.handle.lister(QUOTAS).get("pods", pod.namespace)
        running = [p for p in self.handle.lister(Pod).list(pod.namespace) if p.spec.node_name]
        if quota is not None and len(running) >= quota["spec"]["limit"]:
            return unschedulable(f"only {quota['spec']['limit']} pods are allowed")
        return None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint.on(QUOTAS, CHANGED, self.after_change)]

    def after_change(
        self, pod: PodInfo, old: Unstructured | None, new: Unstructured | None
    ) -> QueueingHint:
        grows = old is None or new is None or new["spec"]["limit"] > old["spec"]["limit"]
        return QueueingHint.QUEUE if grows else QueueingHint.QUEUE_SKIP


class RequiredQuota(CustomQuota):
    """The same, and no pod is scheduled before the kind exists."""

    required = (QUOTAS,)


class ConfigMapQuota(Plugin):
    """Limit the pods of a namespace by the ConfigMap `quota`."""

    reads = (Pod, CONFIG_MAPS)

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> PreFilterResult | Status | None:
        found = self.handle.lister(CONFIG_MAPS).get("quota", pod.namespace)
        running = [p for p in self.handle.lister(Pod).list(pod.namespace) if p.spec.node_name]
        if found is not None and len(running) >= int(found["data"]["pods"]):
            return unschedulable(f"only {found['data']['pods']} pods are allowed")
        return None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint.on(CONFIG_MAPS, CHANGED)]
