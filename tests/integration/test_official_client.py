"""The official `kubernetes` package, unmodified; each test has a server of its own."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock

from fakeapi import ServerOptions
from fakeapi.faults import AnswerWith, DropWatches, Expire, Fault, Match, When
from fakeapi.pytest_plugin import FakeApi

from .clients import PATIENCE_SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.fake_api(options=ServerOptions(requests_kept=1000))]

WATCHES = Match(verb="watch", resource="configmaps")
LABELS = {"app": "web"}


@pytest.fixture
def api_client(fake_api: FakeApi) -> Iterator[client.ApiClient]:
    with config.new_client_from_config(str(fake_api.kubeconfig)) as opened:
        yield opened
    # The package leaves open connections to the garbage collector, which warns of them later.
    opened.rest_client.pool_manager.clear()


@pytest.fixture
def core(api_client: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(api_client)


@pytest.fixture
def found(api_client: client.ApiClient, tmp_path: Path) -> dynamic.DynamicClient:
    return dynamic.DynamicClient(api_client, cache_file=str(tmp_path / "discovery.json"))


def deployment(name: str = "web", image: str = "one", replicas: int = 1) -> dict[str, Any]:
    containers = [{"name": "c", "image": image}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": {"containers": containers}},
        },
    }


def put(core: client.CoreV1Api, namespace: str, *names: str) -> None:
    for name in names:
        core.create_namespaced_config_map(namespace, {"metadata": {"name": name}})


def inject(fake_api: FakeApi, *faults: Fault) -> None:
    fake_api.server.call(lambda server: server.faults.add(*faults))


# The typed API


def test_objects_are_created_read_and_deleted(fake_api: FakeApi, core: client.CoreV1Api) -> None:
    where = fake_api.namespace
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    created = core.create_namespaced_pod(where, pod)
    assert created.status.phase == "Pending"
    assert core.read_namespaced_pod("p", where).metadata.uid == created.metadata.uid
    listed = core.list_namespaced_pod(where, field_selector="status.phase=Pending")
    assert [item.metadata.name for item in listed.items] == ["p"]
    core.delete_namespaced_pod("p", where)
    with pytest.raises(ApiException) as caught:
        core.read_namespaced_pod("p", where)
    assert (caught.value.status, caught.value.reason) == (404, "Not Found")


def test_lists_are_json_patches_and_a_stale_object_is_a_conflict(
    fake_api: FakeApi, core: client.CoreV1Api
) -> None:
    where = fake_api.namespace
    put(core, where, "c")
    stale = core.read_namespaced_config_map("c", where)
    operations = [{"op": "add", "path": "/data", "value": {"a": "1"}}]
    assert core.patch_namespaced_config_map("c", where, operations).data == {"a": "1"}
    stale.data = {"a": "2"}
    with pytest.raises(ApiException) as caught:
        core.replace_namespaced_config_map("c", where, stale)
    assert caught.value.status == 409


def test_workloads_are_created_replaced_scaled_and_deleted(
    fake_api: FakeApi, api_client: client.ApiClient
) -> None:
    apps = client.AppsV1Api(api_client)
    where = fake_api.namespace
    created = apps.create_namespaced_deployment(where, deployment())
    assert created.spec.strategy.type == "RollingUpdate"
    created.spec.template.spec.containers[0].image = "two"
    replaced = apps.replace_namespaced_deployment("web", where, created)
    assert (replaced.metadata.generation, created.metadata.generation) == (2, 1)
    scale = apps.read_namespaced_deployment_scale("web", where)
    assert (scale.spec.replicas, scale.status.selector) == (1, "app=web")
    scale.spec.replicas = 3
    apps.replace_namespaced_deployment_scale("web", where, scale)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "x"}]}}}}
    patched = apps.patch_namespaced_deployment("web", where, patch)
    images = {item.name: item.image for item in patched.spec.template.spec.containers}
    assert images == {"d": "x", "c": "two"}
    assert patched.spec.replicas == 3
    apps.delete_namespaced_deployment("web", where, propagation_policy="Background")
    assert apps.list_namespaced_deployment(where).items == []


def test_collections_are_deleted_by_selector(fake_api: FakeApi, core: client.CoreV1Api) -> None:
    where = fake_api.namespace
    put(core, where, "a")
    core.create_namespaced_config_map(where, {"metadata": {"name": "b", "labels": LABELS}})
    core.delete_collection_namespaced_config_map(where, label_selector="app=web")
    left = core.list_namespaced_config_map(where, resource_version="0").items
    assert [item.metadata.name for item in left] == ["a"]


def test_dry_runs_and_field_validation_are_the_servers(
    fake_api: FakeApi, core: client.CoreV1Api
) -> None:
    where = fake_api.namespace
    core.create_namespaced_config_map(where, {"metadata": {"name": "a"}}, dry_run="All")
    assert core.list_namespaced_config_map(where).items == []
    put(core, where, "a")
    with pytest.raises(ApiException) as caught:
        core.patch_namespaced_config_map("a", where, {"bogus": 1}, field_validation="Strict")
    assert caught.value.status == 422
    assert 'unknown field \\"bogus\\"' in str(caught.value.body)


# The watch helper


class Follower:
    """A watch helper at work on the ConfigMaps of a namespace."""

    def __init__(self, core: client.CoreV1Api, namespace: str, **options: Any) -> None:
        self._events = watch.Watch().stream(
            core.list_namespaced_config_map, namespace, _request_timeout=PATIENCE_SECONDS, **options
        )

    def take(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next few events."""
        events = [next(self._events) for _ in range(count)]
        return [(event["type"], event["object"].metadata.name) for event in events]


