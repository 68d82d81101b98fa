"""Objects of kinds without a type of their own, and the names of kinds.

Source: apimachinery `pkg/apis/meta/v1/unstructured/unstructured.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.api.core import ObjectMeta

#: A kind of objects, as a plugin writes it: a type such as `Pod`, a plural of a kind with a type
#: (`pods`), or `<plural>.<version>.<group>`, for the core group `<plural>.<version>`.
Kind: TypeAlias = "type[object] | str"


class Unstructured(Mapping[str, Any]):
    """An object without a type of its own: a read-only mapping with the fields of its JSON.

        config_map["data"]["limit"], config_map.metadata.name

    Mappings within it are read-only too, and lists are tuples. `msgspec.convert(obj, Quota)`
    converts the object to a type of the caller.
    """

    __slots__ = ("_fields", "metadata")

    def __init__(self, fields: Mapping[str, object]) -> None:
        """Take the decoded JSON of an object. Raises `msgspec.ValidationError` for bad metadata."""
        self._fields: Final[Mapping[str, Any]] = {k: _frozen(v) for k, v in fields.items()}
        self.metadata: Final = msgspec.convert(_without_nulls(fields.get("metadata")), ObjectMeta)

    def __getitem__(self, key: str) -> Any:
        return self._fields[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        namespace, name = self.metadata.namespace, self.metadata.name
        return f"<{self.get('kind', 'object')} {f'{namespace}/' if namespace else ''}{name}>"


def _frozen(value: object) -> object:
    if isinstance(value, dict):
        return MappingProxyType({key: _frozen(item) for key, item in value.items()})
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value


def _without_nulls(metadata: object) -> object:
    """Return metadata without its empty fields: Go servers write `"creationTimestamp": null`."""
    if not isinstance(metadata, Mapping):
        return {}
    return {key: value for key, value in metadata.items() if value is not None}
