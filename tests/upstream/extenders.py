"""An extender in the test's own process, for upstream's cases with extenders.

Short form: `{name, filter: {NODE: CODE}, scores: {NODE: N}, weight, binds, ignorable, uninterested,
interested_in, keeps, nobody, unsupported, fails}`. A node without a code in `filter` has that of
`others`, by default Success; `Error` fails the call. `scores: fails` fails prioritize.
Source: `pkg/scheduler/testing/framework/fake_extender.go`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from scheduler.framework import Nodes, PodInfo, Snapshot
from scheduler.framework.extender import ExtenderError, ExtenderFilterResult, Victims


class FakeExtender:
    """An extender that acts by the fields of its short form; `bound` are the pods that it bound."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.name: str = fields.get("name", "FakeExtender")
        self.weight: int = fields.get("weight", 0)
        self.is_ignorable = bool(fields.get("ignorable"))
        self.is_filter = "filter" in fields
        self.is_prioritizer = "scores" in fields
        self.is_binder = "binds" in fields
        self.supports_preemption = not fields.get("unsupported")
        self.bound: list[str] = []
        self._fields = fields

    def is_interested(self, pod: PodInfo) -> bool:
        wanted = self._fields.get("interested_in", pod.name)
        return not self._fields.get("uninterested") and bool(wanted == pod.name)

    async def filter(self, pod: PodInfo, nodes: Nodes) -> ExtenderFilterResult:
        by_node = self._fields["filter"]
        codes = [by_node.get(name, by_node.get("others", "Success")) for name in nodes.names]
        if "Error" in codes:
            raise ExtenderError("some error")
        named = dict(zip(nodes.names, codes, strict=True))
        return ExtenderFilterResult(
            nodes.take(np.array([code == "Success" for code in codes])),
            {
                name: f'FakeExtender: node "{name}" failed'
                for name, code in named.items()
                if code == "Unschedulable"
            },
            {
                name: f'FakeExtender: node "{name}" failed and unresolvable'
                for name, code in named.items()
                if code == "UnschedulableAndUnresolvable"
            },
        )

    async def prioritize(self, pod: PodInfo, nodes: Nodes) -> Mapping[str, int]:
        scores: Mapping[str, int] | str = self._fields["scores"]
        if isinstance(scores, str):
            raise ExtenderError("some error")
        return scores

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        if self._fields["binds"] == "fails":
            raise ExtenderError("bind error")
        self.bound.append(pod.name)

    async def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, Victims], snapshot: Snapshot
    ) -> dict[str, Victims]:
        if self._fields.get("fails"):
            raise ExtenderError("extender preempt error")
        if self._fields.get("nobody"):
            return {"mock": Victims([], 0)}
        keeps = self._fields.get("keeps")
        return {name: v for name, v in victims.items() if keeps is None or name in keeps}
