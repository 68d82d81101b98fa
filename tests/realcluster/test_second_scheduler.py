"""The manifests of `scheduler/deploy` on a real cluster: a second scheduler beside stock's."""

import asyncio
import collections
from pathlib import Path

import aiohttp
import yaml

from tests.fakeapi.api_client import ApiClient
from tests.integration import test_deploy as deploy
from tests.integration.storage_and_devices import Storage
from tests.integration.test_fakeapi_security import free_port
from tests.realcluster.cluster import RealCluster
from tests.realcluster.conftest import Note
from tests.realcluster.workload import Workload, names_bound_twice

API_SERVER_FLAGS = (
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
    f"--feature-gates={deploy.GATES}",
)
ACCOUNT = "system:serviceaccount:kube-system:kubesched"
PODS = 200


class Deployment(deploy.Cluster):
    """The actions of an administrator on a real cluster."""

    def __init__(self, real: RealCluster, session: aiohttp.ClientSession, directory: Path) -> None:
        super().__init__(real, session)  # type: ignore[arg-type]
        self.real, self.path, self.kubectl = real, directory, real.kubectl()
        self.storage = Storage(real, session)  # type: ignore[arg-type]

    async def kubeconfig_of(self, account: str) -> Path:
        token = await self.run("-n", "kube-system", "create", "token", account)
        file = self.path / f"token-of-{account}"
        file.write_text(token.strip(), encoding="utf-8")
        return self.real.kubeconfig_with_token(account, file)


async def test_it_schedules_its_own_pods_beside_stock_with_its_own_rights(
    cluster: RealCluster,
    session: aiohttp.ClientSession,
    api: ApiClient,
    note_figures: Note,
    tmp_path: Path,
) -> None:
    deployed = Deployment(cluster, session, tmp_path)
    flags = await deploy.second_scheduler(deployed, free_port())
    role = deploy.document("rbac.yaml", "ClusterRole")
    role["rules"] += deploy.rules_for_pod_groups()
    await deployed.run("apply", "-f", "-", given=yaml.safe_dump(role))
    static = str(deploy.DEPLOY / "kube-scheduler.yaml")
    await deployed.run("apply", "--dry-run=server", "-f", static)
    pods = {name: Workload(cluster, api) for name in (deploy.OURS, "default-scheduler")}
    with (
        cluster.scheduler("stock") as stock,
        cluster.scheduler("ours", *flags, f"--feature-gates={deploy.GATES}") as ours,
    ):
        for name in ("a", "b"):
            await deployed.node(name, **{"kubernetes.io/hostname": name})
        assert await deployed.lease(deploy.OURS)
        await deploy.schedule_preempt_and_repeat(deployed)
        await deploy.bind_volumes(deployed)
        await deploy.allocate_a_claim(deployed)
        await deploy.allocate_extended_resources(deployed)
        await deploy.schedule_a_group(deployed)
        cluster.nodes(10)
        await asyncio.gather(*(pods[name].create_many(PODS, schedulerName=name) for name in pods))
        for name in pods:
            await pods[name].bound()
        for kind, process, name in (
            ("ours", ours, deploy.OURS), ("stock", stock, "default-scheduler")
        ):  # fmt: skip
            bindings = pods[name].bindings()
            assert not names_bound_twice(bindings)
            assert {each.program for each in bindings} == {kind}
            note_figures(kind, pods_bound=PODS, cpu_seconds=round(process.cpu_seconds, 1))
    requests = [each for each in cluster.audit() if each.user == ACCOUNT]
    assert not [each for each in requests if each.code in (401, 403)]
    writes = collections.Counter(
        f"{each.verb} {each.resource}{each.subresource and '/'}{each.subresource}"
        for each in requests
        if each.verb not in ("get", "list", "watch")
    )
    note_figures("ours", requests_refused=0, writes=dict(writes))
