"""The border between a case and a running cluster: the API of the cluster as the case sees it.

    case: default/web  <-->  cluster: conformance-4f1d3e-7-default/web

Each namespace of a case is a namespace of the cluster that only this case uses. The names are
converted here in both directions, also in messages, so cases and expectations stay as they are.
Objects without a namespace keep their names and get the label `conformance.kubesched/run`. An
existing object of such a name is never touched: the case is skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fakeapi import HandledRequest, ObjectChange

from ..api import USER_AGENT, ApiClient, Json, Listing, Ref, ref_of
from ..clock import RealClock
from ..errors import NotObservable, RequestFailed
from ..format.resources import objects, part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fakeapi import Kind

    from ..api import WatchEvent
    from ..connection import Connection

T = TypeVar("T")

#: On all objects without a namespace that the suite creates, and on namespaces: the run's name.
OWNER_LABEL: Final = "conformance.kubesched/run"
#: Namespaces that every cluster has, so a case does not create them.
_ALWAYS_THERE: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_NO_PRIORITY_CLASS: Final = "no PriorityClass with name"
#: The API server's admission learns of a new priority class a moment later.
_ADMISSION_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.05
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_READY: Final = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
_FORBIDDEN: Final = 403
_EXPIRED: Final = 410
_INVALID: Final = 422
#: The admission plugin TaintNodesByCondition adds this taint to each new node.
TAINT_OF_NEW_NODES: Final = "node.kubernetes.io/not-ready"
_TOLERATES_NEW_NODES: Final[Json] = {
    "key": TAINT_OF_NEW_NODES,
    "operator": "Exists",
    "effect": "NoSchedule",
}
_CREATED: Final = 201
_HEARTBEAT_SECONDS: Final = 10.0
_WATCHED: Final = (Ref("Pod", "", ""), Ref("Event", "", "", "events.k8s.io/v1"))


class ClusterApi(ApiClient):
    """The client of one case. `prefix` begins the names of its namespaces, and no other names.

    With `fenced`, as the cluster has other nodes, the case's pods only fit the case's nodes, and
    other pods do not fit there. With `controlled` the cluster has controllers, for which the nodes
    are kept ready.
    """

    def __init__(
        self, connection: Connection, prefix: str, *, run: str, fenced: bool, controlled: bool
    ) -> None:
        super().__init__(connection)
        self._controlled = controlled
        self._prefix = f"{prefix}-"
        self._owner = {OWNER_LABEL: run}
        self._fenced = fenced
        self._namespaces: list[str] = []
        self._made: list[Ref] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._followed: set[Ref] = set()
        self._on_change: Callable[[ObjectChange], None] | None = None
        self._on_request: Callable[[HandledRequest], None] | None = None
        #: Counts changes of pods and events in the case's namespaces.
        self.changes = 0

    async def __aenter__(self) -> ClusterApi:
        await super().__aenter__()
        if self._controlled:
            self._tasks.append(asyncio.create_task(self._keep_nodes_ready()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await super().__aexit__()

    # Names

    def _namespace(self, name: str) -> str:
        return self._prefix + name

    def _outgoing(self, body: object) -> object:
        return self._renamed(body)

    def _incoming(self, body: bytes) -> bytes:
        return body.replace(self._prefix.encode(), b"")

    def _renamed(self, value: object) -> object:
        """Convert the names of namespaces, wherever an API object can have one."""
        if isinstance(value, list):
            return [self._renamed(item) for item in value]
        if not isinstance(value, dict):
            return value
        renamed: dict[str, Any] = {name: self._renamed(item) for name, item in value.items()}
        if renamed.get("kind") == "Namespace" and isinstance(renamed.get("metadata"), dict):
            renamed["metadata"]["name"] = self._namespace(renamed["metadata"]["name"])
        for name in ("namespace", _NAMESPACE_NAME):
            if isinstance(renamed.get(name), str):
                renamed[name] = self._namespace(renamed[name])
        if isinstance(renamed.get("namespaces"), list):
            renamed["namespaces"] = [self._namespace(str(name)) for name in renamed["namespaces"]]
        if renamed.get("key") == _NAMESPACE_NAME and isinstance(renamed.get("values"), list):
            renamed["values"] = [self._namespace(str(name)) for name in renamed["values"]]
        return renamed

    # Writes

    async def create(self, obj: Json) -> Json:
        """Create an object of the case. Raises NotObservable if the cluster cannot have it."""
        ref = ref_of(obj)
        self._follow_if_observed(ref)
        if not await self._is_namespaced(ref):
            return await self._create_without_namespace(obj, ref)
        if ref.namespace in _ALWAYS_THERE and ref.namespace not in self._namespaces:
            await self._create_namespace(ref.namespace, {})
        try:
            if ref.kind != "Pod":
                return await super().create(obj)
            return await self._create_pod(self._adapted(obj))
        except RequestFailed as error:
            if error.status == _INVALID:
                # A field may be behind a feature gate of the API server.
                raise NotObservable(f"the API server refuses {ref}: {error}") from error
            raise

    async def create_unless_there(self, obj: Json) -> None:
        """Create an object unless the case has created it, or the cluster has an equal one."""
        ref = ref_of(obj)
        if ref in self._made:
            return
        obj_there = await self.find(ref)
        if obj_there is None:
            await self.create(obj)
        elif obj_there.get("value") != obj.get("value"):
            raise _is_not_ours(ref)

    async def patch(
        self, ref: Ref, patch: object, *, patch_type: str, subresource: str = ""
    ) -> Json:
        """Patch an object of the case. Raises RequestFailed for any other object."""
        await self._check_ours(ref)
        return await super().patch(ref, patch, patch_type=patch_type, subresource=subresource)

    async def delete(self, ref: Ref, *, grace_period_seconds: int = 0) -> None:
        """Delete an object of the case. Raises RequestFailed for any other object."""
        await self._check_ours(ref)
        await super().delete(ref, grace_period_seconds=grace_period_seconds)

    async def _check_ours(self, ref: Ref) -> None:
        if ref.kind == "Namespace" and ref.name in self._namespaces:
            return
        if not await self._is_namespaced(ref) and ref not in self._made:
            raise RequestFailed(f"{ref}: the suite has not made it, and leaves it alone")

    async def _is_namespaced(self, ref: Ref) -> bool:
        try:
            return (await self.resource(ref)).namespaced
        except RequestFailed as error:
            if error.status == 404:
                missing = f"the API server has no {ref.kind} of {ref.api_version}"
                raise NotObservable(missing) from error
            raise

    async def _create_without_namespace(self, obj: Json, ref: Ref) -> Json:
        metadata = obj["metadata"]
        assert isinstance(metadata, dict)
        if ref.kind == "Namespace":
            return await self._create_namespace(ref.name, metadata)
        labels = {**(metadata.get("labels") or {}), **self._owner}
        owned: Json = {**obj, "metadata": {**metadata, "labels": labels}}
        if ref.kind == "Node":
            owned = self._adapted_node(owned)
        self._made.append(ref)
        try:
            created = await super().create(owned)
        except RequestFailed as error:
            self._made.remove(ref)
            if error.status == 409:
                raise _is_not_ours(ref) from error
            if error.status == _FORBIDDEN:
                raise NotObservable(f"the API server refuses {ref}: {error}") from error
            raise
        if ref.kind == "Node" and (taints := _taints(owned)) != _taints(created):
            # Admission adds a taint, which a controller would remove.
            return await self.patch(ref, {"spec": {"taints": taints}}, patch_type="merge")
        return created

    async def _create_namespace(self, name: str, metadata: Mapping[str, object]) -> Json:
        labels = metadata.get("labels")
        owned = {**(labels if isinstance(labels, dict) else {}), **self._owner}
        there = {**metadata, "name": name, "labels": owned}
        created = await super().create({"apiVersion": "v1", "kind": "Namespace", "metadata": there})
        self._namespaces.append(name)
        self._follow_if_observed(Ref("Namespace", name))
        account = {"name": "default", "namespace": name}
        # Pods need it where admission asks for it; and a token would be one more volume.
        await super().create_unless_there(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": account,
                "automountServiceAccountToken": False,
            }
        )
        for kind in _WATCHED:
            self._follow(kind._replace(namespace=name))
        return created

    async def _create_pod(self, pod: Json) -> Json:
        clock = RealClock()
        deadline = clock.monotonic() + _ADMISSION_SECONDS
        while True:
            try:
                return await super().create(pod)
            except RequestFailed as error:
                if _NO_PRIORITY_CLASS not in str(error) or clock.monotonic() > deadline:
                    raise
            await clock.sleep(_LOOK_SECONDS)

    def _adapted(self, pod: Json) -> Json:
        """Return a pod that avoids other nodes, and tolerates the taint of nodes that are new."""
        spec = part(pod, "spec")
        tolerations = [*objects(spec.get("tolerations")), _TOLERATES_NEW_NODES]
        if not self._fenced:
            return {**pod, "spec": {**spec, "tolerations": tolerations}}
        selector = {**part(spec, "nodeSelector"), **self._owner}
        tolerations.append({"key": OWNER_LABEL, "operator": "Exists"})
        return {**pod, "spec": {**spec, "nodeSelector": selector, "tolerations": tolerations}}

    def _adapted_node(self, node: Json) -> Json:
        """Return a node that keeps the pods of others away, and is ready for controllers."""
        adapted = {**node}
        if self._fenced:
            spec = part(node, "spec")
            taints = [{"key": key, "effect": "NoSchedule"} for key in self._owner]
            adapted["spec"] = {**spec, "taints": [*objects(spec.get("taints")), *taints]}
        if self._controlled:
            # The controller remembers the heartbeat of an earlier node of that name.
            ready = {**_READY, "lastHeartbeatTime": _now()}
            adapted["status"] = {"conditions": [ready], **part(node, "status")}
        return adapted

    # Reads

    async def listing(
        self, kind: Ref, item: type[T], *, query: Mapping[str, str] | None = None
    ) -> Listing[T]:
        """Return the objects of the case, in one namespace or in all of its namespaces."""
        if not await self._is_namespaced(kind):
            return await super().listing(
                kind, item, query={**(query or {}), "labelSelector": self._owned}
            )
        names = [kind.namespace] if kind.namespace else self._namespaces
        parts = [
            await super(ClusterApi, self).listing(kind._replace(namespace=name), item, query=query)
            for name in names
        ]
        version = parts[-1].resource_version if parts else ""
        return Listing(version, [obj for part in parts for obj in part.items])

    @property
    def _owned(self) -> str:
        """The selector of the run's objects without a namespace."""
        return ",".join(f"{name}={value}" for name, value in self._owner.items())

    # What happens

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """None: changes have the form of the API."""
        return ()

    @contextlib.contextmanager
    def listening(
        self,
        *,
        on_change: Callable[[ObjectChange], None],
        on_request: Callable[[HandledRequest], None],
    ) -> Iterator[None]:
        """Call back with each change of the case's objects; of requests with own bindings only.

        The block must begin before the first object is created. Changes arrive when the watches
        deliver them, in order for each kind and namespace only.
        """
        self._on_change, self._on_request = on_change, on_request
        try:
            yield
        finally:
            self._on_change = self._on_request = None

    async def bind(self, pod: Ref, node_name: str) -> None:
        await super().bind(pod, node_name)
        if self._on_request is not None:
            path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding"
            now = RealClock().now()
            self._on_request(HandledRequest(now, "POST", path, USER_AGENT, _CREATED))

    def _follow_if_observed(self, ref: Ref) -> None:
        """Follow the kind of an object, in its namespace if it has one."""
        if self._on_change is not None:
            self._follow(ref._replace(name=""))

    def _follow(self, kind: Ref) -> None:
        """Start to follow a kind, unless it is followed."""
        if kind not in self._followed:
            self._followed.add(kind)
            self._tasks.append(asyncio.create_task(self._follow_forever(kind)))

    async def _follow_forever(self, kind: Ref) -> None:
        """Count and report the changes of a kind, until cancelled."""
        version = ""
        resource = await self.resource(kind)
        selector = "" if resource.namespaced else self._owned
        while True:
            try:
                watch = self.watch(kind, Json, version, label_selector=selector)
                async with contextlib.aclosing(watch) as events:
                    async for event in events:
                        metadata = part(event.object, "metadata")
                        version = str(metadata["resourceVersion"])
                        self.changes += 1
                        self._report(event, kind, resource.name)
            except RequestFailed as error:
                if error.status == _EXPIRED:
                    version = ""
            await asyncio.sleep(_LOOK_SECONDS)

    def _report(self, event: WatchEvent[Json], kind: Ref, plural: str) -> None:
        if self._on_change is None:
            return
        metadata = part(event.object, "metadata")
        change = ObjectChange(
            seconds=RealClock().now(),
            resource_version=int(str(metadata["resourceVersion"])),
            type=event.type,
            group=kind.api_version.rpartition("/")[0],
            resource=plural,
            namespace=str(metadata.get("namespace", "")),
            name=str(metadata["name"]),
            object=event.object,
        )
        self._on_change(change)

    async def _keep_nodes_ready(self) -> None:
        """Report every few seconds that the case's nodes are ready, until cancelled."""
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            for ref in [ref for ref in self._made if ref.kind == "Node"]:
                with contextlib.suppress(RequestFailed):
                    status = {"status": {"conditions": [{**_READY, "lastHeartbeatTime": _now()}]}}
                    await self.patch(ref, status, patch_type="strategic", subresource="status")

    async def clear(self) -> None:
        """Delete all objects of the case: first its namespaces, then its other objects."""
        for name in self._namespaces:
            await empty_namespace(self, name)
            await delete_namespace(self, name, controlled=self._controlled)
        for ref in reversed(self._made):
            await self.delete_for_good(ref)


async def empty_namespace(api: ApiClient, name: str) -> None:
    """Delete all objects in a namespace, pods first."""
    kinds = await api.collections(namespaced=True)
    for kind in sorted(kinds, key=lambda kind: kind.kind != "Pod"):
        try:
            await api.delete_all(kind._replace(namespace=name))
        except RequestFailed as error:
            # There is nothing of a kind that the user may not list.
            if error.status != _FORBIDDEN:
                raise


async def delete_namespace(api: ApiClient, name: str, *, controlled: bool) -> None:
    """Delete a namespace, which is empty. `controlled` means that a controller finalizes it."""
    await api.delete_for_good(Ref("Namespace", name))
    if not controlled:
        await api.finalize_namespace(name)


def _now() -> str:
    return datetime.fromtimestamp(RealClock().now(), UTC).strftime(_TIME)


def _taints(node: Json) -> object:
    spec = node.get("spec")
    return spec.get("taints") if isinstance(spec, dict) else None


def _is_not_ours(ref: Ref) -> NotObservable:
    return NotObservable(f"the cluster has a {ref} that the suite has not made")
