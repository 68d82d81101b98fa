"""A running cluster: fakeapi with a scheduler process that the suite has not started."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from conformance.api import ApiClient, Json, Ref
from conformance.connection import Connection
from conformance.errors import RequestFailed
from conformance.format.case import case_of
from conformance.outcome import Outcome, Verdict
from conformance.run.execution import run_case
from conformance.targets.cli import clean
from conformance.targets.cluster import ClusterKind, clean_cluster
from conformance.targets.cluster_api import ClusterApi
from conformance.targets.target import TargetOptions
from fakeapi import FakeApiServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from conformance.format.case import Case

NODE = {"node": {"name": "a", "cpu": 1}}
#: Names of namespaces in every place where a case can have one.
NAMES: dict[str, Any] = {
    "cluster": [
        NODE,
        {"namespace": "team"},
        {"pod": {"name": "web", "labels": {"app": "web"}, "namespace": "team", "node": "a"}},
        {
            "object": {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "web", "namespace": "team"},
                "spec": {"maxUnavailable": 0},
            }
        },
    ],
    "steps": [
        {"create": [{"pod": {"name": "first"}}]},
        {
            "expect": {
                "pod": "first",
                "bound_to": "a",
                "event": {
                    "reason": "Scheduled",
                    "note": "Successfully assigned default/first to a",
                },
            }
        },
        {
            "create": [
                {
                    "pod": {
                        "name": "apart",
                        "affinity": {
                            "podAntiAffinity": {
                                "requiredDuringSchedulingIgnoredDuringExecution": [
                                    {
                                        "topologyKey": "kubernetes.io/hostname",
                                        "labelSelector": {"matchLabels": {"app": "web"}},
                                        "namespaces": ["team"],
                                    }
                                ]
                            }
                        },
                    }
                }
            ]
        },
        {"expect": {"pod": "apart", "not_bound": True, "attempts": 1}},
        {
            "patch": {
                "object": {"apiVersion": "v1", "kind": "Namespace", "name": "team"},
                "patch": {"metadata": {"labels": {"new": "yes"}}},
            }
        },
        {"delete": {"pod": "team/web"}},
        {"expect": {"pod": "apart", "bound_to": "a"}},
        {"expect": {"node": "a", "pod_count": 2}},
        {"expect": {"nodes": "no_overcommit"}},
        {
            "expect": {
                "object": {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "name": "team",
                },
                "has": {"metadata": {"labels": {"kubernetes.io/metadata.name": "team"}}},
            }
        },
    ],
}
SHORT: dict[str, Any] = {
    "cluster": [NODE],
    "steps": [
        {"create": [{"pod": {"name": "p", "priority": 7}}]},
        {"expect": {"pod": "p", "bound_to": "a"}},
    ],
}


def a_case(raw: dict[str, Any], name: str = "case") -> Case:
    return case_of({"name": name, "source": "none", **raw}, area="cluster", origin="test")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[FakeApiServer]:
    """An API server without nodes, and our scheduler as a process."""
    async with FakeApiServer() as server:
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scheduler", "--kubeconfig", str(kubeconfig)),
            *("--secure-port=0", "--leader-elect=false"),
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            while not server.statistics().watchers:
                assert process.returncode is None
                await asyncio.sleep(0.02)
            yield server
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def kind_of(tmp_path: Path) -> ClusterKind:
    kubeconfig = str(tmp_path / "kubeconfig")
    return ClusterKind(TargetOptions(kubeconfig=kubeconfig, quiet_seconds=0.3))


async def names_of(server: FakeApiServer, kind: str) -> set[str]:
    async with ApiClient(Connection(server.url)) as api:
        found: list[Any] = await api.list(kind)
        return {each["metadata"]["name"] for each in found}


def told(outcome: Outcome) -> tuple[object, ...]:
    return outcome.verdict, outcome.reason, outcome.details


async def test_a_case_has_names_of_its_own_and_leaves_nothing(
    cluster: FakeApiServer, tmp_path: Path
) -> None:
    before = await names_of(cluster, "Namespace")
    outcome = await run_case(a_case(NAMES), kind_of(tmp_path), seed=0)
    assert told(outcome) == (Verdict.PASSED, "", ())
    assert await names_of(cluster, "Namespace") == before
    for kind in ("Node", "Pod", "Event"):
        assert await names_of(cluster, kind) == set()


async def test_what_the_cluster_has_is_not_touched(cluster: FakeApiServer, tmp_path: Path) -> None:
    async with ApiClient(Connection(cluster.url)) as api:
        metadata: Json = {"name": "a", "labels": {"mine": "yes"}}
        status = {"allocatable": {"cpu": "4", "pods": "10", "memory": "1Gi"}}
        node: Json = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
        await api.create(node)
        kind = kind_of(tmp_path)
        outcome = await run_case(a_case(SHORT), kind, seed=0)
        assert told(outcome)[:2] == (
            Verdict.SKIPPED,
            "the cluster has a node a that the suite has not made",
        )
        other: dict[str, Any] = {
            "cluster": [{"node": {"name": "b", "cpu": 1}}],
            "steps": [
                {"create": [{"pod": {"name": "p", "count": 3}}]},
                {"expect": {"pods": ["p-0", "p-1", "p-2"], "bound_to": "b"}},
            ],
        }
        assert told(await run_case(a_case(other), kind, seed=0)) == (Verdict.PASSED, "", ())
        counting: dict[str, Any] = {
            "steps": [
                {"create": [{"pod": {"name": "p"}}]},
                {"expect": {"pod": "p", "not_bound": True, "attempts": 1}},
            ],
        }
        outcome = await run_case(a_case(counting), kind, seed=0)
        assert told(outcome)[:2] == (
            Verdict.SKIPPED,
            "needs all nodes of the cluster to be its own",
        )
        assert await api.find(Ref("Node", "a")) is not None
    assert await names_of(cluster, "Node") == {"a"}


async def test_objects_of_another_run_end_the_run_until_they_are_removed(
    cluster: FakeApiServer, tmp_path: Path
) -> None:
    connection = Connection(cluster.url)
    async with ClusterApi(connection, "old", run="old", fenced=False, controlled=False) as api:
        status: Json = {"allocatable": {"cpu": "1", "pods": "10"}}
        node: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
        await api.create({**node, "status": status})
        pod: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "finalizers": ["example.com/kept"]},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        await api.create(pod)
    outcome = await run_case(a_case(SHORT), kind_of(tmp_path), seed=0)
    assert outcome.verdict is Verdict.ERROR
    assert "objects of another run are in the cluster (old-default, n)" in outcome.reason
    options = ["--kubeconfig", str(tmp_path / "kubeconfig")]
    removed = await asyncio.to_thread(CliRunner().invoke, clean, options)
    assert removed.output == "deleted namespace old-default\ndeleted node n\n"
    assert await names_of(cluster, "Pod") == set()
    assert told(await run_case(a_case(SHORT), kind_of(tmp_path), seed=0))[0] is Verdict.PASSED
    assert await clean_cluster(connection) == []
    missing = ["--kubeconfig", str(tmp_path / "missing")]
    assert CliRunner().invoke(clean, missing).exit_code == 2


async def test_where_controllers_run_a_case_does_not_play_one(
    cluster: FakeApiServer, tmp_path: Path
) -> None:
    async with ApiClient(Connection(cluster.url)) as api:
        account = {"name": "default", "namespace": "default"}
        await api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        kind = kind_of(tmp_path)
        outcome = await run_case(a_case(NAMES), kind, seed=0)
        assert told(outcome)[:2] == (
            Verdict.SKIPPED,
            "plays the part of a controller, and controllers run in the cluster",
        )
        ready: dict[str, Any] = {
            **SHORT,
            "steps": [
                *SHORT["steps"],
                {
                    "expect": {
                        "object": {"kind": "Node", "name": "a"},
                        "condition": {"type": "Ready", "status": "True"},
                    }
                },
            ],
        }
        assert told(await run_case(a_case(ready), kind, seed=0)) == (Verdict.PASSED, "", ())


async def test_an_object_that_the_case_has_not_made_is_refused() -> None:
    async with FakeApiServer() as server:
        async with ClusterApi(
            Connection(server.url), "new", run="new", fenced=False, controlled=False
        ) as api:
            with pytest.raises(RequestFailed, match="the suite has not made it"):
                await api.delete(
                    Ref("PriorityClass", "system-node-critical", "", "scheduling.k8s.io/v1")
                )
            assert await api.list("Namespace") == []
        found = await names_of(server, "Namespace")
        assert "default" in found


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"gates": {"X": True}}, "needs feature gates of its own"),
        ({"config": {}}, "needs a configuration of its own"),
        ({"exact_time": True}, "needs a clock that the suite moves"),
        (
            {"steps": [{"advance": "1h"}]},
            "needs 3600s of real time, --real-time-max is 20s",
        ),
        (
            {"cluster": [{"pod": {"name": "p"}}, {"pod": {"name": "q", "priority": 3}}]},
            "needs pods that are there before the scheduler starts",
        ),
        (
            {"cluster": [{"pod": {"name": "p", "status": {"phase": "Pending"}}}]},
            "needs pods that are there before the scheduler starts",
        ),
        ({"steps": [{"restart": {}}]}, "needs a scheduler that the suite can restart"),
        ({"steps": [{"clear_faults": []}]}, "needs faults of the API server"),
        (
            {"steps": [{"advance": "1s"}, {"expect": {"pod": "p", "requeued_by": "NodeAdd"}}]},
            "reads metrics, and no --metrics-url of the cluster's scheduler is given",
        ),
    ],
)
async def test_cases_that_need_more_are_skipped(
    tmp_path: Path, more: dict[str, Any], reason: str
) -> None:
    async with FakeApiServer() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        assert kind_of(tmp_path).why_not(a_case({**SHORT, **more})) == reason
