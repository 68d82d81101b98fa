"""A cache of assumed volumes and claims on top of the informers.

Between the decision to bind a volume and the watch event of its update, the next pod must see the
volume as taken. An assumed object replaces the informer's while both have the same resource
version:

    as stored --assume--> assumed --the informer has another version, or none--> as stored
                             |-----restore (the write was not made)------------> as stored

Any newer version from the API server wins. Source:
`pkg/scheduler/framework/plugins/volumebinding/{assume_cache,passive_assume_cache}.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, cast

from scheduler.api.field import quoted
from scheduler.api.strconv import parse_int
from scheduler.config.versions import SchedulerVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduler.api.core import ObjectMeta
    from scheduler.framework.handle import Handle


class _Object(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=_Object)

#: Number of assumed objects from which on outdated ones are removed.
_SWEEP_MIN: Final = 64


class AssumeError(Exception):
    """An object cannot be assumed: it is missing or has another version. Upstream's text."""


class AssumeCache(Generic[T]):
    """The objects of one kind with the assumed ones in place.

    `resource` is the plural of the kind, `kind` the type of its objects.
    """

    def __init__(self, handle: Handle, resource: str, kind: type[T]) -> None:
        self._handle: Final = handle
        self._resource: Final = resource
        self._kind: Final = kind
        compares_order = handle.version < SchedulerVersion.V1_35
        self._check: Final = _check_not_older if compares_order else _check_same_version
        self._assumed: Final[dict[tuple[str, str], T]] = {}
        self._sweep_at = _SWEEP_MIN

    def __len__(self) -> int:
        return len(self._assumed)

    def api_object(self, name: str, namespace: str = "") -> T | None:
        """Return the informer's object."""
        return cast("T | None", self._handle.lister(self._resource).get(name, namespace))

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return the assumed object if there is one, else the informer's; None if missing."""
        stored = self.api_object(name, namespace)
        return stored if stored is None or not self._assumed else self._as_assumed(stored)

    def list(self) -> Iterator[T]:
        """Return all objects with the assumed ones in place."""
        objects = cast("Iterator[T]", iter(self._handle.lister(self._resource).list()))
        return map(self._as_assumed, objects) if self._assumed else objects

    def assume(self, obj: T) -> None:
        """Assume an object; raises `AssumeError`."""
        name, namespace = obj.metadata.name, obj.metadata.namespace
        stored = self.api_object(name, namespace)
        key = f"{namespace}/{name}" if namespace else name
        if stored is None:
            raise AssumeError(self.not_found(key))
        self._check(key, obj, stored)
        self._assumed[namespace, name] = obj
        if len(self._assumed) >= self._sweep_at:
            self._sweep()

    def restore(self, obj: T) -> None:
        """Drop an assumed object, unless another version of it has been assumed since."""
        key = (obj.metadata.namespace, obj.metadata.name)
        assumed = self._assumed.get(key)
        if assumed is not None and _same_version(assumed, obj):
            del self._assumed[key]

    def not_found(self, key: str) -> str:
        """Return the API server's text for a missing object."""
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
        """Remove assumed objects that are outdated."""
        for (namespace, name), assumed in [*self._assumed.items()]:
            stored = self.api_object(name, namespace)
            if stored is None or not _same_version(assumed, stored):
                del self._assumed[namespace, name]
        self._sweep_at = max(_SWEEP_MIN, 2 * len(self._assumed))


def _check_same_version(key: str, obj: _Object, stored: _Object) -> None:
    """Raise AssumeError unless both objects are of one version."""
    have, version = stored.metadata.resource_version, obj.metadata.resource_version
    if have != version:
        raise AssumeError(f"{quoted(key)} is out of sync (stored: {have}, assume: {version})")


def _check_not_older(key: str, obj: _Object, stored: _Object) -> None:
    """Raise AssumeError for an older object, and for versions that are no numbers.

    The rule of 1.34. Source: `pkg/scheduler/util/assumecache/assume_cache.go`, v1.34.4.
    """
    name = f"v1.{type(obj).__name__} {quoted(key)}"
    version, have = _number_of(obj, name), _number_of(stored, name)
    if version < have:
        raise AssumeError(f"{name} is out of sync (stored: {have}, assume: {version})")


def _number_of(obj: _Object, name: str) -> int:
    version = obj.metadata.resource_version
    try:
        return parse_int(version, bits=64)
    except ValueError as error:
        problem = f"error parsing ResourceVersion {quoted(version)} for {name}: {error}"
        raise AssumeError(problem) from error


def _same_version(first: _Object, second: _Object) -> bool:
    return first.metadata.resource_version == second.metadata.resource_version
