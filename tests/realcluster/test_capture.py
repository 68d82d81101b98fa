"""Decisions of the stock scheduler, captured from kube-apiserver, are decided alike by ours."""

import asyncio
import time
from pathlib import Path

from click.testing import CliRunner

from conformance.capture.cli import capture
from tests.fakeapi.api_client import Json
from tests.realcluster.cluster import RealCluster
from tests.realcluster.workload import pod

_PATIENCE_SECONDS = 60.0


def _decided(found: Json) -> bool:
    conditions = found.get("status", {}).get("conditions", [])
    return any(condition["type"] == "PodScheduled" for condition in conditions)


async def test_decisions_of_stock_are_captured_without_their_names(
    cluster: RealCluster, tmp_path: Path
) -> None:
    cluster.nodes(20)
    namespace = cluster.namespace()
    path, output = f"/api/v1/namespaces/{namespace}/pods", tmp_path / "case.yaml"
    cluster.create(path, pod("acme-web"))
    cluster.create(path, pod("acme-big", "1000"))
    with cluster.scheduler("stock"):
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not all(map(_decided, cluster.request("GET", path)[1]["items"])):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
    for name in ("acme-web", "acme-big"):
        arguments = ["--kubeconfig", str(cluster.kubeconfig), "-o", str(output)]
        result = await asyncio.to_thread(
            CliRunner().invoke, capture, [*arguments, "--pod", f"{namespace}/{name}"]
        )
        assert result.exit_code == 0, result.output
        assert "Our scheduler decides the same." in result.output
        text = output.read_text(encoding="utf-8")
        assert "acme" not in text
        assert namespace not in text
