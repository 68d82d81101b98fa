"""A running cluster: fakeapi with a scheduler process that the suite has not started."""

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import conformance
from conformance.api import ApiClient, Json, Ref, WatchEvent
from conformance.connection import Connection
from conformance.differential.cli import diff
from conformance.errors import InputError, RequestFailed
from conformance.format.case import Case, case_of, load_cases
from conformance.format.resources import part
from conformance.format.selection import select
from conformance.fuzz.cli import fuzz
from conformance.invariants import INVARIANTS, History, violations
from conformance.outcome import Outcome, Verdict
from conformance.run.execution import run_case
from conformance.run.observation import Observation, observe, observe_case
from conformance.targets import target_kind
from conformance.targets.cli import clean
from conformance.targets.cluster import ClusterKind, clean_cluster
from conformance.targets.cluster_api import TAINT_OF_NEW_NODES, ClusterApi
from conformance.targets.target import TargetOptions
from fakeapi import FakeApiServer, Security, User

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
README = Path(conformance.__file__).with_name("README.md").read_text(encoding="utf-8")
CASES = Path(conformance.__file__).with_name("cases")
#: A text that is cut, the reason of a filter that rejects other nodes, the last reason, all nodes.
COUNTING = (
    "events/long-note-is-cut",
    "filter/some-but-not-all-taints-are-tolerated",
    "filter/terms-are-alternatives-expressions-are-not",
    "queue/node-that-appears-ends-an-error-backoff-in-time",
    "queue/update-during-backoff-is-seen",
    "spread/which-pods-count",
    "status/no-nodes-at-all",
)
CHECKS = [each for each in INVARIANTS.values() if each.check is not None]
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
        async with our_scheduler(server, kubeconfig):
            yield server


