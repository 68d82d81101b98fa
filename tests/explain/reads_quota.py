"""A plugin that reads a ConfigMap and a kind without a type of ours."""

from scheduler import CycleState, NodeInfo, Plugin, PodInfo, Status, unschedulable


class ReadsQuota(Plugin):
    """Reject every pod, with the contents of two objects as the reason."""

    reads = ("configmaps.v1", "quotas.v1.example.com")

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        config = self.handle.lister("configmaps.v1").get("limits", pod.namespace)
        quotas = self.handle.lister("quotas.v1.example.com").list()
        shown = None if config is None else config["data"]["pods"]
        return unschedulable(f"limit {shown}, quotas {[each['spec']['pods'] for each in quotas]}")
