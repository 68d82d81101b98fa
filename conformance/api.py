"""The client through which a case creates, reads, changes, deletes and binds objects, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import aiohttp
import msgspec

from .errors import InputError, StepFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from fakeapi import Kind, KindTable

__all__ = ["USER_AGENT", "ApiClient", "Json", "Ref", "ref_of"]

Json: TypeAlias = dict[str, object]

PATCH_TYPES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
#: Distinguishes the suite's own requests from those of the scheduler under test.
USER_AGENT: Final = "kubesched-conformance"
_JSON: Final = "application/json"
_KEEPALIVE_SECONDS: Final = 3600.0
_FAULTS: Final = "/_fakeapi/faults"
#: A misspelt field of an object in a case is an error; it is not ignored.
_STRICT: Final = {"fieldValidation": "Strict"}


class Ref(NamedTuple):
    """A reference to an object. The namespace of a cluster-scoped object is ignored."""

    kind: str
    name: str
    namespace: str = "default"
    api_version: str = "v1"

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.kind == "Pod" and self.namespace != "default" else ""
        return f"{self.kind.lower()} {where}{self.name}"


class ApiClient:
    """A client of one API server; an async context manager. `kinds` are the server's kinds."""

    def __init__(self, url: str, kinds: KindTable) -> None:
        self._url = url
        self._kinds = kinds
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> ApiClient:
        self._session = aiohttp.ClientSession(
            self._url,
            headers={"User-Agent": USER_AGENT},
            # Kept alive: during an injected outage the server accepts no new connection.
            connector=aiohttp.TCPConnector(keepalive_timeout=_KEEPALIVE_SECONDS),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def create(self, obj: Json) -> Json:
        """Create an object, and write its status, which the server ignores in a create."""
        ref = ref_of(obj)
        kind = self._kind(ref)
        created = await self._request("POST", self._path(ref, collection=True), obj, query=_STRICT)
        if "status" in obj and kind.has_status and not kind.keeps_status_on_create:
            return await self.patch(
                ref, {"status": obj["status"]}, patch_type="merge", subresource="status"
            )
        return created

    async def create_unless_there(self, obj: Json) -> None:
        """Create an object unless it exists."""
        await self._request(
            "POST", self._path(ref_of(obj), collection=True), obj, query=_STRICT, accept=409
        )

    async def find(self, ref: Ref) -> Json | None:
        """Return an object, or None if it does not exist."""
        found = await self._request("GET", self._path(ref), accept=404)
        return None if found.get("kind") == "Status" else found

    async def list(
        self, kind: str, *, api_version: str = "v1", namespace: str = "", field_selector: str = ""
    ) -> list[Json]:
        """Return all objects of a kind, in one namespace or in all."""
        ref = Ref(kind, "", namespace, api_version)
        query = {"fieldSelector": field_selector} if field_selector else None
        answer = await self._request("GET", self._path(ref, collection=True), query=query)
        items = answer.get("items")
        return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []

    async def patch(
        self, ref: Ref, patch: object, *, patch_type: str, subresource: str = ""
    ) -> Json:
        """Patch an object. `patch_type` is one of PATCH_TYPES."""
        path = self._path(ref, subresource=subresource)
        return await self._request(
            "PATCH", path, patch, query=_STRICT, content_type=PATCH_TYPES[patch_type]
        )

    async def delete(self, ref: Ref, *, grace_period_seconds: int = 0) -> None:
        """Delete an object, by default without a grace period, as there is no kubelet to end it."""
        options: Json = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": grace_period_seconds,
        }
        await self._request("DELETE", self._path(ref), options)

    async def bind(self, pod: Ref, node_name: str) -> None:
        """Bind a pod to a node, as a scheduler does."""
        binding: Json = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "target": {"kind": "Node", "name": node_name},
        }
        await self._request("POST", self._path(pod, subresource="binding"), binding)

    async def evict(self, pod: Ref) -> None:
        """Evict a pod, as far as its disruption budget allows."""
        eviction: Json = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"gracePeriodSeconds": 0},
        }
        await self._request("POST", self._path(pod, subresource="eviction"), eviction)

    async def inject(self, faults: Sequence[Json]) -> None:
        """Start injecting faults."""
        await self._request("POST", _FAULTS, {"faults": faults})

    async def clear_faults(self, names: Sequence[str] = ()) -> None:
        """Stop injecting faults, or the named ones. Raises StepFailed for unknown names."""
        for path in [f"{_FAULTS}/{name}" for name in names] or [_FAULTS]:
            await self._request("DELETE", path)

    async def injected(self, fault: str) -> int:
        """Return how often a fault was injected, including faults that are cleared."""
        log = (await self._request("GET", f"{_FAULTS}/log")).get("log")
        entries = log if isinstance(log, list) else []
        return sum(1 for entry in entries if isinstance(entry, dict) and entry["fault"] == fault)

    def _kind(self, ref: Ref) -> Kind:
        kind = self._kinds.find_kind(ref.api_version, ref.kind)
        if kind is None:
            raise StepFailed(f"the API server does not know {ref.kind} of {ref.api_version}")
        return kind

    def _path(self, ref: Ref, *, collection: bool = False, subresource: str = "") -> str:
        kind = self._kind(ref)
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        where = f"/namespaces/{ref.namespace}" if kind.namespaced and ref.namespace else ""
        path = f"{root}{where}/{kind.plural}"
        if not collection:
            path += f"/{ref.name}"
        return f"{path}/{subresource}" if subresource else path

    async def _request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = _JSON,
        accept: int = 200,
    ) -> Json:
        assert self._session is not None, "used outside of its context"
        try:
            async with self._session.request(
                method,
                path,
                params=query,
                data=None if body is None else msgspec.json.encode(body),
                headers={"Content-Type": content_type},
            ) as response:
                answer = msgspec.json.decode(await response.read())
        except (aiohttp.ClientError, OSError, msgspec.DecodeError) as error:
            raise StepFailed(f"{method} {path}: {error}") from error
        if not isinstance(answer, dict):
            raise StepFailed(f"{method} {path}: expected a JSON object in answer")
        if response.status >= 400 and response.status != accept:
            raise StepFailed(f"{method} {path}: {response.status} {answer.get('message', '')}")
        return answer


def ref_of(obj: Json) -> Ref:
    """Return the reference of an object as written in a case. Raises InputError if incomplete."""
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    api_version, kind, name = obj.get("apiVersion"), obj.get("kind"), metadata.get("name")
    if not (isinstance(api_version, str) and isinstance(kind, str) and isinstance(name, str)):
        raise InputError("expected an object with apiVersion, kind and metadata.name")
    namespace = metadata.get("namespace")
    return Ref(kind, name, namespace if isinstance(namespace, str) else "default", api_version)
