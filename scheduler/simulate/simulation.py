"""A cluster to ask "what if": as it was read, settled, with the models of its surroundings."""

from __future__ import annotations

import contextlib
import gc
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scheduler.api.selectors import parse_selector_text
from scheduler.assembly.simulated_cluster import SimulatedCluster
from scheduler.client import NODES, PODS
from scheduler.collector import paused_collection
from scheduler.config import DEFAULT_SCHEDULER_VERSION, SchedulerVersion
from scheduler.explain.cluster import ClusterError
from scheduler.simulate.controllers.budgets import Budgets
from scheduler.simulate.controllers.pods import Kubelets, Owners
from scheduler.simulate.controllers.volumes import Volumes
from scheduler.simulate.course import Course
from scheduler.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from scheduler.api.core import Node, Pod
    from scheduler.config import FeatureGates, KubeSchedulerConfiguration
    from scheduler.explain.cluster import Cluster
    from scheduler.explain.references import MissingKinds
    from scheduler.framework.interface import Plugin


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A cluster as it was read, and the scheduler in it."""

    cluster: Cluster
    missing: MissingKinds
    config: KubeSchedulerConfiguration
    feature_gates: FeatureGates
    version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION
    plugins: tuple[type[Plugin] | str, ...] = ()

    def nodes(self, *, name: str = "", labels: str = "") -> list[Node]:
        """Return the node of a name, or the nodes with labels as kubectl reads them, by name.

        Raises `ClusterError` if there is none, `SelectorError` for labels that cannot be read.
        """
        nodes = self.cluster.nodes
        if labels:
            selector = parse_selector_text(labels)
            found = [node for node in nodes if selector.matches(node.metadata.labels)]
        else:
            found = [node for node in nodes if node.metadata.name == name]
        if not found:
            what = f"no node has the labels {labels}" if labels else f"there is no node {name}"
            raise ClusterError(what)
        return sorted(found, key=lambda node: node.metadata.name)

    def warnings(self, pods: Iterable[Pod]) -> tuple[str, ...]:
        """Return a line for each kind that the input does not have and that pods refer to."""
        lines = self.missing.warnings(pods)
        return tuple(f"{line}; what is said of them is unsure" for line in lines)

    @contextlib.asynccontextmanager
    async def simulation(self, *, settles: bool = True) -> AsyncIterator[Simulation]:
        """Yield the cluster in virtual time. By default its waiting pods have been decided."""
        with paused_collection():
            gc.collect(0)  # in the pause nothing else frees what has become garbage
            simulation = Simulation(self)
            try:
                if settles:
                    await simulation.cluster.settle()
                simulation.course.begin()
                yield simulation
            finally:
                await simulation.cluster.close()


class Simulation:
    """A simulated cluster with kubelets, owners, budgets and volumes, and a record of its course.

    Time begins after the last time in the cluster, so that equal input gives equal output.
    """

    def __init__(self, situation: Situation) -> None:
        self.cluster: Final = SimulatedCluster(
            situation.config,
            plugins=situation.plugins,
            feature_gates=situation.feature_gates,
            version=situation.version,
            clock=VirtualClock(_after(situation.cluster)),
        )
        kubelets, owners = Kubelets(self.cluster), Owners(self.cluster)
        self.budgets: Final = Budgets(self.cluster, kubelets)
        Volumes(self.cluster)
        self.course: Final = Course(self.cluster, owners.replaced, situation.missing)
        nodes, pods, others = situation.cluster
        self.cluster.api.load({NODES.plural: nodes, **others, PODS.plural: pods})
        self.budgets.start()


def _after(cluster: Cluster) -> float:
    """Return a whole second after the creation of all nodes and pods."""
    objects: Iterable[Node | Pod] = (*cluster.nodes, *cluster.pods)
    times = (obj.metadata.creation_timestamp for obj in objects)
    latest = max((time.timestamp() for time in times if time is not None), default=0.0)
    return math.floor(latest) + 1.0
