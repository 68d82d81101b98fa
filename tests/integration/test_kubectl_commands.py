"""kubectl's everyday commands: read, write, drain, wait, follow. Each test has its own server.

What kubectl makes of the server's schema (explain, validation, apply) is in test_kubectl_schema.py.
"""

import contextlib
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fakeapi import ServerOptions
from fakeapi.pytest_plugin import FakeApi

from .clients import PATIENCE_SECONDS, Kubectl, kubectls

pytestmark = [pytest.mark.slow, pytest.mark.fake_api(options=ServerOptions(requests_kept=1000))]

LABELS = {"app": "web"}
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "c", "image": "one"}]},
        },
    },
}
RUNNING: dict[str, Any] = {
    "phase": "Running",
    "podIP": "10.0.0.7",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [
        {
            "name": "c",
            "ready": True,
            "restartCount": 3,
            "image": "one",
            "imageID": "",
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
    ],
}


@pytest.fixture(params=kubectls() or [None])
def kubectl(request: pytest.FixtureRequest, fake_api: FakeApi) -> Kubectl:
    """Run the test with each kubectl that is installed."""
    if request.param is None:
        pytest.skip("no kubectl")
    return Kubectl(request.param, fake_api.kubeconfig, fake_api.kubeconfig.parent)


def pod(name: str = "p", namespace: str = "", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "one", "resources": {"requests": {"cpu": "250m"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": LABELS},
        "spec": {"containers": containers, **spec},
    }


def running(name: str, fake_api: FakeApi) -> dict[str, Any]:
    """A pod of a ReplicaSet that runs on n1."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u"}
    made = pod(name, fake_api.namespace, nodeName="n1")
    made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return {**made, "status": RUNNING}


def node(name: str = "n1") -> dict[str, Any]:
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"node-role.kubernetes.io/worker": ""}},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "An OS"},
        },
    }


def rows(table: str) -> list[dict[str, str]]:
    """Return the table that kubectl prints, by column."""
    head, *lines = table.splitlines()
    starts = [0, *(found.end() for found in re.finditer(r"\s{2,}", head))]
    cuts = [slice(*bounds) for bounds in zip(starts, [*starts[1:], None], strict=True)]
    return [{head[cut].strip(): line[cut].strip() for cut in cuts} for line in lines]


@contextlib.contextmanager
def in_background(kubectl: Kubectl, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command at work while the test does something else."""
    with kubectl.start(*arguments) as process:
        killer = threading.Timer(PATIENCE_SECONDS, process.kill)
        killer.start()
        try:
            yield process
        finally:
            killer.cancel()
            process.kill()


def until_watched(fake_api: FakeApi, before: int) -> None:
    """Return once a command watches: it may begin only when what it waits for has happened."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any("watch=true" in request.path for request in fake_api.requests[before:]):
        assert time.monotonic() < deadline, "nobody watches"
        time.sleep(0.01)  # another process has to come that far


def lines_until(process: subprocess.Popen[str], wanted: Callable[[str], bool]) -> list[str]:
    """Yield the lines that a command prints, up to the wanted one."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line.rstrip("\n"))
        if wanted(line):
            return seen
    raise AssertionError(f"it printed only {seen}")


# Reading


def test_get_shows_tables_and_whole_objects(fake_api: FakeApi, kubectl: Kubectl) -> None:
    fake_api.load([node(), running("p", fake_api)])
    (shown,) = rows(kubectl("get", "pods"))
    assert set(shown) == {"NAME", "READY", "STATUS", "RESTARTS", "AGE"}
    assert (shown["NAME"], shown["READY"], shown["STATUS"]) == ("p", "1/1", "Running")
    assert shown["RESTARTS"] == "3"
    (wide,) = rows(kubectl("get", "pods", "-o", "wide"))
    assert (wide["IP"], wide["NODE"], wide["NOMINATED NODE"]) == ("10.0.0.7", "n1", "<none>")
    (shown,) = rows(kubectl("get", "nodes", "-o", "wide"))
    assert (shown["STATUS"], shown["ROLES"], shown["VERSION"]) == ("Ready", "worker", "v1.36.3")
    assert (shown["INTERNAL-IP"], shown["OS-IMAGE"]) == ("10.0.0.1", "An OS")
    assert "apiVersion: v1\nkind: Pod\n" in kubectl("get", "pod", "p", "-o", "yaml")
    listed = json.loads(kubectl("get", "pods,nodes", "-o", "json"))
    assert [item["kind"] for item in listed["items"]] == ["Pod", "Node"]
    columns = "custom-columns=N:.metadata.name,S:.spec.schedulerName"
    assert rows(kubectl("get", "pods", "-o", columns)) == [{"N": "p", "S": "default-scheduler"}]
    assert "APP" in kubectl("get", "pods", "-A", "-L", "app", "--sort-by=.metadata.name")
    assert "(NotFound)" in kubectl.refused("get", "pod", "q")


def test_get_follows_pages_and_selectors(fake_api: FakeApi, kubectl: Kubectl) -> None:
    fake_api.load(running(f"p{number}", fake_api) for number in range(5))
    kubectl("label", "pod", "p1", "team=x")
    assert len(rows(kubectl("get", "pods", "--chunk-size=2"))) == 5
    lists = [r for r in fake_api.requests if "limit=2" in r.path]
    assert len(lists) == 3
    assert kubectl("get", "pods", "-l", "team in (x),app=web", "-o", "name") == "pod/p1\n"
    by_field = kubectl("get", "pods", "--field-selector=metadata.name=p2", "-o", "name")
    assert by_field == "pod/p2\n"


def test_get_watches(fake_api: FakeApi, kubectl: Kubectl) -> None:
    fake_api.load([pod(namespace=fake_api.namespace)])
    with in_background(kubectl, "get", "pods", "-w") as process:
        lines_until(process, lambda line: "Pending" in line)
        binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
        where = f"/api/v1/namespaces/{fake_api.namespace}/pods/p"
        kubectl("create", "--raw", f"{where}/binding", "-f", "-", given=json.dumps(binding))
        kubectl("patch", "pod", "p", "--subresource=status", "-p", json.dumps({"status": RUNNING}))
        seen = lines_until(process, lambda line: "Running" in line)
        assert [line.split()[0] for line in seen] == ["p"] * len(seen)
        kubectl("delete", "pod", "p", "--wait=false")
        lines_until(process, lambda line: "Terminating" in line)


def test_describe_shows_the_events(fake_api: FakeApi, kubectl: Kubectl) -> None:
    fake_api.load([node(), running("p", fake_api)])
    uid = kubectl("get", "pod", "p", "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "p.1", "namespace": fake_api.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": fake_api.namespace,
            "name": "p",
            "uid": uid,
        },
        "type": "Normal",
        "reason": "Scheduled",
        "message": "Successfully assigned p to n1",
        "source": {"component": "default-scheduler"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    kubectl("create", "-f", "-", given=json.dumps(event))
    told = kubectl("describe", "pod", "p")
    assert "Controlled By:  ReplicaSet/rs" in told
    assert "Successfully assigned p to n1" in told
    told = kubectl("describe", "node", "n1")
    assert "KubeletReady" in told
    assert "Non-terminated Pods:          (1 in total)" in told
    assert "cpu                250m (6%)" in told
    (shown,) = rows(kubectl("get", "events"))
    assert (shown["TYPE"], shown["REASON"], shown["OBJECT"]) == ("Normal", "Scheduled", "pod/p")
    assert "Successfully assigned" in kubectl("events", "--for", "pod/p")


# Writing


def test_create_generates_the_requested_objects(fake_api: FakeApi, kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "other")
    kubectl("create", "configmap", "m", "--from-literal=a=1")
    kubectl("create", "deployment", "d", "--image=one", "--replicas=3")
    kubectl("create", "quota", "q", "--hard=pods=5")
    kubectl("create", "priorityclass", "high", "--value=1000")
    kubectl("create", "poddisruptionbudget", "b", "--selector=app=web", "--min-available=1")
    kubectl("run", "p", "--image=one", "--restart=Never")
    kubectl("expose", "deployment", "d", "--port=80")
    assert kubectl("get", "cm", "m", "-o", "jsonpath={.data.a}") == "1"
    assert kubectl("get", "deploy", "d", "-o", "jsonpath={.spec.replicas}") == "3"
    assert kubectl("get", "pc", "high", "-o", "jsonpath={.value}") == "1000"
    assert kubectl("get", "svc", "d", "-o", "jsonpath={.spec.selector.app}") == "d"
    assert "(AlreadyExists)" in kubectl.refused("create", "namespace", "other")


def test_server_side_apply_tracks_the_owners_of_fields(fake_api: FakeApi, kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    kubectl(*apply, given=json.dumps(DEPLOYMENT))
    other = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 5}}
    complaint = kubectl.refused(*apply, "--field-manager=b", given=json.dumps(other))
    assert 'conflict with "kubectl": .spec.replicas' in complaint
    kubectl(*apply, "--field-manager=b", "--force-conflicts", given=json.dumps(other))
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "5"
    owned = json.loads(kubectl("get", "deploy", "web", "-o", "json", "--show-managed-fields"))
    managers = {entry["manager"]: entry for entry in owned["metadata"]["managedFields"]}
    assert set(managers) == {"kubectl", "b"}
    assert "f:replicas" not in managers["kubectl"]["fieldsV1"]["f:spec"]


def test_apply_goes_over_to_the_servers_side(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=json.dumps(DEPLOYMENT))
    changed = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 5}}
    kubectl("apply", "--server-side", "-f", "-", given=json.dumps(changed))
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "5"


def test_apply_prunes_objects_that_are_no_longer_applied(kubectl: Kubectl) -> None:
    def maps(*names: str) -> str:
        items = [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": LABELS}}
            for name in names
        ]
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})

    prune = ("apply", "--prune", "-l", "app=web", "--prune-allowlist=core/v1/ConfigMap", "-f", "-")
    kubectl(*prune, given=maps("a", "b"))
    assert "configmap/b pruned" in kubectl(*prune, given=maps("a"))
    assert kubectl("get", "cm", "-l", "app=web", "-o", "name") == "configmap/a\n"


