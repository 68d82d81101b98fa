"""The client of an API server: any server, by URL, with TLS and a token or a client certificate.

The client creates, reads, changes, deletes, lists and watches objects of any kind: the path of a
kind is found by discovery (`/api/v1`, `/apis/{group}/{version}`) and then kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeAlias, TypeVar

import aiohttp
import msgspec

from .errors import InputError, RequestFailed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from .connection import Connection

Json: TypeAlias = dict[str, object]
T = TypeVar("T")

PATCH_TYPES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
#: Distinguishes the suite's own requests from those of the scheduler under test.
USER_AGENT: Final = "kubesched-conformance"
_JSON: Final = "application/json"
_KEEPALIVE_SECONDS: Final = 3600.0
_PAGE_SIZE: Final = 2000
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
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


class Listing(NamedTuple, Generic[T]):
    """All objects of a kind, and the version of the list."""

    resource_version: str
    items: list[T]


class WatchEvent(NamedTuple, Generic[T]):
    """An event of a watch: ADDED, MODIFIED or DELETED, and the object."""

    type: str
    object: T


class Resource(msgspec.Struct, frozen=True, rename="camel"):
    """A kind as the server's discovery has it; the name of a subresource is `pods/status`."""

    name: str
    kind: str
    namespaced: bool
    verbs: list[str]


class _Resources(msgspec.Struct, frozen=True):
    resources: list[Resource]


class _GroupVersion(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    preferred_version: _GroupVersion


class _Groups(msgspec.Struct, frozen=True):
    groups: list[_Group]


class _PageMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct, Generic[T], frozen=True):
    metadata: _PageMetadata
    items: list[T] | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct, frozen=True):
    code: int = 0
    reason: str = ""
    message: str = ""


