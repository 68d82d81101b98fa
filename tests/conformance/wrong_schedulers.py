"""Schedulers that decide wrongly, each in one way, to see that invariants notice it.

Functions for `--in-process`, as in `schedulers`.
"""

from typing import Any

import aiohttp

from conformance.clock import Clock
from scheduler import Plugin, unschedulable
from tests.conformance.schedulers import TinyScheduler, started

_NOW = "2026-01-01T00:00:00.000000Z"


class _Wrong(TinyScheduler):
    """Reads all nodes and pods for each new pod, and binds it or reports it."""

    def __init__(self, url: str) -> None:
        super().__init__(url, None)

    async def _take(self, session: aiohttp.ClientSession, pod: dict[str, Any]) -> None:
        if "nodeName" in pod["spec"]:
            return
        self._busy = True
        nodes = (await _get(session, "/api/v1/nodes"))["items"]
        pods = (await _get(session, "/api/v1/pods"))["items"]
        node_name = await self.decide(session, pod, nodes, pods)
        path = _path(pod)
        if node_name is None:
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            body: dict[str, Any] = {"status": {"conditions": [condition | {"message": "no"}]}}
            await _send(session, "PATCH", f"{path}/status", body)
        else:
            target = {"kind": "Node", "name": node_name}
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod["metadata"]["name"]},
                "target": target,
            }
            await _send(session, "POST", f"{path}/binding", body)
        self._busy = False

    async def decide(
        self,
        session: aiohttp.ClientSession,
        pod: dict[str, Any],
        nodes: list[dict[str, Any]],
        pods: list[dict[str, Any]],
    ) -> str | None:
        """Return the pod's node, or None."""
        raise NotImplementedError


