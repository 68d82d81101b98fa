"""The official `kubernetes` package's typed API, against the server in a process of its own."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

pytestmark = pytest.mark.slow

START_SECONDS = 20.0


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a server that runs as long as this module's tests."""
    path = tmp_path_factory.mktemp("fakeapi") / "kubeconfig"
    command = [sys.executable, "-m", "fakeapi", "--kubeconfig-out", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        yield path
        process.terminate()
        assert process.wait(START_SECONDS) == 0


@pytest.fixture
def api_client(kubeconfig: Path) -> Iterator[client.ApiClient]:
    with config.new_client_from_config(str(kubeconfig)) as opened:
        yield opened


@pytest.fixture
def core(api_client: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(api_client)


@pytest.fixture
def namespace(core: client.CoreV1Api, request: pytest.FixtureRequest) -> str:
    """A namespace of the test's own."""
    name = f"t{abs(hash(request.node.name)) % 10**8}"
    core.create_namespace({"metadata": {"name": name}})
    return name


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "x"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def test_objects_are_created_read_listed_and_deleted(
    core: client.CoreV1Api, namespace: str
) -> None:
    created = core.create_namespaced_pod(namespace, pod("p"))
    assert created.status.phase == "Pending"
    assert core.read_namespaced_pod("p", namespace).metadata.uid == created.metadata.uid
    listed = core.list_namespaced_pod(namespace, field_selector="status.phase=Pending")
    assert [item.metadata.name for item in listed.items] == ["p"]
    core.delete_namespaced_pod("p", namespace)
    with pytest.raises(ApiException) as caught:
        core.read_namespaced_pod("p", namespace)
    assert (caught.value.status, caught.value.reason) == (404, "Not Found")


def test_lists_come_in_pages(core: client.CoreV1Api, namespace: str) -> None:
    for name in ("a", "b", "c"):
        core.create_namespaced_config_map(namespace, {"metadata": {"name": name}})
    page = core.list_namespaced_config_map(namespace, limit=2)
    rest = core.list_namespaced_config_map(namespace, limit=2, _continue=page.metadata._continue)
    names = [item.metadata.name for item in page.items + rest.items]
    assert names == ["a", "b", "c"]


def test_the_watch_helper_sees_a_pod_being_bound(core: client.CoreV1Api, namespace: str) -> None:
    version = core.list_namespaced_pod(namespace).metadata.resource_version
    seen: list[tuple[str, str | None]] = []
    watcher = watch.Watch()

    def follow() -> None:
        for event in watcher.stream(
            core.list_namespaced_pod, namespace, resource_version=version, timeout_seconds=20
        ):
            seen.append((event["type"], event["object"].spec.node_name))
            if len(seen) == 2:
                watcher.stop()

    thread = threading.Thread(target=follow)
    thread.start()
    core.create_namespaced_pod(namespace, pod("p"))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    # The answer is a Status, which this client would try to read as a Binding.
    core.create_namespaced_pod_binding("p", namespace, binding, _preload_content=False)
    thread.join(START_SECONDS)
    assert seen == [("ADDED", None), ("MODIFIED", "n1")]


def test_a_watch_from_an_expired_version_is_an_api_exception(core: client.CoreV1Api) -> None:
    with pytest.raises(ApiException) as caught:
        list(watch.Watch().stream(core.list_node, resource_version="1", timeout_seconds=5))
    assert caught.value.status == 410
    assert "too old resource version" in str(caught.value.reason)


def test_dicts_are_strategic_and_lists_are_json_patches(
    core: client.CoreV1Api, namespace: str
) -> None:
    core.create_namespaced_pod(namespace, pod("p"))
    patched = core.patch_namespaced_pod("p", namespace, {"metadata": {"labels": {"a": "1"}}})
    assert patched.metadata.labels == {"a": "1"}
    operations = [{"op": "add", "path": "/metadata/labels/b", "value": "2"}]
    patched = core.patch_namespaced_pod("p", namespace, operations)
    assert patched.metadata.labels == {"a": "1", "b": "2"}
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    status = core.patch_namespaced_pod_status(
        "p", namespace, {"status": {"conditions": conditions}}
    )
    assert status.status.conditions[0].reason == "Unschedulable"


def test_a_stale_object_is_a_conflict(core: client.CoreV1Api, namespace: str) -> None:
    stale = core.create_namespaced_config_map(namespace, {"metadata": {"name": "c"}})
    core.patch_namespaced_config_map("c", namespace, {"data": {"a": "1"}})
    stale.data = {"a": "2"}
    with pytest.raises(ApiException) as caught:
        core.replace_namespaced_config_map("c", namespace, stale)
    assert caught.value.status == 409


def test_a_pod_is_evicted_and_its_budget_can_forbid_it(
    core: client.CoreV1Api, api_client: client.ApiClient, namespace: str
) -> None:
    policy = client.PolicyV1Api(api_client)
    labelled = pod("p", nodeName="n1")
    labelled["metadata"]["labels"] = {"app": "web"}
    core.create_namespaced_pod(namespace, labelled)
    core.patch_namespaced_pod_status("p", namespace, {"status": {"phase": "Running"}})
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    policy.create_namespaced_pod_disruption_budget(namespace, budget)
    eviction = {"metadata": {"name": "p"}}
    with pytest.raises(ApiException) as caught:
        core.create_namespaced_pod_eviction("p", namespace, eviction)
    assert caught.value.status == 429
    policy.delete_namespaced_pod_disruption_budget("b", namespace)
    core.create_namespaced_pod_eviction("p", namespace, eviction, _preload_content=False)
    assert core.read_namespaced_pod("p", namespace).metadata.deletion_timestamp is not None
    core.delete_namespaced_pod("p", namespace, grace_period_seconds=0)


def test_the_dynamic_client_finds_its_way(
    api_client: client.ApiClient, namespace: str, tmp_path: Path
) -> None:
    found = dynamic.DynamicClient(api_client, cache_file=str(tmp_path / "discovery.json"))
    pods = found.resources.get(api_version="v1", kind="Pod")
    pods.create(body=pod("p"), namespace=namespace)
    assert [item.metadata.name for item in pods.get(namespace=namespace).items] == ["p"]
    classes = found.resources.get(api_version="scheduling.k8s.io/v1", kind="PriorityClass")
    assert {item.metadata.name for item in classes.get().items} >= {"system-node-critical"}


def test_leases_elect_a_leader(api_client: client.ApiClient, namespace: str) -> None:
    coordination = client.CoordinationV1Api(api_client)
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    created = coordination.create_namespaced_lease(namespace, lease)
    created.spec.holder_identity = "b"
    renewed = coordination.replace_namespaced_lease("l", namespace, created)
    assert renewed.spec.holder_identity == "b"
    with pytest.raises(ApiException) as caught:
        coordination.replace_namespaced_lease("l", namespace, created)
    assert caught.value.status == 409