@contextlib.asynccontextmanager
async def our_scheduler(server: FakeApiServer, kubeconfig: Path) -> AsyncIterator[None]:
    """Run our scheduler as a process."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler", "--kubeconfig", str(kubeconfig)),
        *("--secure-port=0", "--leader-elect=false"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        while not server.statistics().watchers:
            assert process.returncode is None
            await asyncio.sleep(0.02)
        yield
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
    log = tmp_path / "log"
    outcome = await run_case(a_case(NAMES), kind_of(tmp_path), seed=0, log_path=log)
    assert told(outcome) == (Verdict.PASSED, "", ())
    changes = [json.loads(line) for line in log.read_bytes().splitlines()]
    keys = {(each["resource"], each["key"]) for each in changes if "change" in each}
    assert {("pods", "team/web"), ("pods", "default/apart"), ("nodes", "a")} <= keys
    assert not [key for _, key in keys if "conformance" in key]
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
        # It waits, and would fit on the case's node.
        await api.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "theirs"},
                "spec": {
                    "containers": [
                        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "8"}}}
                    ]
                },
            }
        )
        other: dict[str, Any] = {
            "cluster": [{"node": {"name": "b", "cpu": 16}}],
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
        theirs = await api.find(Ref("Pod", "theirs", "default"))
        assert theirs is not None
        assert "nodeName" not in part(theirs, "spec")
    assert await names_of(cluster, "Node") == {"a"}


async def test_cases_whose_texts_count_nodes_are_skipped_beside_nodes_of_the_clusters_own(
    tmp_path: Path,
) -> None:
    async with FakeApiServer() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        async with ApiClient(Connection(server.url)) as api:
            await api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "theirs"}})
        kind = kind_of(tmp_path)
        for case in select(load_cases([CASES]), *COUNTING):
            outcome = await run_case(case, kind, seed=0)
            assert (case.id, outcome.reason) == (
                case.id,
                "needs all nodes of the cluster to be its own",
            )


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
    with pytest.raises(InputError, match=r"another run are in the cluster \(old-default, n\)"):
        await run_case(a_case(SHORT), kind_of(tmp_path), seed=0)
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


PREEMPTION: dict[str, Any] = {
    "cluster": [
        {"node": {"name": "a", "cpu": 1}},
        {"node": {"name": "full", "cpu": 1}},
        {
            "pod": {
                "name": "low",
                "node": "a",
                "cpu": 1,
                "priority": 1,
                "spec": {"terminationGracePeriodSeconds": 0},
            }
        },
        {"pod": {"name": "high", "node": "full", "cpu": 1, "priority": 100}},
    ],
    "steps": [
        {"create": [{"pod": {"name": "p", "cpu": 1, "priority": 50}}]},
        {"expect": {"pod": "p", "bound_to": "a"}},
        {"create": [{"pod": {"name": "big", "cpu": 2}}]},
        {"create": [{"pod": {"name": "by-hand", "scheduler_name": "none"}}]},
        {"bind": {"pod": "by-hand", "node": "full"}},
        {"expect": {"pod": "big", "not_bound": True}},
        {"delete": {"pod": "high"}},
        {"advance": "1s"},
    ],
}


async def test_a_run_in_a_cluster_is_observed_as_one_of_the_suites_own(
    cluster: FakeApiServer, tmp_path: Path
) -> None:
    del cluster
    there = await observe_case(a_case(PREEMPTION), kind_of(tmp_path))
    here = await asyncio.to_thread(observe, a_case(PREEMPTION), target_kind(TargetOptions()))

    def told_of(seen: Observation) -> list[object]:
        pods = {
            pod.key: (pod.node, pod.by_scheduler, pod.deleted_seconds is None, pod.message)
            for pod in seen.pods
        }
        return [
            pods,
            [pod.key for pod in seen.placements],
            [pod.key for pod in seen.preempted],
            [each.node_name for each in History(seen).preemptions],
            [where for where, _ in seen.steps],
            sorted(str(part(each, "metadata")["name"]) for each in seen.objects("Node")),
        ]

    assert told_of(there) == told_of(here)
    assert [pod.key for pod in there.placements] == ["default/p"]
    assert there.writes is None
    (pod,) = (pod for pod in there.pods if pod.key == "default/p")
    assert 0 <= pod.waiting_seconds(there.end_seconds) < there.end_seconds
    assert violations(a_case(PREEMPTION), lambda _: there, invariants=CHECKS) == []


@pytest.mark.slow
async def test_two_targets_of_which_one_is_a_cluster_decide_alike(
    cluster: FakeApiServer, tmp_path: Path
) -> None:
    del cluster
    file = tmp_path / "cases.yaml"
    document = {"area": "x", "cases": [{"name": "preemption", "source": "none", **PREEMPTION}]}
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    target = f"kubeconfig:{tmp_path / 'kubeconfig'}"
    sides = ["--a", "ours", "--b", f"name=cluster {target}", "--quiet-period", "0.3"]
    result = await asyncio.to_thread(CliRunner().invoke, diff, [*sides, "--cases", str(file)])
    assert result.exit_code == 0, result.output
    assert "writes to the API server" in result.output
    assert "not seen" in result.output
    refused = CliRunner().invoke(diff, ["--a", "ours", "--b", f"gates=X=true {target}"])
    assert refused.exit_code == 2
    assert "a running cluster takes no config= or gates=" in refused.output


@pytest.mark.slow
async def test_a_cluster_is_fuzzed(cluster: FakeApiServer, tmp_path: Path) -> None:
    arguments = ["--kubeconfig", str(tmp_path / "kubeconfig"), "--quiet-period", "0.3"]
    more = ["--examples", "2", "--steps", "2", "--output", str(tmp_path / "none")]
    chosen = ["--invariants", "no_overcommit,no_pod_lost,no_pod_starved"]
    result = await asyncio.to_thread(CliRunner().invoke, fuzz, [*arguments, *more, *chosen])
    assert result.exit_code == 0, result.output
    assert "2 cases, 3 invariants, 0 broken" in result.output
    assert "could not be run" not in result.output
    assert await names_of(cluster, "Node") == set()
    refused = CliRunner().invoke(fuzz, [*arguments, "--executor", "a:b"])
    assert refused.exit_code == 2


async def test_the_role_of_the_readme_has_all_permissions_and_others_are_named(
    tmp_path: Path,
) -> None:
    users = {"root": User("root", ("system:masters",)), "judge": User("judge")}
    security = Security(tokens=users, authorization_mode="RBAC")
    async with FakeApiServer(security=security) as server:
        judge = ClusterKind(TargetOptions(kubeconfig=_kubeconfig(tmp_path / "judge", server)))
        with pytest.raises(InputError, match=r"user may not .*create nodes, .*patch nodes/status"):
            await run_case(a_case(SHORT), judge, seed=0)
        root = _kubeconfig(tmp_path / "root", server)
        async with ApiClient(Connection.from_kubeconfig(Path(root))) as api:
            (text,) = re.findall(r"```yaml\n(apiVersion: rbac.*?)```", README, re.DOTALL)
            role, binding = yaml.safe_load_all(text)
            binding["subjects"] = [{**binding["subjects"][0], "name": "judge"}]
            for obj in (role, binding):
                await api.create(obj)
        async with our_scheduler(server, root):
            for raw in (NAMES, PREEMPTION, SHORT):
                outcome = await run_case(a_case(raw), judge, seed=0)
                assert told(outcome) == (Verdict.PASSED, "", ())


def _kubeconfig(path: Path, server: FakeApiServer) -> str:
    """Write the kubeconfig of the user whose token is the name of the file."""
    name = path.name
    config = {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": server.url}}],
        "users": [{"name": name, "user": {"token": name}}],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return str(path)


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


class WatchesThatEnd(ClusterApi):
    """The watches of pods end: after an event, without one, with a failure, and as too old."""

    def __init__(self, url: str) -> None:
        super().__init__(Connection(url), "run", run="run", fenced=False, controlled=False)
        self.versions: list[str] = []
        self.all_ended = asyncio.Event()

    async def watch(  # type: ignore[override]
        self, kind: Ref, item: type[Json], resource_version: str, *, label_selector: str = ""
    ) -> AsyncGenerator[WatchEvent[Json], None]:
        if kind.kind == "Pod":
            self.versions.append(resource_version)
            match len(self.versions):
                case 1:
                    yield WatchEvent("ADDED", {"metadata": {"name": "p", "resourceVersion": "5"}})
                    return
                case 2:
                    return
                case 3:
                    raise RequestFailed("broken", status=500)
                case 4:
                    raise RequestFailed("too old", status=410)
                case 5:
                    self.all_ended.set()
        await asyncio.Event().wait()


async def test_a_watch_goes_on_where_the_last_one_ended_unless_that_is_too_old() -> None:
    async with FakeApiServer() as server:
        api = WatchesThatEnd(server.url)
        async with api:
            metadata: Json = {"name": "team"}
            await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
            await api.all_ended.wait()
        assert api.versions == ["", "5", "5", "5", ""]
        assert api.changes == 1


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
        (
            {"cluster": [{"node": {"name": "a", "taints": [f"{TAINT_OF_NEW_NODES}:NoSchedule"]}}]},
            "needs the taint of new nodes, which all pods of a case tolerate in a cluster",
        ),
        ({"steps": [{"restart": {}}]}, "needs a scheduler that the suite can restart"),
        ({"steps": [{"start": "b"}]}, "needs a scheduler that the suite can restart"),
        ({"steps": [{"stop": "first"}]}, "needs a scheduler that the suite can restart"),
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
