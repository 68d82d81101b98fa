"""A claim that a client has stored with blanks in its parameters, as Python's `json` writes them.

The API server compares claims by their bytes, and so refuses every patch of it.
"""

import json

import pytest

from scheduler.api.core import ObjectMeta
from scheduler.api.dynamic_resources import ResourceClaim
from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.client import RestClient, connect
from scheduler.clock import SystemClock
from tests.fakeapi.api_client import ApiClient, Json
from tests.realcluster.cluster import RealCluster
from tests.realcluster.workload import Workload, node_of

GROUP = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.example.com"


@pytest.mark.parametrize("order", [("ours", "stock"), ("stock", "ours")], ids="-".join)
async def test_one_scheduler_allocates_it_and_the_other_adds_a_user(
    cluster: RealCluster, api: ApiClient, order: tuple[str, str]
) -> None:
    [node] = cluster.nodes(1)
    name = "-".join(order)
    await api.create(f"{GROUP}/deviceclasses", {"metadata": {"name": name}, "spec": {}})
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
    await api.create(f"{GROUP}/resourceslices", {"metadata": {"name": name}, "spec": spec})
    pods = Workload(cluster, api)
    claims = f"{GROUP}/namespaces/{pods.namespace}/resourceclaims"
    request = {"name": "r", "exactly": {"deviceClassName": name}}
    opaque = {"driver": DRIVER, "parameters": {"mode": "fast", "at": [1, 2]}}
    devices = {"requests": [request], "config": [{"opaque": opaque}]}
    claim = {"metadata": {"name": "shared"}, "spec": {"devices": devices}}
    created = await api.post(claims, json.dumps(claim, indent=1).encode())
    assert created.code == 201
    refused = await api.patch(f"{claims}/shared", {"metadata": {"labels": {"a": "b"}}})
    assert (refused.code, refused.reason) == (422, "Invalid")
    used = [{"name": "gpu", "resourceClaimName": "shared"}]
    for kind in order:
        with cluster.scheduler(kind, "--leader-elect=false"):
            await pods.create(kind, resourceClaims=used)
            assert await node_of(api, pods.path, kind) == node
    status = (await api.get(f"{claims}/shared")).body["status"]
    assert [user["name"] for user in status["reservedFor"]] == list(order)
    assert status["allocation"]["devices"]["config"][0]["opaque"] == opaque
    await release(cluster, pods.namespace, status["reservedFor"])
    status = (await api.get(f"{claims}/shared")).body["status"]
    assert "reservedFor" not in status
    assert status["allocation"]["devices"]["config"][0]["opaque"] == opaque


async def release(cluster: RealCluster, namespace: str, users: list[Json]) -> None:
    """Remove the users of the claim, as Unreserve does."""
    clock = SystemClock()
    connection = connect(kubeconfig=str(cluster.kubeconfig), clock=clock)
    async with RestClient(connection, user_agent="kubesched", clock=clock) as client:
        calls = ApiDispatcher(client, clock).resource_claims
        found = ResourceClaim(ObjectMeta(name="shared", namespace=namespace))
        claim = await calls.get(found)
        for user in users:
            await calls.release(claim, user["uid"])
