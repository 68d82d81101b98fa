"""Shadow mode judges the scheduler of a real cluster, as a user who may only read."""

import functools
from pathlib import Path

import pytest

from tests.fakeapi.api_client import ApiClient
from tests.integration.shadow_process import AGREED, PODS, judge_500_mixed_pods, shadow_of
from tests.realcluster.cluster import RealCluster
from tests.realcluster.conftest import Note
from tests.realcluster.workload import node_of

RBAC = "/apis/rbac.authorization.k8s.io/v1"
READS = {"get", "list", "watch"}


@pytest.fixture
async def reader(cluster: RealCluster, api: ApiClient) -> Path:
    """The kubeconfig of a user who may read everything."""
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": sorted(READS)}]
    role = {"metadata": {"generateName": "reader-"}, "rules": rules}
    name = (await api.create(f"{RBAC}/clusterroles", role))["metadata"]["name"]
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "reader"}],
    }
    await api.create(f"{RBAC}/clusterrolebindings", binding)
    return cluster.kubeconfig_for("reader")


@pytest.mark.parametrize("kind", ["ours", "stock"])
async def test_it_agrees_on_500_mixed_pods(
    cluster: RealCluster,
    api: ApiClient,
    reader: Path,
    note_figures: Note,
    tmp_path: Path,
    kind: str,
) -> None:
    known = len(cluster.audit())
    async with shadow_of(reader, tmp_path) as shadow:
        with cluster.scheduler(kind) as scheduler:
            counts = await judge_500_mixed_pods(
                api.create, functools.partial(node_of, api, PODS), shadow
            )
    sent = [each for each in cluster.audit()[known:] if each.user == "reader"]
    assert {each.verb for each in sent} <= READS
    agreed = sum(counts.get(agreement, 0) for agreement in AGREED)
    note_figures(
        kind,
        agreed=agreed,
        of=sum(counts.values()),
        **counts,
        cpu_seconds=round(scheduler.cpu_seconds, 1),
    )