def test_a_watch_that_is_dropped_goes_on_without_a_repeat(
    fake_api: FakeApi, core: client.CoreV1Api
) -> None:
    follower = Follower(core, fake_api.namespace, resource_version="0")
    put(core, fake_api.namespace, "a", "b")
    assert follower.take(2) == [("ADDED", "a"), ("ADDED", "b")]
    inject(fake_api, Fault(match=WATCHES, drop_watches=DropWatches()))
    put(core, fake_api.namespace, "c")
    assert follower.take(1) == [("ADDED", "c")]
    paths = [request.path for request in fake_api.requests if "watch=" in request.path]
    assert len(paths) == 2


def test_a_watch_that_has_expired_is_tried_once_more(
    fake_api: FakeApi, core: client.CoreV1Api
) -> None:
    put(core, fake_api.namespace, "a")
    inject(fake_api, Fault(name="gone", match=WATCHES, when=When(nth=2), expire=Expire()))
    follower = Follower(core, fake_api.namespace)
    assert follower.take(1) == [("ADDED", "a")]
    inject(fake_api, Fault(match=WATCHES, drop_watches=DropWatches()))
    put(core, fake_api.namespace, "b")
    assert follower.take(1) == [("ADDED", "b")]
    assert fake_api.server.call(lambda server: server.faults.count("gone")) == 1


def test_a_watch_whose_past_is_forgotten_goes_on_from_a_list(
    fake_api: FakeApi, core: client.CoreV1Api
) -> None:
    where = fake_api.namespace
    put(core, where, "a")
    follower = Follower(core, where)
    assert follower.take(1) == [("ADDED", "a")]
    put(core, where, "b")

    def forget(server: Any) -> None:
        server.faults.add(Fault(match=WATCHES, drop_watches=DropWatches()))
        server.compact()

    assert follower.take(1) == [("ADDED", "b")]
    stale = core.list_namespaced_config_map(where).metadata.resource_version
    put(core, where, "c", "d")
    fake_api.server.call(forget)
    with pytest.raises(ApiException) as caught:
        Follower(core, where, resource_version=stale).take(1)
    assert caught.value.status == 410
    listed = core.list_namespaced_config_map(where)
    follower = Follower(core, where, resource_version=listed.metadata.resource_version)
    put(core, where, "e")
    assert follower.take(1) == [("ADDED", "e")]


def test_a_watch_ends_when_its_time_is_over(fake_api: FakeApi, core: client.CoreV1Api) -> None:
    put(core, fake_api.namespace, "a")
    events = watch.Watch().stream(
        core.list_namespaced_config_map, fake_api.namespace, timeout_seconds=1
    )
    assert [event["object"].metadata.name for event in events] == ["a"]


# The dynamic client


def test_it_applies_as_several_managers(fake_api: FakeApi, found: dynamic.DynamicClient) -> None:
    deployments = found.resources.get(api_version="apps/v1", kind="Deployment")

    def apply(manager: str, image: str, force: bool = False) -> Any:
        return found.server_side_apply(
            deployments,
            body=deployment(image=image),
            namespace=fake_api.namespace,
            field_manager=manager,
            force_conflicts=force,
        )

    apply("a", "one")
    with pytest.raises(ConflictError) as caught:
        apply("b", "two")
    assert 'conflict with \\"a\\"' in str(caught.value.body)
    taken = apply("b", "two", force=True)
    assert taken.spec.template.spec.containers[0].image == "two"
    managers = {entry.manager: entry.operation for entry in taken.metadata.managedFields}
    assert managers == {"a": "Apply", "b": "Apply"}


