"""Objects as they will be once our writes have come back: an overlay over what the informers know.

Between the decision to bind a volume and the moment its new state has come in by watch, the next
pod must see the volume as taken. An assumed object stands for the informer's as long as both have
the same resource version:

    as stored --assume--> assumed --the informer has another version, or none--> as stored
                             |-----restore (the write was never made)----------> as stored

so that whatever comes from the API server wins, be it our own write or somebody else's. Source:
`pkg/scheduler/framework/plugins/volumebinding/{assume_cache,passive_assume_cache}.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, cast

from scheduler.api.field import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduler.api.core import ObjectMeta
    from scheduler.framework.handle import Handle


class _Object(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=_Object)

#: From this many assumed objects on it is worth looking for those that have been overtaken.
_SWEEP_MIN: Final = 64


class AssumeError(Exception):
    """An object that cannot be assumed: it is not there, or not as it was read. Upstream's text."""


class AssumeCache(Generic[T]):
    """The objects of one kind, some of them as they are assumed to be.

    `resource` is the kind's plural; `kind` the type of its objects.
    """

    def __init__(self, handle: Handle, resource: str, kind: type[T]) -> None:
        self._handle: Final = handle
        self._resource: Final = resource
        self._kind: Final = kind
        self._assumed: Final[dict[tuple[str, str], T]] = {}
        self._sweep_at = _SWEEP_MIN

    def __len__(self) -> int:
        return len(self._assumed)

    def api_object(self, name: str, namespace: str = "") -> T | None:
        """An object as the informer knows it, whatever is assumed."""
        return cast("T | None", self._handle.lister(self._resource).get(name, namespace))

    def get(self, name: str, namespace: str = "") -> T | None:
        """An object as it is assumed to be, None if there is none."""
        stored = self.api_object(name, namespace)
        return stored if stored is None or not self._assumed else self._as_assumed(stored)

    def list(self) -> Iterator[T]:
        """All objects, as they are assumed to be."""
        objects = cast("Iterator[T]", iter(self._handle.lister(self._resource).list()))
        return map(self._as_assumed, objects) if self._assumed else objects

    def assume(self, obj: T) -> None:
        """Take an object as this from now on; raises `AssumeError`."""
        name, namespace = obj.metadata.name, obj.metadata.namespace
        stored = self.api_object(name, namespace)
        key = f"{namespace}/{name}" if namespace else name
        if stored is None:
            raise AssumeError(self.not_found(key))
        have, given = stored.metadata.resource_version, obj.metadata.resource_version
        if have != given:
            raise AssumeError(f"{quoted(key)} is out of sync (stored: {have}, assume: {given})")
        self._assumed[namespace, name] = obj
        if len(self._assumed) >= self._sweep_at:
            self._sweep()

    def restore(self, obj: T) -> None:
        """Take an object as the informer has it again, unless a newer one has been assumed."""
        key = (obj.metadata.namespace, obj.metadata.name)
        assumed = self._assumed.get(key)
        if assumed is not None and _same_version(assumed, obj):
            del self._assumed[key]

    def not_found(self, key: str) -> str:
        """What the API server would say of an object that is not there."""
        return f"{self._resource} {quoted(key)} not found"

    def _as_assumed(self, stored: T) -> T:
        key = (stored.metadata.namespace, stored.metadata.name)
        assumed = self._assumed.get(key)
        if assumed is None:
            return stored
        if _same_version(assumed, stored):
            return assumed
        del self._assumed[key]
        return stored

    def _sweep(self) -> None:
        """Forget what has been overtaken and was never asked for again."""
        for (namespace, name), assumed in [*self._assumed.items()]:
            stored = self.api_object(name, namespace)
            if stored is None or not _same_version(assumed, stored):
                del self._assumed[namespace, name]
        self._sweep_at = max(_SWEEP_MIN, 2 * len(self._assumed))


def _same_version(first: _Object, second: _Object) -> bool:
    return first.metadata.resource_version == second.metadata.resource_version
