"""Owners of the number of replicas, in a Scale and in the scaled object.

A manager that owns the replicas of an object, in any version, owns spec.replicas of its Scale.
After a write of the Scale its owners are written back into the object's entries. As upstream does,
this drops the times of new entries, and splits an entry that has other fields, too.

Source: apimachinery pkg/util/managedfields/scalehandler.go of v0.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.apply import entries, paths, sets, types
from fakeapi.apply.entries import Managed
from fakeapi.apply.field_manager import FieldManager
from fakeapi.apply.updater import Owned
from fakeapi.types import schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeapi.apply.types import Type
    from fakeapi.apply.updater import Manager
    from fakeapi.types.objects import Json

API_VERSION: Final = "autoscaling/v1"
KIND: Final = "Scale"
TYPE: Final = "autoscaling/v1.Scale"
_REPLICAS: Final = ("f:spec", "f:replicas")


class _OneVersion:
    """A Scale is served in one version."""

    may_change = False

    def type_in(self, api_version: str) -> Type | None:
        return types.built_in(TYPE) if api_version == API_VERSION else None

    def convert(self, value: object, source: str, target: str) -> object:
        return value


def field_manager() -> FieldManager:
    """Return the field manager of all scale subresources."""
    return FieldManager(
        _OneVersion(),
        api_version=API_VERSION,
        kind=KIND,
        subresource="scale",
        empty=schema.decode(TYPE, {}),
    )


class ScaleEntries:
    """Converts the entries of one object to entries of its Scale and back.

    `replicas` has the path of the number in each API version of the object, None if it has none.
    """

    def __init__(self, listed: object, replicas: Mapping[str, tuple[str, ...] | None]) -> None:
        self._whole = entries.parse_stored(listed)
        self._paths = {
            version: path and tuple(paths.FIELD + name for name in path)
            for version, path in replicas.items()
        }

    def of_scale(self) -> list[Json]:
        """Return the entries of the Scale."""
        owned = {
            manager: Owned(sets.of_path(_REPLICAS), API_VERSION, applied=part.applied)
            for manager, part in self._whole.owned.items()
            if self._path_of(part)
        }
        return entries.rendered(Managed(owned, self._whole.times))

    def of_object(self, listed: object, api_version: str) -> list[Json]:
        """Return the entries of the object, given the new entries of its Scale."""
        scale = {
            manager: part
            for manager, part in entries.parse_stored(listed).owned.items()
            if sets.contains(part.fields, _REPLICAS)
        }
        owned: dict[Manager, Owned] = {}
        for manager, part in self._whole.owned.items():
            path = self._path_of(part)
            if path and manager in scale:
                del scale[manager]
            elif path:
                left = sets.difference(part.fields, sets.of_path(path))
                if left:
                    owned[manager] = dataclasses.replace(part, fields=left)
                continue
            if part.api_version in self._paths:
                owned[manager] = part
        path = self._paths[api_version]
        assert path
        for manager, part in scale.items():
            owned[manager] = Owned(sets.of_path(path), api_version, applied=part.applied)
        return entries.rendered(Managed(owned, self._whole.times))

    def _path_of(self, part: Owned) -> tuple[str, ...] | None:
        """Return the path of the replicas if the fields contain it."""
        path = self._paths.get(part.api_version)
        return path if path and sets.contains(part.fields, path) else None