def test_it_reads_patches_and_watches_discovered_resources(
    fake_api: FakeApi, found: dynamic.DynamicClient
) -> None:
    where = fake_api.namespace
    maps = found.resources.get(api_version="v1", kind="ConfigMap")
    assert "create" in maps.verbs
    assert found.version["kubernetes"]["minor"].startswith("36")
    version = maps.get(namespace=where).metadata.resourceVersion
    maps.create(body={"metadata": {"name": "m"}}, namespace=where)
    merge = "application/merge-patch+json"
    body = {"metadata": {"name": "m"}, "data": {"a": "1"}}
    maps.patch(body=body, namespace=where, content_type=merge)
    whole = maps.get(name="m", namespace=where).to_dict()
    maps.replace(body={**whole, "data": {"b": "2"}}, namespace=where)
    maps.delete(name="m", namespace=where)
    events = maps.watch(namespace=where, resource_version=version, timeout=1)
    seen = [(event["type"], event["object"].to_dict().get("data")) for event in events]
    assert seen == [
        ("ADDED", None),
        ("MODIFIED", {"a": "1"}),
        ("MODIFIED", {"b": "2"}),
        ("DELETED", {"b": "2"}),
    ]


def test_it_uses_a_kind_that_was_defined_a_moment_ago(
    fake_api: FakeApi, found: dynamic.DynamicClient
) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": "gadgets", "kind": "Gadget"}
    definitions = found.resources.get(kind="CustomResourceDefinition")
    definitions.create(
        body={
            "metadata": {"name": "gadgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": names,
                "versions": [version],
            },
        }
    )
    gadgets = found.resources.get(api_version="example.com/v1", kind="Gadget")
    kind = {"apiVersion": "example.com/v1", "kind": "Gadget"}
    body = {**kind, "metadata": {"name": "g"}, "spec": {"size": 3}}
    gadgets.create(body=body, namespace=fake_api.namespace)
    assert gadgets.get(name="g", namespace=fake_api.namespace).spec.size == 3


# Manifests


def test_manifests_of_many_kinds_are_created(
    fake_api: FakeApi, api_client: client.ApiClient, tmp_path: Path
) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": LABELS, "ports": [{"port": 80}]},
    }
    listed = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}],
    }
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "another"}}
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all([space, deployment(), service, listed]), encoding="utf-8")
    utils.create_from_yaml(api_client, str(path), namespace=fake_api.namespace)
    core = client.CoreV1Api(api_client)
    assert core.read_namespaced_config_map("m", fake_api.namespace).metadata.name == "m"
    assert core.read_namespaced_service("web", fake_api.namespace).spec.ports[0].target_port == 80
    assert core.read_namespace("another").status.phase == "Active"
    with pytest.raises(utils.FailToCreateError) as caught:
        utils.create_from_yaml(api_client, str(path), namespace=fake_api.namespace)
    assert {failure.status for failure in caught.value.api_exceptions} == {409}
    assert len(caught.value.api_exceptions) == 4


# Leader election


class Candidate:
    """A candidate for a lease, in a thread of its own."""

    def __init__(self, name: str, fake_api: FakeApi, lock: Any) -> None:
        self.leads = threading.Event()
        self.has_ended = threading.Event()
        lock.api_instance.api_client.user_agent = name
        wish = electionconfig.Config(
            lock,
            lease_duration=3,
            renew_deadline=2,
            retry_period=1,
            onstarted_leading=self.leads.set,
            onstopped_leading=self.has_ended.set,
        )
        self._name, self._fake_api, self._lock = name, fake_api, lock
        self._thread = threading.Thread(target=leaderelection.LeaderElection(wish).run)
        self._thread.start()

    def lose(self) -> None:
        """Block its renewals, and wait until it has given up."""
        refused = Match(verb="update", client=self._name)
        inject(self._fake_api, Fault(match=refused, answer=AnswerWith(code=500)))
        assert self.has_ended.wait(PATIENCE_SECONDS)
        self._thread.join()
        self._lock.api_instance.api_client.rest_client.pool_manager.clear()


def lock_of(kind: str, name: str, namespace: str, kubeconfig: Path) -> Any:
    """A lock of the package, with a client of its own."""
    if kind == "configmap":
        lock, api = ConfigMapLock("lock", namespace, name), client.CoreV1Api
    else:
        leases = pytest.importorskip("kubernetes.leaderelection.resourcelock.leaselock")
        lock, api = leases.LeaseLock("lock", namespace, name), client.CoordinationV1Api
    lock.api_instance = api(config.new_client_from_config(str(kubeconfig)))
    return lock


@pytest.mark.parametrize("kind", ["configmap", "lease"])
def test_the_lead_passes_on_when_it_is_lost(fake_api: FakeApi, kind: str) -> None:
    where = (fake_api.namespace, fake_api.kubeconfig)
    first = Candidate("first", fake_api, lock_of(kind, "first", *where))
    assert first.leads.wait(PATIENCE_SECONDS)
    second = Candidate("second", fake_api, lock_of(kind, "second", *where))
    assert not second.leads.is_set()
    first.lose()
    assert second.leads.wait(PATIENCE_SECONDS)
    reader = lock_of(kind, "third", *where)
    known, record = reader.get("lock", fake_api.namespace)
    reader.api_instance.api_client.rest_client.pool_manager.clear()
    assert known
    assert record.holder_identity == "second"
    second.lose()
    second.lose()
