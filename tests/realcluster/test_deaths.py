"""The API server or etcd is killed (`kill -9`) and started again while 2,000 pods arrive."""

import asyncio
import collections
import time
from typing import Any

import pytest

from tests.fakeapi.api_client import ApiClient
from tests.realcluster.cluster import RealCluster
from tests.realcluster.conftest import Note
from tests.realcluster.workload import Workload, names_bound_twice

Json = dict[str, Any]

PODS = 2000
#: A component is killed when so many pods are bound.
KILLS_AT = (400, 1000)
#: For how long it is away.
AWAY_SECONDS = 2.0
#: More than stock's 50 requests a second; a lease that survives the time without a server.
FLAGS = (
    "--kube-api-qps=200",
    "--kube-api-burst=200",
    "--leader-elect-lease-duration=90s",
    "--leader-elect-renew-deadline=60s",
)


def scheduled(pod: Json) -> bool:
    """True if the pod is bound and has the condition for that."""
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return bool(pod["spec"].get("nodeName")) and conditions.get("PodScheduled") == "True"


@pytest.mark.parametrize("kind", ["ours", "stock"])
@pytest.mark.parametrize("component", ["api_server", "etcd"])
async def test_all_pods_are_bound_once_and_have_the_condition(
    cluster: RealCluster, api: ApiClient, note_figures: Note, component: str, kind: str
) -> None:
    nodes = cluster.nodes(20)
    pods = Workload(cluster, api)
    with cluster.scheduler(kind, *FLAGS) as scheduler:
        start = time.monotonic()
        creating = asyncio.ensure_future(pods.create_many(PODS))
        for number in KILLS_AT:
            await pods.bound(number)
            killed = getattr(cluster, component)
            killed.kill()
            await asyncio.sleep(AWAY_SECONDS)
            killed.start()
            cluster.wait_until_ready()
        await creating
        await pods.bound(seconds=300)
        seconds = time.monotonic() - start
        # Writes of the scheduler that come after the last binding.
        await asyncio.sleep(AWAY_SECONDS)
        assert scheduler.is_running
    found = await pods.pods()
    assert len(found) == PODS
    without = [each["metadata"]["name"] for each in found if not scheduled(each)]
    # A late status patch of stock's can overwrite the condition of the binding.
    assert kind == "stock" or without == []
    bindings = pods.bindings()
    assert not names_bound_twice(bindings)
    on_nodes = collections.Counter(each["spec"]["nodeName"] for each in found)
    assert set(on_nodes) <= set(nodes)
    assert max(on_nodes.values()) <= 110
    codes = collections.Counter(each.code for each in bindings if each.code != 201)
    note_figures(
        kind,
        pods_bound=len(found),
        seconds=round(seconds, 1),
        cpu_seconds=round(scheduler.cpu_seconds, 1),
        bindings_refused=dict(codes),
        pods_without_the_condition=len(without),
    )
