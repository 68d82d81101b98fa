"""A cluster in which a pod preempts: real filters, a handle that one can read."""

from collections.abc import Mapping, Sequence
from typing import cast

from scheduler.api.core import Pod
from scheduler.framework import (
    CycleState,
    NodeToStatus,
    Plugin,
    PostFilterResult,
    Status,
    unschedulable,
)
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from scheduler.testing.doubles import FakeLister
from tests.runtime.profiles import framework_of

PREEMPTOR = make_pod("preemptor", priority=10, requests={"cpu": "4"})


def running(name: str, node_name: str, *, priority: int = 0, cpu: str = "4") -> Pod:
    """A pod that fills its node, unless it asks for less."""
    return make_pod(name, node_name=node_name, priority=priority, requests={"cpu": cpu})


class Scene:
    """Nodes of four CPUs with these pods on them, and one pod that preempts."""

    def __init__(
        self,
        *pods: Pod,
        preemptor: Pod = PREEMPTOR,
        nodes: str = "",
        filters: Sequence[type[Plugin]] = (),
        plugin: type[DefaultPreemption] = DefaultPreemption,
        args: Mapping[str, object] | None = None,
        seed: int = 0,
    ) -> None:
        names = nodes.split() or sorted({pod.spec.node_name for pod in pods})
        self.snapshot = snapshot_of([make_node(name) for name in names], pods)
        listers = {"pods": FakeLister([*pods, preemptor]), "poddisruptionbudgets": FakeLister()}
        self.handle = FakeHandle(self.snapshot, listers=listers, seed=seed)
        framework = framework_of(NodeResourcesFit, *filters, handle=self.handle)
        created = Registry([plugin]).create(plugin.name, args, self.handle)
        self.plugin = cast("DefaultPreemption", created)
        self.pod = PodInfo(preemptor)
        self.state = CycleState()
        framework.pre_filters.run(self.state, self.pod, self.snapshot.nodes)

    def statuses(self, **others: Status) -> NodeToStatus:
        """Preemption may help everywhere, but for the nodes given."""
        statuses = NodeToStatus(self.snapshot.table.names, self.snapshot.table.row_of)
        for name in self.snapshot.names:
            statuses.set(name, others.get(name, unschedulable("no")))
        return statuses

    async def post_filter(self, **others: Status) -> tuple[PostFilterResult | None, Status | None]:
        """Preempt, and let what goes on in the background end."""
        answer = await self.plugin.post_filter(self.state, self.pod, self.statuses(**others))
        for work in self.handle.spawned:
            await work
        self.handle.spawned.clear()
        return answer