def _path(pod: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


async def _get(session: aiohttp.ClientSession, path: str) -> dict[str, Any]:
    async with session.get(path) as response:
        answer: dict[str, Any] = await response.json()
        return answer


async def _send(
    session: aiohttp.ClientSession, method: str, path: str, body: dict[str, Any] | None = None
) -> None:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    headers = {"Content-Type": kind}
    async with session.request(method, path, json=body, headers=headers) as response:
        assert response.status < 300, await response.text()


class _ReportsAll(_Wrong):
    async def decide(self, session, pod, nodes, pods):  # type: ignore[no-untyped-def]
        return None


class _LikesSmallNodes(_Wrong):
    async def decide(self, session, pod, nodes, pods):  # type: ignore[no-untyped-def]
        small = [n for n in nodes if n["status"]["allocatable"]["cpu"] in ("1", "2", "4")]
        return small[0]["metadata"]["name"] if small else None


class _LikesEarlyNames(_Wrong):
    async def decide(self, session, pod, nodes, pods):  # type: ignore[no-untyped-def]
        early = [n["metadata"]["name"] for n in nodes if n["metadata"]["name"] < "m"]
        return early[0] if early else None


class _PreemptsAll(_Wrong):
    """Deletes all pods of the first node for each pod, with an event that names it."""

    async def decide(self, session, pod, nodes, pods):  # type: ignore[no-untyped-def]
        node_name = nodes[0]["metadata"]["name"]
        for victim in pods:
            if victim["spec"].get("nodeName") == node_name:
                await _send(session, "POST", _EVENTS, _event(victim, pod))
                await _send(session, "DELETE", _path(victim), {"gracePeriodSeconds": 0})
        return node_name


class _Patient(_Wrong):
    """Looks at all pods without a node after each event, and binds those for which a CPU is free.

    It never preempts, and reports a pod once.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._reported: set[str] = set()

    async def _follow(self, session: aiohttp.ClientSession) -> None:
        async with session.get("/api/v1/pods", params={"watch": "true"}) as response:
            self._busy = False
            async for _ in response.content:
                for pod in (await _get(session, "/api/v1/pods"))["items"]:
                    await self._take(session, pod)

    async def decide(self, session, pod, nodes, pods):  # type: ignore[no-untyped-def]
        for node in nodes:
            name, cpus = node["metadata"]["name"], int(node["status"]["allocatable"]["cpu"])
            if sum(other["spec"].get("nodeName") == name for other in pods) < cpus:
                return name
        return None


class _AsksTwice(_Wrong):
    """Binds each pod to the first node, and asks for the same again, which is refused."""

    async def _take(self, session: aiohttp.ClientSession, pod: dict[str, Any]) -> None:
        await super()._take(session, pod)
        target = {"kind": "Node", "name": "a"}
        metadata = {"name": pod["metadata"]["name"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        async with session.post(f"{_path(pod)}/binding", json=body) as response:
            await response.read()

    async def decide(self, session, pod, nodes, pods):  # type: ignore[no-untyped-def]
        return nodes[0]["metadata"]["name"]


class _PreemptsTwice(_Wrong):
    """Deletes all pods of the first node twice, while they end, and reports each new pod."""

    async def decide(self, session, pod, nodes, pods):  # type: ignore[no-untyped-def]
        for victim in pods:
            if victim["spec"].get("nodeName") == nodes[0]["metadata"]["name"]:
                for _ in range(2):
                    await _send(session, "DELETE", _path(victim), {"gracePeriodSeconds": 60})


class _ReportsBound(_Wrong):
    """Binds each pod to the first node, and then shows it as unschedulable."""

    async def _take(self, session: aiohttp.ClientSession, pod: dict[str, Any]) -> None:
        await super()._take(session, pod)
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await _send(
            session, "PATCH", f"{_path(pod)}/status", {"status": {"conditions": [condition]}}
        )

    async def decide(self, session, pod, nodes, pods):  # type: ignore[no-untyped-def]
        return nodes[0]["metadata"]["name"]


class _BindsTheUnimportant(_Wrong):
    """Binds pods of the lowest priority to the first node, and reports the others."""

    async def decide(self, session, pod, nodes, pods):  # type: ignore[no-untyped-def]
        return None if pod["spec"].get("priority") else nodes[0]["metadata"]["name"]


class _Boasts(_Wrong):
    """Binds each pod to the first node, and writes that it was assigned to another."""

    async def decide(self, session, pod, nodes, pods):  # type: ignore[no-untyped-def]
        name = pod["metadata"]["name"]
        event = _event(pod, pod) | {"reason": "Scheduled", "action": "Binding"}
        event["note"] = f"Successfully assigned default/{name} to nowhere"
        await _send(session, "POST", _EVENTS, event)
        return nodes[0]["metadata"]["name"]


class _GivesOneDeviceToAll(_Wrong):
    """Allocates the first device for the claims of each pod, and binds it to the first node."""

    async def decide(self, session, pod, nodes, pods):  # type: ignore[no-untyped-def]
        spec = (await _get(session, f"{_DEVICES}/resourceslices"))["items"][0]["spec"]
        device = {"driver": spec["driver"], "pool": spec["pool"]["name"], "request": "r"}
        device["device"] = spec["devices"][0]["name"]
        user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        status = {"allocation": {"devices": {"results": [device]}}, "reservedFor": [user]}
        for each in pod["spec"].get("resourceClaims", ()):
            path = f"{_DEVICES}/namespaces/default/resourceclaims/{each['resourceClaimName']}"
            await _send(session, "PATCH", f"{path}/status", {"status": status})
        return nodes[0]["metadata"]["name"]


_DEVICES = "/apis/resource.k8s.io/v1"
_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def _event(victim: dict[str, Any], preemptor: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{victim['metadata']['name']}.1", "namespace": "default"},
        "eventTime": _NOW,
        "reportingController": "wrong",
        "reportingInstance": "wrong",
        "type": "Normal",
        "reason": "Preempted",
        "action": "Preempting",
        "note": "Preempted",
        "regarding": _reference(victim),
        "related": _reference(preemptor),
    }


def _reference(pod: dict[str, Any]) -> dict[str, str]:
    metadata = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
    }


@started
def reports_all(url: str, _: Clock) -> TinyScheduler:
    """Reports every pod as unschedulable."""
    return _ReportsAll(url)


@started
def likes_small_nodes(url: str, _: Clock) -> TinyScheduler:
    """Binds pods to nodes with up to 4 CPUs only."""
    return _LikesSmallNodes(url)


@started
def likes_early_names(url: str, _: Clock) -> TinyScheduler:
    """Binds pods to nodes with names before `m` only."""
    return _LikesEarlyNames(url)


@started
def preempts_all(url: str, _: Clock) -> TinyScheduler:
    """Preempts every pod of a node for each new one."""
    return _PreemptsAll(url)


@started
def preempts_twice(url: str, _: Clock) -> TinyScheduler:
    """Deletes the pods of a node twice for each new one."""
    return _PreemptsTwice(url)


@started
def binds_the_unimportant(url: str, _: Clock) -> TinyScheduler:
    """Binds pods of the lowest priority, whatever is nominated."""
    return _BindsTheUnimportant(url)


@started
def boasts(url: str, _: Clock) -> TinyScheduler:
    """Writes events that are not true."""
    return _Boasts(url)


@started
def gives_one_device_to_all(url: str, _: Clock) -> TinyScheduler:
    """Gives the first device to each claim."""
    return _GivesOneDeviceToAll(url)


@started
def reports_bound(url: str, _: Clock) -> TinyScheduler:
    """Shows each pod that it has bound as unschedulable."""
    return _ReportsBound(url)


@started
def never_preempts(url: str, _: Clock) -> TinyScheduler:
    """Binds a pod to the first node with a free CPU, and waits for one to become free."""
    return _Patient(url)


@started
def asks_twice(url: str, _: Clock) -> TinyScheduler:
    """Binds each pod to the first node, and asks for that twice."""
    return _AsksTwice(url)


class Shy(Plugin):
    """A plugin that keeps all pods away from all nodes."""

    def filter(self, state, pod, node):  # type: ignore[no-untyped-def]
        return unschedulable("node(s) were too far away")