class ApiClient:
    """A client of one API server; an async context manager. Every method raises RequestFailed."""

    def __init__(self, connection: Connection, *, connections_max: int = 100) -> None:
        self._connection = connection
        self._connections_max = connections_max
        #: By API version, then by kind; a subresource's key is `Pod/status`.
        self._discovered: dict[str, dict[str, Resource]] = {}

    async def __aenter__(self) -> ApiClient:
        url, tls, token = self._connection
        self._session = aiohttp.ClientSession(
            url,
            headers={
                "User-Agent": USER_AGENT,
                **({"Authorization": f"Bearer {token}"} if token else {}),
            },
            # Kept alive: during an injected outage the server accepts no new connection.
            connector=aiohttp.TCPConnector(
                keepalive_timeout=_KEEPALIVE_SECONDS,
                limit=self._connections_max,
                ssl=True if tls is None else tls,
            ),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def create(self, obj: Json) -> Json:
        """Create an object, with its status, which the server ignores in most creates."""
        ref = ref_of(obj)
        path = await self._path(ref, collection=True)
        created = await self._request("POST", path, obj, query=_STRICT)
        if "status" not in obj or _contains(created.get("status"), obj["status"]):
            return created
        if f"{ref.kind}/status" not in await self._kinds(ref.api_version):
            return created
        status = {"status": obj["status"]}
        return await self.patch(ref, status, patch_type="merge", subresource="status")

    async def create_unless_there(self, obj: Json) -> None:
        """Create an object unless it exists."""
        path = await self._path(ref_of(obj), collection=True)
        await self._request("POST", path, obj, query=_STRICT, accept=409)

    async def find(self, ref: Ref) -> Json | None:
        """Return an object, or None if it does not exist."""
        answer = await self._request("GET", await self._path(ref), accept=404)
        return None if answer.get("kind") == "Status" else answer

    async def list(
        self, kind: str, *, api_version: str = "v1", namespace: str = "", field_selector: str = ""
    ) -> list[Json]:
        """Return all objects of a kind, in one namespace or in all."""
        selected = {"fieldSelector": field_selector} if field_selector else {}
        ref = Ref(kind, "", namespace, api_version)
        return (await self.listing(ref, Json, query=selected)).items

    async def listing(
        self, kind: Ref, item: type[T], *, query: Mapping[str, str] | None = None
    ) -> Listing[T]:
        """Return all objects of a kind, converted to `item`, and the version of the list.

        `kind` is a reference without a name, and without a namespace for all namespaces.
        """
        path = await self._path(kind, collection=True)
        decoder = msgspec.json.Decoder(_Page[item])  # type: ignore[valid-type]
        items: list[T] = []
        parameters = {"limit": str(_PAGE_SIZE), **(query or {})}
        while True:
            answer = await self._send("GET", path, query=parameters)
            page = _decoded(decoder, answer, f"GET {path}")
            items += page.items or []
            if not page.metadata.continue_:
                return Listing(page.metadata.resource_version, items)
            parameters["continue"] = page.metadata.continue_

    @property
    def url(self) -> str:
        return self._connection.url

    async def watch(
        self, kind: Ref, item: type[T], resource_version: str, *, label_selector: str = ""
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield every change of the objects of a kind, until the server ends the watch.

        Close the generator when leaving it early. An ERROR event is raised as RequestFailed, with
        the status 410 if the server's log does not go back to the version.
        """
        path = await self._path(kind, collection=True)
        decoder = msgspec.json.Decoder(item)
        query = {"watch": "true", "resourceVersion": resource_version}
        if label_selector:
            query["labelSelector"] = label_selector
        subject = f"watch of {path}"
        try:
            async with self._session.get(path, params=query) as response:
                if response.status >= 400:
                    raise _refused(subject, response.status, await response.read())
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = _decoded(_event, line, subject)
                        if event.type == "ERROR":
                            raise _refused(subject, 0, bytes(event.object))
                        obj = _decoded(decoder, self._incoming(bytes(event.object)), subject)
                        yield WatchEvent(event.type, obj)
        except (aiohttp.ClientError, OSError) as error:
            raise RequestFailed(f"{subject}: {error}") from error

    async def patch(
        self, ref: Ref, patch: object, *, patch_type: str, subresource: str = ""
    ) -> Json:
        """Patch an object. `patch_type` is one of PATCH_TYPES."""
        path = await self._path(ref, subresource=subresource)
        return await self._request(
            "PATCH", path, patch, query=_STRICT, content_type=PATCH_TYPES[patch_type]
        )

    async def delete(self, ref: Ref, *, grace_period_seconds: int = 0) -> None:
        """Delete an object, by default without a grace period, as no kubelet ends the period."""
        options: Json = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": grace_period_seconds,
        }
        await self._request("DELETE", await self._path(ref), options)

    async def delete_all(self, kind: Ref, *, label_selector: str = "") -> None:
        """Delete all objects of a kind in a namespace, or cluster-wide, without their finalizers.

        `kind` is a reference without a name.
        """
        selected = {"labelSelector": label_selector} if label_selector else {}
        for obj in (await self.listing(kind, Json, query=selected)).items:
            metadata = obj["metadata"]
            assert isinstance(metadata, dict)
            await self.delete_for_good(kind._replace(name=str(metadata["name"])))

    async def delete_for_good(self, ref: Ref) -> None:
        """Delete an object at once if it exists, whatever its finalizers are."""
        options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        path = await self._path(ref)
        await self._request("DELETE", path, options, accept=404)
        obj = await self.find(ref)
        metadata = obj.get("metadata") if obj else None
        if isinstance(metadata, dict) and metadata.get("finalizers"):
            patch = {"metadata": {"finalizers": None}}
            await self._request("PATCH", path, patch, content_type=PATCH_TYPES["merge"], accept=404)

    async def finalize_namespace(self, name: str) -> None:
        """End the deletion of a namespace, on a server without a controller for that."""
        ref = Ref("Namespace", name)
        body: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self._request("PUT", await self._path(ref, subresource="finalize"), body, accept=404)

    async def may(self, verb: str, resource: str) -> bool:
        """Return True if the user has a permission, such as `patch` of `nodes/status`."""
        name, _, subresource = resource.partition("/")
        attributes: Json = {"verb": verb, "resource": name, "subresource": subresource}
        review: Json = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = await self._request("POST", _ACCESS_REVIEWS, review)
        status = answer.get("status")
        return isinstance(status, dict) and status.get("allowed") is True

    async def bind(self, pod: Ref, node_name: str) -> None:
        """Bind a pod to a node, as a scheduler does."""
        binding: Json = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "target": {"kind": "Node", "name": node_name},
        }
        await self._request("POST", await self._path(pod, subresource="binding"), binding)

    async def evict(self, pod: Ref) -> None:
        """Evict a pod, as far as its disruption budget allows."""
        eviction: Json = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"gracePeriodSeconds": 0},
        }
        await self._request("POST", await self._path(pod, subresource="eviction"), eviction)

    async def inject(self, faults: Sequence[Json]) -> None:
        """Start injecting faults."""
        await self._request("POST", _FAULTS, {"faults": faults})

    async def clear_faults(self, names: Sequence[str] = ()) -> None:
        """Stop injecting all faults, or the named faults; an unknown name is refused."""
        for path in [f"{_FAULTS}/{name}" for name in names] or [_FAULTS]:
            await self._request("DELETE", path)

    async def injected(self, fault: str) -> int:
        """Return the number of injections of a fault, cleared faults included."""
        log = (await self._request("GET", f"{_FAULTS}/log")).get("log")
        entries = log if isinstance(log, list) else []
        return sum(1 for entry in entries if isinstance(entry, dict) and entry["fault"] == fault)

    # The server's kinds

    async def _kinds(self, api_version: str) -> dict[str, Resource]:
        """Return the kinds of an API version, with the subresources; empty for an unknown one."""
        if api_version not in self._discovered:
            path = f"/{'apis' if '/' in api_version else 'api'}/{api_version}"
            try:
                answer = _decoded(_resources, await self._send("GET", path), f"GET {path}")
            except RequestFailed as error:
                if error.status != 404:
                    raise
                return {}
            self._discovered[api_version] = {
                f"{entry.kind}{entry.name.partition('/')[1]}{entry.name.partition('/')[2]}": entry
                for entry in answer.resources
            }
        return self._discovered[api_version]

    async def resource(self, ref: Ref) -> Resource:
        """Return the server's description of an object's kind."""
        kind = (await self._kinds(ref.api_version)).get(ref.kind)
        if kind is None:
            raise RequestFailed(
                f"the API server does not know {ref.kind} of {ref.api_version}", status=404
            )
        return kind

    async def collections(self, *, namespaced: bool) -> Sequence[Ref]:
        """Return the kinds that can be listed and deleted, as references without a name."""
        groups = _decoded(_groups, await self._send("GET", "/apis"), "GET /apis")
        versions = ["v1", *(group.preferred_version.group_version for group in groups.groups)]
        return [
            Ref(resource.kind, "", "", version)
            for version in versions
            for resource in (await self._kinds(version)).values()
            if resource.namespaced == namespaced and {"list", "delete"} <= {*resource.verbs}
        ]

    async def _path(self, ref: Ref, *, collection: bool = False, subresource: str = "") -> str:
        resource = await self.resource(ref)
        root = f"/{'apis' if '/' in ref.api_version else 'api'}/{ref.api_version}"
        if resource.namespaced and ref.namespace:
            root += f"/namespaces/{self._namespace(ref.namespace)}"
        path = f"{root}/{resource.name}"
        if not collection:
            path += f"/{self._namespace(ref.name) if ref.kind == 'Namespace' else ref.name}"
        return f"{path}/{subresource}" if subresource else path

    # The border: a subclass may have other names on the server than its callers

    def _namespace(self, name: str) -> str:
        """Return the server's name of a namespace."""
        return name

    def _outgoing(self, body: object) -> object:
        """Return a request's body as the server is to get it."""
        return body

    def _incoming(self, body: bytes) -> bytes:
        """Return an answer's body as the callers are to get it."""
        return body

    # Requests

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
        answer = await self._send(
            method, path, body, query=query, content_type=content_type, accept=accept
        )
        return _decoded(_object, answer, f"{method} {path}")

    async def _send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = _JSON,
        accept: int = 200,
    ) -> bytes:
        """Send a request and return the answer's body. A refusal with the code `accept` is none."""
        data = None if body is None else msgspec.json.encode(self._outgoing(body))
        headers = {"Content-Type": content_type, "Accept": _JSON}
        try:
            async with self._session.request(
                method, path, params=query, data=data, headers=headers
            ) as response:
                answer = self._incoming(await response.read())
        except (aiohttp.ClientError, OSError) as error:
            raise RequestFailed(f"{method} {path}: {error}") from error
        if response.status >= 400 and response.status != accept:
            raise _refused(f"{method} {path}", response.status, answer)
        return answer


_event: Final = msgspec.json.Decoder(_Event)
_object: Final = msgspec.json.Decoder(Json)
_groups: Final = msgspec.json.Decoder(_Groups)
_resources: Final = msgspec.json.Decoder(_Resources)
_status: Final = msgspec.json.Decoder(_Status)


def ref_of(obj: Json) -> Ref:
    """Return the reference of an object as written in a case. Raises InputError if incomplete."""
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    api_version, kind, name = obj.get("apiVersion"), obj.get("kind"), metadata.get("name")
    if not (isinstance(api_version, str) and isinstance(kind, str) and isinstance(name, str)):
        raise InputError("expected an object with apiVersion, kind and metadata.name")
    namespace = metadata.get("namespace")
    return Ref(kind, name, namespace if isinstance(namespace, str) else "default", api_version)


def _contains(actual: object, wanted: object) -> bool:
    """True if a JSON value has all fields of another one; `actual` may have further fields."""
    if isinstance(wanted, dict) and isinstance(actual, dict):
        return all(_contains(actual.get(name), value) for name, value in wanted.items())
    return actual == wanted


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes, subject: str) -> T:
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise RequestFailed(f"{subject}: not the expected JSON in the answer: {error}") from error


def _refused(subject: str, code: int, body: bytes) -> RequestFailed:
    try:
        status = _status.decode(body)
    except msgspec.MsgspecError:
        status = _Status()
    code = code or status.code
    message = status.message or body[:200].decode(errors="replace")
    return RequestFailed(f"{subject}: {code} {message}", status=code)
