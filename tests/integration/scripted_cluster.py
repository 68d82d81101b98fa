"""A small cluster in which a scheduler does every kind of write, and the checks of the result.

From the start there are pods that get nodes, pods that fit nowhere, a pod that needs the place of a
victim, one that loses its nomination by that, one nominated beforehand, one whose volume must be
created and one whose volume exists. The module also plays kubelet and volume controller. A
scheduler that is killed on the way and started again must reach the same result.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Final, Self

import aiohttp

from fakeapi import FakeApiServer
from fakeapi.store.journal import HandledRequest, ObjectChange
from tests.integration.write_proxy import resource_of

Json = dict[str, Any]

_BOUND_BY: Final = "pv.kubernetes.io/bound-by-controller"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_MERGE: Final = {"Content-Type": "application/merge-patch+json"}

#: The nodes each pod may end on; none for pods that fit nowhere.
ENDS: Final[dict[str, set[str]]] = {
    "web-0": {"web-a", "web-b"},
    "web-1": {"web-a", "web-b"},
    "web-2": {"web-a", "web-b"},
    "late": set(),
    "huge": set(),
    "important": {"wanted"},
    "hopeful": set(),
    "promised": {"side-a", "side-b"},
    "rival": {"side-a", "side-b"},
    "db-made": {"disk-a"},
    "db-local": {"disk-b"},
}
VICTIM: Final = "victim"


def _node(name: str, role: str, cores: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"role": role, "kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": str(cores), "memory": "8Gi", "pods": "9"}},
    }


def _pod(
    name: str, role: str, cores: int, *, priority: int = 0, nominated: str = "", **spec: object
) -> Json:
    container = {"name": "c", "image": "app:v1", "resources": {"requests": {"cpu": str(cores)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeSelector": {"role": role},
            "containers": [container],
            "priorityClassName": f"class-{priority}",
            **spec,
        },
        "status": {"phase": "Pending", **({"nominatedNodeName": nominated} if nominated else {})},
    }


def _class(priority: int) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"class-{priority}"},
        "value": priority,
        "preemptionPolicy": "PreemptLowerPriority" if priority == 1000 else "Never",
    }


def _storage_class(name: str, provisioner: str) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _claim(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def _volume(name: str, node: str, storage_class: str) -> Json:
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/mnt/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        },
        "status": {"phase": "Available"},
    }


def _uses(claim: str) -> list[Json]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]


def objects() -> list[Json]:
    """The cluster as a scheduler finds it."""
    return [
        *(_class(priority) for priority in (0, 10, 1000)),
        _storage_class("made", "disks.example.com"),
        _storage_class("local", "kubernetes.io/no-provisioner"),
        _node("web-a", "web", 2),
        _node("web-b", "web", 1),
        _node("wanted", "wanted", 2),
        _node("side-a", "side", 1),
        _node("side-b", "side", 1),
        _node("disk-a", "disk-a", 1),
        _node("disk-b", "disk-b", 1),
        _claim("made"),
        _claim("local"),
        _volume("disk", "disk-b", "local"),
        _pod(VICTIM, "wanted", 2, nodeName="wanted"),
        *(_pod(f"web-{i}", "web", 1, priority=10) for i in range(3)),
        _pod("late", "web", 1),
        _pod("huge", "web", 64, priority=10),
        _pod("hopeful", "wanted", 2, priority=10, nominated="wanted"),
        _pod("important", "wanted", 1, priority=1000),
        _pod("promised", "side", 1, priority=10, nominated="side-b"),
        _pod("rival", "side", 1),
        _pod("db-made", "disk-a", 1, volumes=_uses("made")),
        _pod("db-local", "disk-b", 1, volumes=_uses("local")),
    ]


class ScriptedCluster:
    """The server, the actors in it, and a record of all writes to it."""

    def __init__(self) -> None:
        self._server = FakeApiServer(load=objects())
        self._pods: dict[str, Json] = {}
        self._works: set[asyncio.Task[None]] = set()
        self._capacity = {
            node["metadata"]["name"]: int(node["status"]["allocatable"]["cpu"])
            for node in objects()
            if node["kind"] == "Node"
        }
        #: What no scheduler may bring about.
        self.complaints: list[str] = []
        self.bindings: Counter[str] = Counter()
        #: Which pods went, by name.
        self.gone: list[str] = []
        self.failures: list[BaseException] = []

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._server)
            self.url = self._server.url
            self._session = await stack.enter_async_context(aiohttp.ClientSession())
            async with self._session.get(f"{self.url}/api/v1/pods") as answer:
                for pod in (await answer.json())["items"]:
                    self._pods[pod["metadata"]["name"]] = pod
            stack.enter_context(
                self._server.listening(on_change=self._changed, on_request=self._answered)
            )
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        for work in self._works:
            work.cancel()
        await asyncio.gather(*self._works, return_exceptions=True)
        await self._stack.aclose()

    @property
    def is_quiet(self) -> bool:
        """True if neither kubelet nor volume controller has work in flight."""
        return not self._works and not self._server.statistics().undelivered_watch_events

    @property
    def has_ended(self) -> bool:
        """True if every pod has its final node, or a condition that explains why not."""
        return not self.unfinished()

    def unfinished(self) -> list[str]:
        """Return the pods that have not reached their expected state."""
        return [
            name
            for name, nodes in ENDS.items()
            if not (self._node_of(name) in nodes if nodes else self._has_condition(name))
        ] + [VICTIM] * (VICTIM in self._pods)

    def judge(self) -> None:
        """Compare the writes with the allowed ones. Raises AssertionError."""
        assert self.failures == []
        assert self.complaints == []
        assert self.unfinished() == []
        assert set(self._pods) == set(ENDS), "pods were lost"
        assert self.gone == [VICTIM]
        assert self.bindings == {name: 1 for name, nodes in ENDS.items() if nodes}
        assert not self._pods["hopeful"]["status"].get("nominatedNodeName")

    def _node_of(self, name: str) -> str:
        node: str = self._pods[name]["spec"].get("nodeName", "")
        return node

    def _has_condition(self, name: str) -> bool:
        conditions = self._pods[name]["status"].get("conditions", [])
        return not self._node_of(name) and any(
            (c["type"], c["status"], c.get("reason")) == ("PodScheduled", "False", "Unschedulable")
            for c in conditions
        )

    def _answered(self, request: HandledRequest) -> None:
        if request.method == "POST" and resource_of(request.path) == "pods/binding":
            pod = request.path.split("/")[-2]
            self.bindings[pod] += request.status == 201

    def _changed(self, change: ObjectChange) -> None:
        if change.resource == "pods":
            self._pod_changed(change)
        elif change.resource == "persistentvolumeclaims" and change.type == "MODIFIED":
            self._claim_changed(change.object)
        elif change.resource == "persistentvolumes" and change.type == "MODIFIED":
            self._volume_changed(change.object)

    def _pod_changed(self, change: ObjectChange) -> None:
        name, new = change.name, change.object
        if change.type == "DELETED":
            self.gone.append(name)
            self._pods.pop(name, None)
            return
        old_node, node = self._node_of(name), new["spec"].get("nodeName", "")
        if old_node not in ("", node):
            self.complaints.append(f"{name} moved from {old_node} to {node}")
        self._pods[name] = new
        if node:
            cores = sum(_cores(pod) for n, pod in self._pods.items() if self._node_of(n) == node)
            if cores > self._capacity[node]:
                self.complaints.append(f"{node} has {cores} of {self._capacity[node]} cores taken")
            if new["metadata"].get("deletionTimestamp"):
                self._start(self._stop_pod(name, new["metadata"]["uid"]))

    def _claim_changed(self, claim: Json) -> None:
        """As the volume controller, create a volume for a claim with a selected node."""
        node = claim["metadata"].get("annotations", {}).get(_SELECTED_NODE)
        if node and not claim["spec"].get("volumeName"):
            self._start(self._make_volume(claim, node))

    def _volume_changed(self, volume: Json) -> None:
        """As the volume controller, let claim and volume refer to each other."""
        reference = volume["spec"].get("claimRef")
        if reference and volume["metadata"].get("annotations", {}).get(_BOUND_BY):
            self._start(self._finish_binding(reference["name"], volume["metadata"]["name"]))

    async def _stop_pod(self, name: str, uid: str) -> None:
        url = f"{self.url}/api/v1/namespaces/default/pods/{name}"
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        async with self._session.delete(url, json=body) as answer:
            assert answer.status in (200, 404, 409), await answer.text()

    async def _make_volume(self, claim: Json, node: str) -> None:
        name = claim["metadata"]["name"]
        volume = _volume(f"volume-of-{name}", node, name)
        volume["spec"]["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": "default",
            "name": name,
            "uid": claim["metadata"]["uid"],
        }
        url = f"{self.url}/api/v1/persistentvolumes"
        async with self._session.post(url, json=volume) as answer:
            assert answer.status in (201, 409), await answer.text()
        await self._finish_binding(name, volume["metadata"]["name"])

    async def _finish_binding(self, claim: str, volume: str) -> None:
        patch = {
            "metadata": {"annotations": {_BIND_COMPLETED: "yes"}},
            "spec": {"volumeName": volume},
        }
        url = f"{self.url}/api/v1/namespaces/default/persistentvolumeclaims/{claim}"
        async with self._session.patch(url, json=patch, headers=_MERGE) as answer:
            assert answer.status == 200, await answer.text()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._works.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._works.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(error)


def _cores(pod: Json) -> int:
    (container,) = pod["spec"]["containers"]
    return int(container["resources"]["requests"]["cpu"])
