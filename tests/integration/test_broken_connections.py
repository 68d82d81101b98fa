"""Writes whose connection breaks: the scheduler reaches the right result, and writes nothing twice.

The server may have executed such a write or not, and the scheduler cannot see which.
"""

from collections import Counter
from pathlib import Path

import pytest

from tests.integration.scripted_cluster import ENDS, ScriptedCluster
from tests.integration.scripted_run import run
from tests.integration.write_proxy import Mishap, Write

pytestmark = pytest.mark.slow

BOUND = sum(1 for nodes in ENDS.values() if nodes)


class FirstOfEach:
    """Breaks the connection of the first write to each path, if it is of this kind."""

    def __init__(self, kind: str, mishap: Mishap) -> None:
        self._kind = kind
        self._mishap = mishap
        self.met: set[str] = set()

    def __call__(self, write: Write) -> Mishap | None:
        if write.kind != self._kind or write.path in self.met:
            return None
        self.met.add(write.path)
        return self._mishap


async def test_a_pod_whose_binding_was_carried_out_is_dropped(tmp_path: Path) -> None:
    plan = FirstOfEach("POST pods/binding", Mishap.ANSWER_LOST)
    async with ScriptedCluster() as cluster:
        proxy = await run(cluster, tmp_path, plan)
        cluster.judge()
    assert len(plan.met) == BOUND
    # The watch has told of each of them, so none was tried again.
    assert Counter(write.kind for write in proxy.writes)["POST pods/binding"] == BOUND


async def test_a_pod_whose_binding_never_arrived_is_tried_again(tmp_path: Path) -> None:
    plan = FirstOfEach("POST pods/binding", Mishap.NOT_HEARD)
    async with ScriptedCluster() as cluster:
        proxy = await run(cluster, tmp_path, plan)
        cluster.judge()
    # A failure makes room for others, who may meet with one of their own.
    assert len(plan.met) >= BOUND
    made = Counter(write.kind for write in proxy.writes)["POST pods/binding"]
    assert made == BOUND + len(plan.met)


@pytest.mark.parametrize("mishap", Mishap)
@pytest.mark.parametrize(
    "kind",
    [
        "PATCH pods/status",
        "DELETE pods",
        "PATCH persistentvolumes",
        "PATCH persistentvolumeclaims",
        "POST events",
    ],
)
async def test_other_writes_are_made_good(tmp_path: Path, kind: str, mishap: Mishap) -> None:
    plan = FirstOfEach(kind, mishap)
    async with ScriptedCluster() as cluster:
        await run(cluster, tmp_path, plan)
        cluster.judge()
    assert plan.met