def test_labels_annotations_patches_and_replacements(fake_api: FakeApi, kubectl: Kubectl) -> None:
    fake_api.load([pod(namespace=fake_api.namespace)])
    kubectl("label", "pod", "p", "team=x", "app-")
    kubectl("annotate", "pods", "--all", "note=some words")
    assert "--overwrite is false" in kubectl.refused("label", "pod", "p", "team=y")
    kubectl("label", "pod", "p", "team=y", "--overwrite")
    metadata = json.loads(kubectl("get", "pod", "p", "-o", "json"))["metadata"]
    assert metadata["labels"] == {"team": "y"}
    assert metadata["annotations"] == {"note": "some words"}
    kubectl("patch", "pod", "p", "-p", '{"spec":{"containers":[{"name":"c","image":"two"}]}}')
    kubectl("patch", "pod", "p", "--type=merge", "-p", '{"metadata":{"labels":{"m":"1"}}}')
    operations = [
        {"op": "test", "path": "/metadata/labels/m", "value": "1"},
        {"op": "remove", "path": "/metadata/labels/m"},
    ]
    kubectl("patch", "pod", "p", "--type=json", "-p", json.dumps(operations))
    kubectl("set", "image", "pod/p", "c=three")
    whole = json.loads(kubectl("get", "pod", "p", "-o", "json"))
    assert whole["spec"]["containers"][0]["image"] == "three"
    assert whole["metadata"]["labels"] == {"team": "y"}
    whole["metadata"]["labels"] = {"team": "z"}
    kubectl("replace", "-f", "-", given=json.dumps(whole))
    complaint = kubectl.refused("replace", "-f", "-", given=json.dumps(whole))
    assert "the object has been modified" in complaint
    refused = kubectl.refused("patch", "pod", "p", "-p", '{"spec":{"nodeName":"n9"}}')
    assert "pod updates may not change fields" in refused


