"""The client of a case in a cluster: refusals of the server, names, and controllers' work."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from conformance.api import ApiClient, Json, Ref
from conformance.connection import Connection
from conformance.errors import NotObservable, RequestFailed
from conformance.format.resources import objects, part
from conformance.targets import cluster_api
from conformance.targets.cluster_api import ClusterApi, empty_namespace
from fakeapi import FakeApiServer, HandledRequest, Security, ServerOptions, User

POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
#: A volume that the cluster has.
THERE: Json = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "there"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/there"},
    },
}
NODE: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}


def priority_class(name: str, *, value: int) -> Json:
    metadata = {"name": name}
    api_version = "scheduling.k8s.io/v1"
    return {
        "apiVersion": api_version,
        "kind": "PriorityClass",
        "metadata": metadata,
        "value": value,
    }


@contextlib.asynccontextmanager
async def case_in(server: FakeApiServer, token: str = "", **more: Any) -> AsyncIterator[ClusterApi]:
    """The client of a case whose names begin with `run`."""
    options = {"fenced": False, "controlled": False, **more}
    connection = Connection(server.url, token=token)
    async with ClusterApi(connection, "run", run="run", **options) as api:
        yield api


@contextlib.contextmanager
def request_to(server: FakeApiServer, path: str) -> Iterator[asyncio.Event]:
    """Give an event that happens with the next request whose path ends so."""
    answered = asyncio.Event()

    def look(request: HandledRequest) -> None:
        if request.path.partition("?")[0].endswith(path):
            answered.set()

    with server.listening(on_request=look):
        yield answered


@pytest.mark.parametrize(
    ("obj", "problem"),
    [
        # A field may be behind a gate of the server.
        (
            {**POD, "spec": {"containers": []}},
            "the API server refuses pod p: .*spec.containers: Required value",
        ),
        (
            {**POD, "kind": "Nonsense", "apiVersion": "x.io/v9"},
            "the API server has no Nonsense of x.io/v9",
        ),
        (
            THERE,
            "the cluster has a persistentvolume there that the suite has not made",
        ),
    ],
)
async def test_what_a_cluster_cannot_have_is_not_observable(obj: Json, problem: str) -> None:
    async with FakeApiServer(load=[THERE]) as server, case_in(server) as api:
        with pytest.raises(NotObservable, match=problem):
            await api.create(obj)


@pytest.mark.parametrize("obj", [POD, {**NODE, "spec": {"taints": [{"key": "", "effect": "x"}]}}])
async def test_other_refusals_are_the_cases_own(obj: Json) -> None:
    """A pod that is there already, and a node that is not valid."""
    async with FakeApiServer() as server, case_in(server) as api:
        await api.create(POD)
        with pytest.raises(RequestFailed) as failed:
            await api.create(obj)
        assert not isinstance(failed.value, NotObservable)


async def test_what_the_user_may_not_create_is_not_observable() -> None:
    security = Security(tokens={"judge": User("judge")}, authorization_mode="RBAC")
    async with FakeApiServer(security=security) as server, case_in(server, "judge") as api:
        with pytest.raises(
            NotObservable, match="the API server refuses node a: POST /api/v1/nodes: 403"
        ):
            await api.create(NODE)


async def test_an_equal_object_of_the_cluster_will_do() -> None:
    async with FakeApiServer() as server, case_in(server) as api:
        async with ApiClient(Connection(server.url)) as others:
            await others.create(priority_class("high", value=7))
        await api.create_unless_there(priority_class("high", value=7))
        await api.create_unless_there(priority_class("low", value=1))
        await api.create_unless_there(priority_class("low", value=1))
        with pytest.raises(NotObservable, match="the cluster has a priorityclass high"):
            await api.create_unless_there(priority_class("high", value=8))


async def test_a_pod_waits_until_admission_knows_its_priority_class() -> None:
    obj = {**POD, "spec": {**part(POD, "spec"), "priorityClassName": "late"}}
    async with FakeApiServer() as server, case_in(server) as api:
        with request_to(server, "/pods") as refused:
            creating = asyncio.ensure_future(api.create(obj))
            await refused.wait()
        assert not creating.done()
        await api.create(priority_class("late", value=7))
        assert part(await creating, "spec")["priority"] == 7


async def test_a_priority_class_that_never_comes_is_a_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_api, "_ADMISSION_SECONDS", 0.0)
    obj = {**POD, "spec": {**part(POD, "spec"), "priorityClassName": "never"}}
    async with FakeApiServer() as server, case_in(server) as api:
        with pytest.raises(RequestFailed, match="no PriorityClass with name never"):
            await api.create(obj)


async def test_selectors_of_namespaces_get_the_names_of_the_run() -> None:
    """The server has them with a prefix, the case sees them without."""
    key = "kubernetes.io/metadata.name"
    expressions = [{"key": key, "operator": "In", "values": ["team"]}]
    term = {
        "topologyKey": "zone",
        "labelSelector": {},
        "namespaceSelector": {"matchExpressions": expressions},
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    obj = {**POD, "spec": {**part(POD, "spec"), "affinity": {"podAffinity": required}}}
    async with FakeApiServer() as server, case_in(server) as api:
        created = await api.create(obj)
        assert "'values': ['team']" in str(created)
        (stored,) = await names_of_namespaces(server)
        assert stored == "run-team"


async def names_of_namespaces(server: FakeApiServer) -> list[str]:
    """Return the names that the affinity of the pod on the server selects."""
    async with ApiClient(Connection(server.url)) as api:
        pod = await api.find(Ref("Pod", "p", "run-default"))
    assert pod is not None
    affinity = part(part(part(pod, "spec"), "affinity"), "podAffinity")
    (term,) = objects(affinity["requiredDuringSchedulingIgnoredDuringExecution"])
    (expression,) = objects(part(term, "namespaceSelector")["matchExpressions"])
    values = expression["values"]
    assert isinstance(values, list)
    return values


async def test_a_node_loses_the_taint_of_new_nodes() -> None:
    options = ServerOptions(enable_admission_plugins=("TaintNodesByCondition",))
    taint = {"key": "team", "value": "db", "effect": "NoSchedule"}
    async with FakeApiServer(options=options) as server, case_in(server) as api:
        created = await api.create({**NODE, "spec": {"taints": [taint]}})
        assert part(created, "spec")["taints"] == [taint]


async def test_nodes_are_kept_ready_where_a_controller_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_api, "_HEARTBEAT_SECONDS", 0.01)
    dead = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}

    async def state() -> object:
        node = await api.find(Ref("Node", "a"))
        assert node is not None
        (condition,) = objects(part(node, "status")["conditions"])
        return condition["status"]

    async with FakeApiServer() as server, case_in(server, controlled=True) as api:
        await api.create(NODE)
        assert await state() == "True"
        async with ApiClient(Connection(server.url)) as controller:
            status = {"status": {"conditions": [dead]}}
            await controller.patch(
                Ref("Node", "a"), status, patch_type="merge", subresource="status"
            )
        with request_to(server, "/nodes/a/status") as reported:
            await reported.wait()
        assert await state() == "True"


class Refusing(ApiClient):
    """Refuses the deletion of all objects of a kind, with a status."""

    def __init__(self, url: str, kind: str, status: int) -> None:
        super().__init__(Connection(url))
        self._kind, self._status = kind, status

    async def delete_all(self, kind: Ref, *, label_selector: str = "") -> None:
        if kind.kind == self._kind:
            raise RequestFailed("refused", status=self._status)
        await super().delete_all(kind, label_selector=label_selector)


async def test_a_namespace_is_emptied_of_what_the_user_may_list() -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    async with FakeApiServer() as server:
        async with Refusing(server.url, "Pod", 403) as api:
            await api.create(POD)
            await api.create({**config_map, "metadata": {"name": "c", "namespace": "default"}})
            await empty_namespace(api, "default")
            assert await api.find(Ref("ConfigMap", "c", "default")) is None
            assert await api.find(Ref("Pod", "p", "default")) is not None
        async with Refusing(server.url, "ConfigMap", 500) as api:
            with pytest.raises(RequestFailed, match="refused"):
                await empty_namespace(api, "default")
