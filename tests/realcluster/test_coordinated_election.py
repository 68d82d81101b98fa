"""A real API server chooses the leader: stock, and ours, which emulates an older version."""

from tests.fakeapi.api_client import ApiClient
from tests.realcluster.cluster import RealCluster
from tests.realcluster.workload import LEASE, Workload, leader

GATE = "--feature-gates=CoordinatedLeaderElection=true"
API_SERVER_FLAGS = (GATE, "--runtime-config=coordination.k8s.io/v1beta1=true")
CANDIDATES = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates"
TIMES = (
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=800ms",
)


async def test_ours_of_an_older_version_leads_after_stock(
    cluster: RealCluster, api: ApiClient
) -> None:
    cluster.nodes(3)
    with cluster.scheduler("stock", GATE, *TIMES) as stock:
        first = await leader(api)
        with cluster.scheduler("ours", GATE, "--scheduler-version=1.35", *TIMES) as ours:
            second = await leader(api, but_not=first)
            listed = (await api.get(CANDIDATES)).body["items"]
            versions = {each["metadata"]["name"]: each["spec"] for each in listed}
            assert versions.keys() == {first, second}
            for name, binary, emulated in (
                (first, "1.36.3", "1.36.0"),
                (second, "1.35.4", "1.35.0"),
            ):
                spec = versions[name]
                assert (spec["binaryVersion"], spec["emulationVersion"]) == (binary, emulated)
                assert spec["leaseName"] == "kube-scheduler"
                assert spec["strategy"] == "OldestEmulationVersion"
            pods = Workload(cluster, api)
            async with pods.arriving(every_seconds=0.02):
                await pods.bound(20)
            await pods.bound()
            assert {each.program for each in await pods.all_bindings()} == {"ours"}
            assert not stock.is_running
            assert ours.is_running
            assert (await api.get(LEASE)).body["spec"]["strategy"] == "OldestEmulationVersion"
