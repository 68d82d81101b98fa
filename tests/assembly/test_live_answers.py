"""The content of the live page: what a decision on request may cost the scheduler."""

import asyncio
import dataclasses
import random
from typing import Any

import msgspec
import numpy as np

from scheduler.assembly.core import SchedulerOptions, build_core
from scheduler.assembly.in_memory_api import AtOnce, InMemoryApi
from scheduler.assembly.live_answers import live_pod
from scheduler.client import NODES, PODS
from scheduler.config import default_config
from scheduler.cycle.schedule_pod import FirstInOrder
from scheduler.framework import CycleState, Nodes, Plugin, PodInfo, Rejections, unschedulable
from scheduler.framework.failures import FilterPausedError
from scheduler.plugins import SCHEME
from scheduler.testing import VirtualClock, make_node, make_pod


class Searching(Plugin):
    """Searches for longer than a turn of the event loop."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        if state.may_pause:
            raise FilterPausedError
        return Rejections(np.zeros(len(nodes), dtype=np.int16), (unschedulable("found none"),))


def answered(requests: dict[str, str]) -> Any:
    """Return the decision that the live page shows for a pod, on a cluster of one node."""
    api = InMemoryApi(VirtualClock())
    ports = api.ports(rng=random.Random(0), tie_break=FirstInOrder(), tasks=AtOnce())
    ports = dataclasses.replace(ports, let_others_run=lambda: asyncio.sleep(0))
    core = build_core(default_config(SCHEME), ports, SchedulerOptions(plugins=[Searching]))
    nodes = [make_node("n", allocatable={"cpu": "1", "pods": "9"})]
    api.load({NODES.plural: nodes, PODS.plural: [make_pod("web", requests=requests)]})
    body = live_pod(core, "default", "web", is_in_cycle=False)
    assert body is not None
    return msgspec.json.decode(body)["pod"]


def test_a_long_search_ends_the_decision_of_a_page() -> None:
    pod = answered({"cpu": "1"})
    assert pod["result"] == "error"
    assert pod["answer"].endswith("a filter searches for longer than this page may take")


def test_a_long_search_for_further_rejections_leaves_the_first_ones() -> None:
    pod = answered({"cpu": "2"})
    assert pod["result"] == "unschedulable"
    assert [rejection["plugin"] for rejection in pod["rejections"]] == ["NodeResourcesFit"]
