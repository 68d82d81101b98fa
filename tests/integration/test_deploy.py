"""The manifests of `scheduler/deploy`: kubectl applies them, and a scheduler has just their rights.

The second scheduler runs with the token of its service account, and does all that a scheduler does.
No request is refused, so the rules are enough; each granted verb was used, so they are the least.
"""

import asyncio
import contextlib
import importlib.metadata
import itertools
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
import yaml

from fakeapi import FakeApiServer, HandledRequest, Security, ServerOptions, User
from fakeapi.access.attributes import Attributes, attributes_of
from fakeapi.decoding.options import split_target
from fakeapi.decoding.routes import resolve
from fakeapi.faults import fault_of
from fakeapi.types.kind import KindTable
from scheduler.config import load_text
from scheduler.flags.options import parse_flags
from scheduler.plugins import SCHEME
from tests.integration.api_client import PODS, eventually
from tests.integration.clients import Kubectl, kubectls
from tests.integration.storage_and_devices import RESOURCE_CLAIMS, SELECTED_NODE, Devices, Storage
from tests.integration.test_fakeapi_security import free_port, status_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "scheduler" / "deploy"
#: `requests_kept` of the server: enough for all requests of a test.
REQUESTS_MAX = 100_000
GATES = "GenericWorkload=true,GangScheduling=true"
OURS = "kubesched"
POD_GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
DEADLINE_SECONDS = 60.0

Json = dict[str, Any]


class Permission(NamedTuple):
    """A verb on a resource; the namespace and the name are empty if any is allowed."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def covers(self, used: Attributes) -> bool:
        """Return True if a request with these attributes needs the permission."""
        return (
            (self.group, self.resource, self.verb) == (used.group, used.whole_resource, used.verb)
            and self.namespace in ("", used.namespace)
            and self.name in ("", used.name)
        )


def documents(name: str) -> list[Json]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def document(name: str, kind: str) -> Json:
    [found] = [one for one in documents(name) if one["kind"] == kind]
    return found


def overlay() -> str:
    """Return the kustomization of the README."""
    page = (DEPLOY / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    return str(block)


def rules_for_pod_groups() -> list[Json]:
    """Return the rules that the README adds for pod groups."""
    [patch] = [
        each["patch"]
        for each in yaml.safe_load(overlay())["patches"]
        if each.get("target", {}).get("kind") == "ClusterRole"
    ]
    return [operation["value"] for operation in yaml.safe_load(patch)]


def granted(manifests: Iterable[Json]) -> Iterator[Permission]:
    """Yield the permissions of the roles."""
    for manifest in manifests:
        for rule in manifest.get("rules", ()):
            parts = (
                rule["apiGroups"],
                rule["resources"],
                rule["verbs"],
                [manifest["metadata"].get("namespace", "")],
                rule.get("resourceNames", [""]),
            )
            yield from itertools.starmap(Permission, itertools.product(*parts))


def attributes(request: HandledRequest, kinds: KindTable) -> Attributes:
    path, query = split_target(request.path)
    return attributes_of(request.method, path, query, resolve(path, kinds))


class Cluster(Devices):
    """A server with TLS and RBAC, and an administrator's clients."""

    server: FakeApiServer
    storage: Storage
    kubectl: Kubectl
    path: Path

    @property
    def ours(self) -> list[HandledRequest]:
        """The requests of the schedulers of this project."""
        return [one for one in self.server.requests if one.user_agent.startswith(OURS)]

    async def run(self, *arguments: str, given: str = "") -> str:
        return await asyncio.to_thread(self.kubectl, *arguments, given=given)

    async def kubeconfig_of(self, account: str) -> Path:
        """Write a kubeconfig with a new token of a service account in kube-system."""
        token = await self.run("-n", "kube-system", "create", "token", account)
        config = yaml.safe_load(self.server.kubeconfig)
        config["users"][0]["user"] = {"token": token.strip()}
        path = self.path / f"kubeconfig-of-{account}"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return path

    async def lease(self, name: str) -> str:
        """Return the holder of a lease, once it has one."""

        async def holder() -> str:
            path = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{name}"
            return str((await self.get(path)).get("spec", {}).get("holderIdentity", ""))

        return await eventually(holder)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    if not kubectls():
        pytest.skip("no kubectl: set KUBECTL")
    users = {
        "root": User("root", ("system:masters",)),
        "prometheus": User("prometheus", ("system:monitoring",)),
        **{name: User(name) for name in ("kubesched-debug", "kubesched-explain")},
    }
    security = Security(tls=True, tokens=users, authorization_mode="RBAC")
    options = ServerOptions(requests_kept=REQUESTS_MAX, runtime_config=["api/alpha=true"])
    async with (
        FakeApiServer(security=security, options=options) as server,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=False), headers={"Authorization": "Bearer root"}
        ) as session,
    ):
        cluster = Cluster(server, session)
        cluster.server, cluster.path = server, tmp_path
        cluster.storage = Storage(server, session)
        kubeconfig = server.write_kubeconfig(tmp_path / "admin")
        cluster.kubectl = Kubectl(kubectls()[0], kubeconfig, tmp_path)
        yield cluster


