"""The kinds of objects we speak of, one row each, and the URLs they live under.

A `Resource` knows what REST needs to know of a kind (group, version, plural, namespaced or not) and
the type its objects are decoded into. Kinds that only some plugin reads add their own row where
their type lives: `Resource("storage.k8s.io", "v1", "csinodes", "CSINode", CSINode,
namespaced=False)`.

    core group     /api/v1/namespaces/{namespace}/pods/{name}/{subresource}
    other groups   /apis/{group}/{version}/nodes/{name}
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from scheduler.api.core import Namespace, Node, ObjectReference, Pod
from scheduler.client.wire import Event, Lease

if TYPE_CHECKING:
    from scheduler.api.core import ObjectMeta


class ApiObject(Protocol):
    """Anything with metadata: what lists hold and watches tell of."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name, namespace, uid, resource version, labels and the rest."""
        ...


T = TypeVar("T", bound=ApiObject)

#: Path segments that need no escaping: nearly all of them.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._~:-]+").fullmatch


def object_key(obj: ApiObject) -> str:
    """`namespace/name`, or the bare name of an object that has no namespace."""
    metadata = obj.metadata
    namespace = metadata.namespace
    return f"{namespace}/{metadata.name}" if namespace else metadata.name


@dataclass(frozen=True)
class Resource(Generic[T]):
    """One kind of object: where it lives, what it is called, what it becomes when decoded."""

    group: str
    version: str
    plural: str
    kind: str
    type: type[T]
    namespaced: bool = True

    @functools.cached_property
    def api_version(self) -> str:
        """`v1`, or `group/version`: what objects of this kind carry."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @functools.cached_property
    def group_resource(self) -> str:
        """`pods` or `leases.coordination.k8s.io`: what error messages call it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @functools.cached_property
    def _root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def collection_path(self, namespace: str = "") -> str:
        """The path of all objects, or of those in one namespace."""
        if self.namespaced and namespace:
            return f"{self._root}/namespaces/{_segment(namespace)}/{self.plural}"
        return f"{self._root}/{self.plural}"

    def path(self, name: str, *, namespace: str = "", subresource: str = "") -> str:
        """The path of one object, or of one side of it (`status`, `binding`).

        Raises ValueError for a name that can be no path segment, and for a namespaced kind without
        a namespace: the server would read either as another request.
        """
        if self.namespaced and not namespace:
            raise ValueError(f"{self.kind} {name!r}: a namespace is needed to name one object")
        path = f"{self.collection_path(namespace)}/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path

    def reference(self, obj: T) -> ObjectReference:
        """A reference to exactly this state of an object, as events carry it."""
        metadata = obj.metadata
        return ObjectReference(
            api_version=self.api_version,
            kind=self.kind,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
        )

    def encode(self, obj: T) -> bytes:
        """An object as JSON, with the kind and apiVersion its type does not carry."""
        body = msgspec.json.encode(obj)
        return self._preamble + (b"}" if body == b"{}" else b"," + body[1:])

    @functools.cached_property
    def _preamble(self) -> bytes:
        head = msgspec.json.encode({"kind": self.kind, "apiVersion": self.api_version})
        return head[:-1]


def _segment(text: str) -> str:
    if _PLAIN(text) and text not in {".", ".."}:
        return text
    if text in {"", ".", ".."} or "/" in text or "%" in text:
        raise ValueError(f"{text!r} cannot be part of a path: expected a name without '/' and '%'")
    return quote(text, safe="")


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """What a list or a watch asks for; an empty field is not sent.

    Source: `metav1.ListOptions`. What each combination of `resource_version`,
    `resource_version_match` and `send_initial_events` means is in the API concepts page under
    "Resource versions".
    """

    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_token: str = ""
    timeout_seconds: int | None = None
    allow_watch_bookmarks: bool = False
    send_initial_events: bool | None = None

    def query(self, *, watch: bool = False) -> str:
        """The query string, percent-encoded, keys in order (so that a request is reproducible)."""
        pairs: list[tuple[str, str]] = []
        if self.allow_watch_bookmarks:
            pairs.append(("allowWatchBookmarks", "true"))
        for key, value in (
            ("continue", self.continue_token),
            ("fieldSelector", self.field_selector),
            ("labelSelector", self.label_selector),
            ("limit", str(self.limit) if self.limit else ""),
            ("resourceVersion", self.resource_version),
            ("resourceVersionMatch", self.resource_version_match),
        ):
            if value:
                pairs.append((key, value))
        if self.send_initial_events is not None:
            pairs.append(("sendInitialEvents", "true" if self.send_initial_events else "false"))
        if self.timeout_seconds is not None:
            pairs.append(("timeoutSeconds", str(self.timeout_seconds)))
        if watch:
            pairs.append(("watch", "true"))
        return "&".join(f"{key}={quote(value, safe='')}" for key, value in pairs)


PODS: Final = Resource("", "v1", "pods", "Pod", Pod)
NODES: Final = Resource("", "v1", "nodes", "Node", Node, namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", Namespace, namespaced=False)
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event", Event)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", Lease)
