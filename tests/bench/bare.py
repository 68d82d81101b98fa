"""A scheduler without client, for benchmarks: what goes on in the background is dropped."""

import dataclasses
import random
from collections.abc import Coroutine, Iterable

from msgspec.structs import replace

from scheduler.api.core import Node, Pod
from scheduler.assembly.core import Core, SchedulerOptions, build_core
from scheduler.assembly.in_memory_api import InMemoryApi
from scheduler.clock import SystemClock, Turns
from scheduler.config import DEFAULT_FEATURE_GATES, FeatureGates, default_config
from scheduler.cycle.schedule_pod import RandomTie
from scheduler.plugins import SCHEME
from scheduler.snapshot import PodInfo

__all__ = ["BareScheduler"]


class BareScheduler:
    """The core with the default profile. `api` holds the objects that plugins list."""

    def __init__(
        self,
        nodes: Iterable[Node],
        running: Iterable[Pod],
        *,
        gates: FeatureGates = DEFAULT_FEATURE_GATES,
        percentage_of_nodes_to_score: int = 0,
        turns: Turns | None = None,
    ) -> None:
        self.api, rng = InMemoryApi(SystemClock()), random.Random(0)
        ports = self.api.ports(rng=rng, tie_break=RandomTie(rng), tasks=self)
        if turns is not None:
            ports = dataclasses.replace(ports, let_others_run=turns.let_others_run)
        self.metrics = ports.metrics
        config = default_config(SCHEME._replace(gates=gates))
        config = replace(config, percentage_of_nodes_to_score=percentage_of_nodes_to_score)
        self.core: Core = build_core(config, ports, SchedulerOptions(feature_gates=gates))
        for node in nodes:
            self.core.cache.add_node(node)
        for pod in running:
            self.core.cache.add_pod(PodInfo(pod))

    def spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        """Drop work of the background."""
        work.close()

    spawn_for_plugin = spawn

    def fail(self, error: Exception) -> None:
        """Raise the error."""
        raise error