@contextlib.asynccontextmanager
async def scheduler(cluster: Cluster, *flags: str) -> AsyncIterator[None]:
    """Run a scheduler until the block is left; its log is printed if the test fails."""
    log = cluster.path / "log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scheduler", *flags),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=file,
        )
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                # A start takes a while on a busy machine.
                while b"Caches are synced" not in log.read_bytes():  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            yield
            process.terminate()
            async with asyncio.timeout(DEADLINE_SECONDS):
                assert await process.wait() == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            print(log.read_text(encoding="utf-8")[-10_000:])


async def second_scheduler(cluster: Cluster, port: int) -> list[str]:
    """Apply the manifests; return the flags of the second scheduler.

    Its configuration is the ConfigMap's, with the kubeconfig of its service account in the place of
    the token that a kubelet would mount.
    """
    await cluster.run("apply", "-k", str(DEPLOY))
    account = document("deployment.yaml", "Deployment")["spec"]["template"]["spec"]
    kubeconfig = await cluster.kubeconfig_of(account["serviceAccountName"])
    config = yaml.safe_load(document("deployment.yaml", "ConfigMap")["data"]["config.yaml"])
    config["clientConnection"] = {"kubeconfig": str(kubeconfig)}
    mounted = cluster.path / "config.yaml"
    mounted.write_text(yaml.safe_dump(config), encoding="utf-8")
    [container] = account["containers"]
    return [
        *(flag.replace("/etc/kubesched", str(cluster.path)) for flag in container["args"]),
        *(f"--{name}-kubeconfig={kubeconfig}" for name in ("authentication", "authorization")),
        f"--secure-port={port}",
    ]


async def test_the_rules_of_the_second_scheduler_are_enough_and_the_least(
    cluster: Cluster,
) -> None:
    port = free_port()
    flags = await second_scheduler(cluster, port)
    role = document("rbac.yaml", "ClusterRole")
    role["rules"] += rules_for_pod_groups()
    await cluster.run("apply", "-f", "-", given=yaml.safe_dump(role))
    # As a server without watch-lists, so that kinds are listed, and then watched.
    match = {"verb": "watch", "client": f"{OURS}*"}
    cluster.server.faults.add(fault_of({"match": match, "refuse_watch_list": {}}))
    async with scheduler(cluster, *flags, f"--feature-gates={GATES}"):
        for name in ("a", "b"):
            await cluster.node(name, **{"kubernetes.io/hostname": name})
        assert (await cluster.lease(OURS)).strip()
        await schedule_preempt_and_repeat(cluster)
        await _lose_an_answer(cluster)
        await bind_volumes(cluster)
        _fault(cluster, "patch", "resourceclaims/status", answer={"code": 409})
        await allocate_a_claim(cluster)
        _fault(cluster, "create", "pods/binding", answer={"code": 409})
        await allocate_extended_resources(cluster)
        await schedule_a_group(cluster)
        async with aiohttp.ClientSession() as session:
            metrics = f"https://127.0.0.1:{port}/metrics"
            assert await status_of(session, metrics, "prometheus") == 200
    assert not [one for one in cluster.ours if one.status in (401, 403)]
    used = [attributes(one, cluster.server.kinds) for one in cluster.ours]
    # The server checks one more permission for a patch that allocates or reserves a claim.
    used += [
        one._replace(subresource="binding")
        for one in used
        if one.whole_resource == "resourceclaims/status"
    ]
    manifests = [role, document("rbac.yaml", "Role")]
    unused = [one for one in granted(manifests) if not any(map(one.covers, used))]
    # Writes in protobuf, which fakeapi does not answer in: tests/realcluster/test_claims.py.
    resources = {"resourceclaims", "resourceclaims/status", "resourceclaims/binding"}
    assert {(one.resource, one.verb) for one in unused} == {(name, "update") for name in resources}


