"""A scheduler as the endpoints see it: what it shows is set by the test."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import msgspec

from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    DEFAULT_VERSION,
    EffectiveVersion,
    FeatureGates,
    default_config,
)
from scheduler.metrics import SchedulerMetrics
from scheduler.plugins import SCHEME
from scheduler.serving.authentication import ClientTrust
from scheduler.serving.endpoints import Endpoints
from scheduler.serving.options import RequestHeaderOptions
from scheduler.testing import VirtualClock

#: No authority of client certificates.
NO_TRUST = ClientTrust(RequestHeaderOptions())
METRICS = b"# HELP up Whether.\n# TYPE up gauge\nup 1\n"
RESOURCES = b'kube_pod_resource_limit{pod="web"} 1\n'
STORY = b'{"namespace":"default","name":"web","entries":[]}'
UI_STATE = b'{"time":0,"cluster":null,"pods":[]}'
GROUP_STORY = b'{"namespace":"default","name":"gang","uid":"","dropped":0,"entries":[]}'
UI_POD = b'{"pod":null,"names":[],"story":null}'


@dataclass
class Served:
    """The pod default/web has a story; asking for the pod named broken raises."""

    has_synced: bool = True
    is_shutting_down: bool = False
    leader_election_problem: Callable[[], str] | None = None
    leads: bool = True
    is_profiled: bool = True
    gates: FeatureGates = DEFAULT_FEATURE_GATES
    effective_version: EffectiveVersion = DEFAULT_VERSION
    metrics: SchedulerMetrics = field(default_factory=SchedulerMetrics)
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(1795387450.5))

    def metrics_text(self, names: Collection[str]) -> bytes:
        return METRICS if not names else str(names).encode()

    async def pod_resources_text(self) -> bytes | None:
        return RESOURCES if self.leads else None

    def group_story(self, namespace: str, name: str) -> bytes | None:
        return GROUP_STORY if (namespace, name) == ("default", "gang") else None

    def story(self, namespace: str, name: str) -> bytes | None:
        if name == "broken":
            raise RuntimeError("a defect")
        return STORY if (namespace, name) == ("default", "web") else None

    def known_stories(self) -> Sequence[str]:
        return ["default/web"]

    def shadow_report(self) -> bytes | None:
        return None

    def ui_state(self) -> bytes:
        return UI_STATE

    def ui_pod(self, namespace: str, name: str) -> bytes | None:
        return UI_POD if self.story(namespace, name) is not None else None

    def endpoints(self) -> Endpoints:
        return Endpoints(
            self,
            msgspec.structs.replace(default_config(SCHEME), enable_profiling=self.is_profiled),
            is_shutting_down=lambda: self.is_shutting_down,
            clock=self.clock,
            gates=self.gates,
            flags={"config": "", "v": "0"},
        )