def test_edit_sends_the_text_of_the_editor(
    fake_api: FakeApi, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_api.load([pod(namespace=fake_api.namespace)])
    kubectl.environment["KUBE_EDITOR"] = "sed -i s/app:.web/app:\\ edited/"
    assert "edited" in kubectl("edit", "pod", "p")
    assert kubectl("get", "pod", "p", "-o", "jsonpath={.metadata.labels.app}") == "edited"


def test_delete_waits_until_the_object_is_gone(fake_api: FakeApi, kubectl: Kubectl) -> None:
    held = pod("held", fake_api.namespace)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    fake_api.load([held, pod("a", fake_api.namespace), running("bound", fake_api)])
    assert 'pod "a" deleted' in kubectl("delete", "pod", "a")
    with in_background(kubectl, "delete", "pod", "held") as process:
        lines_until(process, lambda line: "deleted" in line)
        kubectl("patch", "pod", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert process.wait(PATIENCE_SECONDS) == 0
    kubectl("delete", "pod", "bound", "--grace-period=0", "--force")
    assert kubectl("get", "pods", "-o", "name") == ""
    kubectl("create", "-f", "-", given=json.dumps(DEPLOYMENT))
    with in_background(kubectl, "delete", "deployment", "web", "--cascade=orphan") as process:
        lines_until(process, lambda line: "deleted" in line)
        # What a garbage collector does once it has let the dependents go.
        kubectl("patch", "deployment", "web", "-p", '{"metadata":{"finalizers":null}}')
        assert process.wait(PATIENCE_SECONDS) == 0
    assert kubectl("get", "deployments", "-o", "name") == ""


# Nodes


def test_nodes_are_cordoned_and_tainted(fake_api: FakeApi, kubectl: Kubectl) -> None:
    fake_api.load([node()])
    assert "cordoned" in kubectl("cordon", "n1")
    assert rows(kubectl("get", "nodes"))[0]["STATUS"] == "Ready,SchedulingDisabled"
    assert "already cordoned" in kubectl("cordon", "n1")
    kubectl("uncordon", "n1")
    kubectl("taint", "node", "n1", "dedicated=x:NoSchedule", "other:NoExecute")
    taints = kubectl("get", "node", "n1", "-o", "jsonpath={.spec.taints[*].key}")
    assert sorted(taints.split()) == ["dedicated", "other"]
    kubectl("taint", "node", "n1", "dedicated-", "other-")
    assert kubectl("get", "node", "n1", "-o", "jsonpath={.spec}") == "{}"


def test_drain_respects_a_budget(fake_api: FakeApi, kubectl: Kubectl) -> None:
    daemon = running("daemon", fake_api)
    daemon["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet"
    daemon["metadata"]["labels"] = {}
    spec = {key: value for key, value in DEPLOYMENT["spec"].items() if key != "replicas"}
    daemons = {**DEPLOYMENT, "kind": "DaemonSet", "spec": spec}
    daemons["metadata"] = {"name": "rs", "namespace": fake_api.namespace}
    fake_api.load([daemons, node(), running("a", fake_api), running("b", fake_api), daemon])
    kubectl("create", "pdb", "budget", "--selector=app=web", "--max-unavailable=1")
    status = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1}
    budget = {"status": {**status, "disruptionsAllowed": 1}}
    patch = ("patch", "pdb", "budget", "--subresource=status", "--type=merge", "-p")
    kubectl(*patch, json.dumps(budget))
    assert "DaemonSet-managed" in kubectl.refused("drain", "n1")
    drain = ("drain", "n1", "--ignore-daemonsets")
    with in_background(kubectl, *drain) as process:
        lines_until(process, lambda line: "evicting pod" in line)
        first = evicted(kubectl)
        # A kubelet would; then the budget's controller would.
        kubectl("delete", "pod", first, "--grace-period=0", "--force")
        kubectl(*patch, json.dumps(budget))
        seen = lines_until(process, lambda line: "evicted" in line)
        assert f"pod/{first} evicted" in seen
        second = evicted(kubectl)
        kubectl("delete", "pod", second, "--grace-period=0", "--force")
        lines_until(process, lambda line: "drained" in line)
        assert process.wait(PATIENCE_SECONDS) == 0
    assert {first, second} == {"a", "b"}
    codes = [r.status for r in fake_api.requests if r.path.partition("?")[0].endswith("/eviction")]
    assert sorted(set(codes)) == [201, 429]
    assert kubectl("get", "pods", "-o", "name") == "pod/daemon\n"


def evicted(kubectl: Kubectl) -> str:
    """Return the pod that is being deleted, once there is one."""
    output = "jsonpath={.metadata.name} {.metadata.deletionTimestamp}{'\\n'}"
    with in_background(kubectl, "get", "pods", "--watch", "-o", output) as process:
        *_, deleted = lines_until(process, lambda line: len(line.split()) == 2)
    return deleted.split()[0]


# Waiting


def test_wait_sees_conditions_values_and_deletion(fake_api: FakeApi, kubectl: Kubectl) -> None:
    fake_api.load([pod(namespace=fake_api.namespace)])
    refused = kubectl.refused("wait", "pod/p", "--for=condition=Ready", "--timeout=100ms")
    assert "timed out waiting for the condition" in refused
    status = json.dumps({"status": RUNNING})
    patch = ("patch", "pod", "p", "--subresource=status", "-p")
    with in_background(kubectl, "wait", "pod/p", "--for=condition=Ready") as process:
        kubectl(*patch, status)
        lines_until(process, lambda line: "condition met" in line)
    kubectl("wait", "pod/p", "--for=jsonpath={.status.phase}=Running")
    before = len(fake_api.requests)
    with in_background(kubectl, "wait", "pod/p", "--for=delete") as process:
        until_watched(fake_api, before)
        kubectl("delete", "pod", "p", "--wait=false")
        lines_until(process, lambda line: "condition met" in line)


def test_rollouts_are_followed_and_scaled(fake_api: FakeApi, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=json.dumps(DEPLOYMENT))
    with in_background(kubectl, "rollout", "status", "deployment/web") as process:
        lines_until(process, lambda line: "Waiting for deployment" in line)
        for ready in (1, 2):
            numbers = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": ready}
            status = {"status": {"observedGeneration": 1, **numbers, "readyReplicas": ready}}
            patch = ("patch", "deploy", "web", "--subresource=status", "--type=merge", "-p")
            kubectl(*patch, json.dumps(status))
        lines_until(process, lambda line: "successfully rolled out" in line)
    (shown,) = rows(kubectl("get", "deployments"))
    assert (shown["READY"], shown["UP-TO-DATE"], shown["AVAILABLE"]) == ("2/2", "2", "2")
    kubectl("rollout", "restart", "deployment/web")
    kubectl("rollout", "pause", "deployment/web")
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.paused}") == "true"
    kubectl("scale", "deployment/web", "--replicas=4")
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "4"
    scale = ("get", "deploy", "web", "--subresource=scale", "-o", "jsonpath={.status.selector}")
    assert kubectl(*scale) == "app=web"


def test_history_is_undone_and_images_are_set(fake_api: FakeApi, kubectl: Kubectl) -> None:
    template = {"metadata": {"labels": LABELS}, "spec": DEPLOYMENT["spec"]["template"]["spec"]}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    kubectl("create", "-f", "-", given=json.dumps(DEPLOYMENT))
    owner["uid"] = kubectl("get", "deploy", "web", "-o", "jsonpath={.metadata.uid}")
    kubectl("set", "image", "deployment/web", "c=two")
    kubectl("annotate", "deployment", "web", "deployment.kubernetes.io/revision=2")
    for revision, image in (("1", "one"), ("2", "two")):  # what the controller would keep
        template["spec"] = {"containers": [{"name": "c", "image": image}]}
        metadata = {
            "name": f"web-{revision}",
            "namespace": fake_api.namespace,
            "labels": LABELS,
            "annotations": {"deployment.kubernetes.io/revision": revision},
            "ownerReferences": [owner],
        }
        spec = {"selector": {"matchLabels": LABELS}, "template": template}
        kept = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
        kubectl("create", "-f", "-", given=json.dumps(kept))
    assert "Image:\tone" in kubectl("rollout", "history", "deployment/web", "--revision=1")
    kubectl("rollout", "undo", "deployment/web", "--to-revision=1")
    now = ("get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
    assert kubectl(*now) == "one"
    assert "Expected replicas to be 9, was 2" in kubectl.refused(
        "scale", "deployment/web", "--replicas=1", "--current-replicas=9"
    )


def test_dependents_are_orphaned_and_objects_replaced_by_force(
    fake_api: FakeApi, kubectl: Kubectl
) -> None:
    kubectl("create", "-f", "-", given=json.dumps(DEPLOYMENT))
    kubectl("delete", "deployment", "web", "--cascade=orphan", "--wait=false")
    finalizers = ("get", "deployment", "web", "-o", "jsonpath={.metadata.finalizers}")
    assert kubectl(*finalizers) == '["orphan"]', "the garbage collector is to see to it"
    kubectl("create", "-f", "-", given=json.dumps(pod()))
    uid = ("get", "pod", "p", "-o", "jsonpath={.metadata.uid}")
    before = kubectl(*uid)
    kubectl("replace", "--force", "-f", "-", given=json.dumps(pod()))
    assert kubectl(*uid) != before
    names = "jsonpath={range .items[*]}{.metadata.name} {end}"
    kubectl("create", "-f", "-", given=json.dumps(pod("a")))
    assert kubectl("get", "pods", "--sort-by=.metadata.name", "-o", names) == "a p "
    columns = "custom-columns=N:.metadata.name,I:.spec.containers[*].image"
    assert rows(kubectl("get", "pods", "a", "-o", columns)) == [{"N": "a", "I": "one"}]


def test_commands_that_need_a_kubelet_fail(fake_api: FakeApi, kubectl: Kubectl) -> None:
    fake_api.load([node(), running("p", fake_api)])
    gone = "has no kubelet to ask for"
    assert gone in kubectl.refused("logs", "p")
    assert gone in kubectl.refused("exec", "p", "--", "ls")
    assert gone in kubectl.refused("attach", "p")
    assert gone in kubectl.refused("port-forward", "pod/p", ":80")
    assert "Metrics API not available" in kubectl.refused("top", "pods")


def test_a_container_to_debug_with_joins_the_pod(fake_api: FakeApi, kubectl: Kubectl) -> None:
    fake_api.load([node(), running("p", fake_api)])
    kubectl("debug", "p", "--image=busybox", "--profile=general", "--container=d")
    image = "jsonpath={.spec.ephemeralContainers[?(@.name=='d')].image}"
    assert kubectl("get", "pod", "p", "-o", image) == "busybox"
    copied = ("--image=busybox", "--profile=general", "--copy-to=q")
    kubectl("debug", "p", *copied)
    assert kubectl("get", "pod", "q", "-o", "jsonpath={.spec.containers[*].image}") == "one busybox"


def test_tokens_are_made_for_service_accounts(kubectl: Kubectl) -> None:
    kubectl("create", "serviceaccount", "bot")
    assert kubectl("create", "token", "bot", "--duration=10m").count(".") == 2
    assert "not found" in kubectl.refused("create", "token", "nobody")
    assert "system:anonymous" in kubectl("auth", "whoami")


def test_the_server_introduces_itself(kubectl: Kubectl) -> None:
    assert "Server Version: v1.36.3" in kubectl("version")
    listed = kubectl("api-resources", "--namespaced=false", "--verbs=list", "-o", "name").split()
    assert {"nodes", "priorityclasses.scheduling.k8s.io"} <= set(listed)
    assert "pods" not in listed
    assert "is running at" in kubectl("cluster-info")
    assert kubectl("get", "--raw", "/readyz") == "ok"