async def schedule_preempt_and_repeat(cluster: Cluster) -> None:
    """Pods that are bound, preempt, or wait: bindings, deletions, conditions, repeated events."""
    mine = {"schedulerName": OURS}
    for name in ("low", "high"):
        priority = {"priorityClassName": "system-cluster-critical"} if name == "high" else {}
        await cluster.pod(
            name, "3", **mine, **priority, terminationGracePeriodSeconds=0,
            nodeSelector={"kubernetes.io/hostname": "a"},
        )  # fmt: skip
        assert await cluster.node_of(name) == "a"
    assert "NotFound" in str(await cluster.get(f"{PODS}/low"))
    await cluster.pod("huge", "64", **mine)
    await cluster.message_of("huge")

    async def series() -> str:
        """Free some cpu; return the count of the event once it is a series."""
        await cluster.pod("small", "1m", **mine, terminationGracePeriodSeconds=0)
        await cluster.node_of("small")
        await cluster.delete(f"{PODS}/small?gracePeriodSeconds=0")
        events = (await cluster.get(EVENTS))["items"]
        return str(next((event["series"] for event in events if event.get("series")), ""))

    await eventually(series)


async def _lose_an_answer(cluster: Cluster) -> None:
    """A binding whose answer is lost: the pod is read."""
    _fault(cluster, "create", "pods/binding", reset={"after_write": True})
    await cluster.pod("lost", schedulerName=OURS)
    await cluster.node_of("lost")

    async def was_read() -> str:
        return (
            "read"
            if any(attributes(one, cluster.server.kinds).name == "lost" for one in _gets(cluster))
            else ""
        )

    await eventually(was_read)


def _gets(cluster: Cluster) -> list[HandledRequest]:
    return [one for one in cluster.ours if one.method == "GET"]


def _fault(cluster: Cluster, verb: str, resource: str, **effect: object) -> None:
    """Inject a fault into the next such request of the scheduler."""
    match = {"verb": verb, "resource": resource, "client": f"{OURS}*"}
    cluster.server.faults.add(fault_of({"match": match, "when": {"times": 1}, **effect}))


