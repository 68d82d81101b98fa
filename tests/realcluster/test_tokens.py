"""A scheduler whose token is in a file: the token is rotated, and later revoked and replaced."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakeapi.api_client import ApiClient
from tests.realcluster.cluster import AuditEvent, RealCluster
from tests.realcluster.conftest import Note
from tests.realcluster.workload import Workload

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SYSTEM = "/api/v1/namespaces/kube-system"
#: client-go and ours read the file again after a minute, or after a 401.
PATIENCE_SECONDS = 150.0


class Account:
    """A service account with a scheduler's rights, and tokens that end with a secret each."""

    def __init__(self, cluster: RealCluster, kind: str, directory: Path) -> None:
        self._cluster, self._name = cluster, f"scheduler-{kind}"
        self._file = directory / "token"
        cluster.create(f"{SYSTEM}/serviceaccounts", {"metadata": {"name": self._name}})
        for role in ("system:kube-scheduler", "system:volume-scheduler"):
            subject = {"kind": "ServiceAccount", "name": self._name, "namespace": "kube-system"}
            group = "rbac.authorization.k8s.io"
            cluster.create(f"{RBAC}/clusterrolebindings", {
                "metadata": {"name": f"{self._name}-{role.replace(':', '-')}"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
                "subjects": [subject],
            })  # fmt: skip

    def kubeconfig(self) -> Path:
        return self._cluster.kubeconfig_with_token(self._name, self._file)

    def write_token(self, secret: str) -> None:
        """Write a new token, which is valid while the secret of that name exists."""
        name = f"{self._name}-{secret}"
        made = self._cluster.create(f"{SYSTEM}/secrets", {"metadata": {"name": name}})
        bound = {
            "kind": "Secret", "apiVersion": "v1", "name": name, "uid": made["metadata"]["uid"]
        }  # fmt: skip
        token = self._cluster.service_account_token("kube-system", self._name, bound_to=bound)
        self._file.write_text(token, encoding="utf-8")

    def revoke(self, secret: str) -> None:
        """Delete the secret of a token."""
        code, _ = self._cluster.request("DELETE", f"{SYSTEM}/secrets/{self._name}-{secret}")
        assert code == 200

    def requests(self, kind: str) -> list[AuditEvent]:
        """Return the requests of the scheduler; a 401 has no user."""
        known = [each for each in self._cluster.audit() if each.program == kind]
        return [each for each in known if each.code == 401 or self._name in each.user]

    async def until(self, kind: str, wanted: Callable[[AuditEvent], bool]) -> AuditEvent:
        """Return the first request of the scheduler that meets the condition."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                for each in self.requests(kind):
                    if wanted(each):
                        return each
                await asyncio.sleep(0.2)


@pytest.mark.parametrize("kind", ["ours", "stock"])
async def test_a_rotated_token_is_used_and_a_revoked_one_is_replaced(
    cluster: RealCluster, api: ApiClient, note_figures: Note, tmp_path: Path, kind: str
) -> None:
    cluster.nodes(10)
    account = Account(cluster, kind, tmp_path)
    account.write_token("first")
    pods = Workload(cluster, api)
    flags = ("--leader-elect=false",)
    with cluster.scheduler(kind, *flags, kubeconfig=account.kubeconfig()) as scheduler:
        await pods.create_many(50)
        await pods.bound()
        [first] = {each.credential for each in account.requests(kind)}
        account.write_token("second")
        start = time.monotonic()
        async with pods.arriving(every_seconds=1):
            await account.until(kind, lambda each: each.credential not in ("", first))
        rotated_seconds = time.monotonic() - start
        await pods.bound()
        assert not [each for each in account.requests(kind) if each.code == 401]
        account.revoke("first")
        account.revoke("second")
        async with pods.arriving(every_seconds=0.5):
            await account.until(kind, lambda each: each.code == 401)
        account.write_token("third")
        start = time.monotonic()
        await pods.create_many(50)
        await pods.bound()
        note_figures(
            kind,
            pods_bound=len(pods.created),
            seconds_until_a_rotated_token_is_used=round(rotated_seconds, 1),
            answers_401=sum(each.code == 401 for each in account.requests(kind)),
            seconds_until_all_are_bound_with_the_token_after_a_revoked_one=round(
                time.monotonic() - start, 1
            ),
            cpu_seconds=round(scheduler.cpu_seconds, 1),
        )
        assert scheduler.is_running