async def bind_volumes(cluster: Cluster) -> None:
    """A disk of a node, and a volume that is made: patches of volumes and claims."""
    storage = await cluster.storage.with_classes()
    await storage.local_volume("disk-b", "b")
    await storage.claim("local", "local")
    await storage.pod_with("with-disk", "local", schedulerName=OURS)
    await storage.kept_for("disk-b")
    await storage.finish_binding("local", "disk-b")
    assert await cluster.node_of("with-disk") == "b"
    await storage.claim("made", "made")
    await storage.pod_with("with-volume", "made", schedulerName=OURS)

    async def selected() -> str:
        claim = await cluster.get("/api/v1/namespaces/default/persistentvolumeclaims/made")
        return str(claim["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))

    node = await eventually(selected)
    await storage.local_volume("made", node)
    await storage.finish_binding("made", "made")
    assert await cluster.node_of("with-volume") == node


async def allocate_a_claim(cluster: Cluster) -> None:
    await cluster.device_class(extendedResourceName="example.com/gpu")
    await cluster.slice("b", "gpu-0", "gpu-1")
    await cluster.claim("mine")
    await cluster.pod_with("with-claim", "mine", schedulerName=OURS)
    assert await cluster.node_of("with-claim") == "b"


async def allocate_extended_resources(cluster: Cluster) -> None:
    """Bind a pod whose claim the scheduler makes, again after a refused binding."""
    container = {
        "name": "c", "image": "app:v1", "resources": {"limits": {"example.com/gpu": "1"}}
    }  # fmt: skip
    spec = {"containers": [container], "schedulerName": OURS}
    await cluster.create(PODS, {"metadata": {"name": "extended"}, "spec": spec})
    assert await cluster.node_of("extended") == "b"
    [claim] = [
        one["metadata"]["name"]
        for one in (await cluster.get(RESOURCE_CLAIMS))["items"]
        if one["metadata"]["name"].startswith("extended-")
    ]
    status = (await cluster.get(f"{PODS}/extended"))["status"]
    assert status["extendedResourceClaimStatus"]["resourceClaimName"] == claim


async def schedule_a_group(cluster: Cluster) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    await cluster.create(POD_GROUPS, {"metadata": {"name": "g"}, "spec": spec})
    for name in ("m1", "m2"):
        await cluster.pod(
            name, "100m", schedulerName=OURS, schedulingGroup={"podGroupName": "g"}
        )  # fmt: skip
    for name in ("m1", "m2"):
        await cluster.node_of(name)

    async def condition() -> str:
        status = (await cluster.get(f"{POD_GROUPS}/g")).get("status", {})
        return next((one["status"] for one in status.get("conditions", ())), "")

    assert await eventually(condition) == "True"


async def test_the_kustomization_of_the_readme_changes_image_replicas_gates_and_profile(
    cluster: Cluster,
) -> None:
    shutil.copytree(DEPLOY, cluster.path / "deploy")
    (cluster.path / "kustomization.yaml").write_text(overlay(), encoding="utf-8")
    await cluster.run("apply", "-k", str(cluster.path))
    deployment = await cluster.get("/apis/apps/v1/namespaces/kube-system/deployments/kubesched")
    pod = deployment["spec"]["template"]
    [container] = pod["spec"]["containers"]
    assert deployment["spec"]["replicas"] == 3
    assert container["image"].startswith("registry.example.com/kubesched:")
    options = parse_flags(container["args"], command="kubesched")
    assert {"GenericWorkload", "GangScheduling"} <= options.gates
    config = await cluster.get("/api/v1/namespaces/kube-system/configmaps/kubesched")
    [profile] = load_text(config["data"]["config.yaml"], SCHEME).profiles
    assert profile.scheduler_name == OURS
    role = await cluster.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/kubesched")
    assert role["rules"][-2:] == rules_for_pod_groups()
    [term] = pod["spec"]["affinity"]["podAntiAffinity"].popitem()[1]
    budgets = "/apis/policy/v1/namespaces/kube-system/poddisruptionbudgets/kubesched"
    labels = pod["metadata"]["labels"]
    for selected in (term["podAffinityTerm"], (await cluster.get(budgets))["spec"]):
        assert selected["labelSelector" if "topologyKey" in selected else "selector"] == {
            "matchLabels": labels
        }


async def test_readers_may_ask_the_port_and_explain_the_cluster_and_no_more(
    cluster: Cluster,
) -> None:
    port = free_port()
    flags = await second_scheduler(cluster, port)
    for role in ("kubesched-debug", "kubesched-explain"):
        named = (f"--clusterrole={role}", f"--user={role}")
        await cluster.run("create", "clusterrolebinding", role, *named)
    async with scheduler(cluster, *flags), aiohttp.ClientSession() as session:
        await cluster.node("a")
        await cluster.pod("web", schedulerName=OURS)
        await cluster.node_of("web")
        for path in ("/debug/pods", "/debug/pods/default/web", "/configz", "/metrics/resources"):
            url = f"https://127.0.0.1:{port}{path}"
            assert await status_of(session, url, "kubesched-debug") == 200
            assert await status_of(session, url, "kubesched-explain") == 403
    kubeconfig = cluster.path / "reader"
    reader = cluster.server.kubeconfig_for("kubesched-explain")
    kubeconfig.write_text(reader, encoding="utf-8")
    case = cluster.path / "case.yaml"
    for command, *arguments in (
        ("scheduler.explain", "--kubeconfig", str(kubeconfig)),
        (
            "conformance",
            "capture",
            "--kubeconfig",
            str(kubeconfig),
            "--pod",
            "web",
            "-o",
            str(case),
        ),
    ):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", command, *arguments), stderr=asyncio.subprocess.PIPE
        )
        _, stderr = await process.communicate()
        assert (process.returncode, b"unsure" in stderr) == (0, False), stderr
    used = [
        attributes(one, cluster.server.kinds)
        for one in cluster.server.requests
        if one.user_agent.startswith(("kubesched-explain", "kubesched-conformance"))
    ]
    role = next(one for one in documents("readers.yaml") if "resources" in one["rules"][0])
    assert [one for one in granted([role]) if not any(map(one.covers, used))] == []


async def test_the_static_pod_runs_in_kube_schedulers_place(cluster: Cluster) -> None:
    await cluster.run("apply", "--dry-run=server", "-f", str(DEPLOY / "kube-scheduler.yaml"))
    [container] = document("kube-scheduler.yaml", "Pod")["spec"]["containers"]
    program, *flags = container["command"]
    assert program == "kubesched"
    conf = cluster.path / "scheduler.conf"
    conf.write_text(cluster.server.kubeconfig_for("system:kube-scheduler"), encoding="utf-8")
    port = free_port()
    mounted = [flag.replace("/etc/kubernetes/scheduler.conf", str(conf)) for flag in flags]
    async with scheduler(cluster, *mounted, f"--secure-port={port}"):
        await cluster.node("a")
        await cluster.pod("web")
        assert await cluster.node_of("web") == "a"
        assert await cluster.lease("kube-scheduler")
        async with aiohttp.ClientSession() as session:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                get = container[probe]["httpGet"]
                url = f"{get['scheme'].lower()}://{get['host']}:{port}{get['path']}"
                async with session.get(url, ssl=False) as answer:
                    assert answer.status == 200
    assert not [one for one in cluster.ours if one.status in (401, 403)]


async def test_the_account_for_metrics_is_made_where_no_prometheus_operator_is(
    cluster: Cluster,
) -> None:
    await cluster.run("apply", "-f", str(DEPLOY / "metrics.yaml"))
    secret = document("metrics.yaml", "Secret")["metadata"]
    path = await cluster.kubeconfig_of(secret["annotations"]["kubernetes.io/service-account.name"])
    can = ("auth", "can-i", f"--kubeconfig={path}", "get")
    assert await cluster.run(*can, "/metrics") == "yes\n"
    assert "no" in (await asyncio.to_thread(cluster.kubectl.run, *can, "pods")).stdout
    page = (DEPLOY / "README.md").read_text(encoding="utf-8")
    [job] = yaml.safe_load(re.findall(r"```yml\n(.*?)```", page, re.DOTALL)[0])["scrape_configs"]
    template = document("deployment.yaml", "Deployment")["spec"]["template"]
    [by_label, by_port] = job["relabel_configs"]
    assert by_label["regex"] == template["metadata"]["labels"]["app"]
    ports = [port["containerPort"] for port in template["spec"]["containers"][0]["ports"]]
    assert int(by_port["replacement"].rpartition(":")[2]) in ports


async def test_the_pod_monitor_selects_the_port_and_the_account_for_metrics(
    cluster: Cluster,
) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "PodMonitor", "plural": "podmonitors", "singular": "podmonitor"}
    group = "monitoring.coreos.com"
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podmonitors.{group}"},
        "spec": spec,
    }
    await cluster.run("apply", "-f", "-", given=yaml.safe_dump(definition))
    await cluster.run("wait", "--for=condition=Established", f"crd/podmonitors.{group}")
    await cluster.run("apply", "-f", str(DEPLOY / "podmonitor.yaml"))
    monitor = document("podmonitor.yaml", "PodMonitor")["spec"]
    template = document("deployment.yaml", "Deployment")["spec"]["template"]
    assert monitor["selector"]["matchLabels"] == template["metadata"]["labels"]
    [endpoint], [container] = monitor["podMetricsEndpoints"], template["spec"]["containers"]
    assert endpoint["port"] in [port["name"] for port in container["ports"]]
    secret = document("metrics.yaml", "Secret")["metadata"]
    assert endpoint["authorization"]["credentials"]["name"] == secret["name"]


def test_both_manifests_name_the_image_that_the_readme_builds() -> None:
    page = (DEPLOY / "README.md").read_text(encoding="utf-8")
    [image] = re.findall(r"docker build -f scheduler/deploy/Dockerfile -t (\S+) \.", page)
    template = document("deployment.yaml", "Deployment")["spec"]["template"]
    for spec in (template["spec"], document("kube-scheduler.yaml", "Pod")["spec"]):
        assert [container["image"] for container in spec["containers"]] == [image]
    assert image == f"kubesched:{importlib.metadata.version('kubesched')}"
