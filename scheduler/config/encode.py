"""Encode a configuration as a JSON object, as `/configz` shows it.

Empty fields are left out, except those whose Go tags lack `omitempty`.
Source: `encodeConfig` of `configfile.go`, `EncodeNestedObjects` of kube-scheduler
`config/v1/types.go`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api import core
from scheduler.config.duration import Duration
from scheduler.config.types import ALL_FIELDS, API_VERSION, KIND, ConfigStruct, PluginArgs

if TYPE_CHECKING:
    from scheduler.config.types import Json, KubeSchedulerConfiguration

#: `ConfigStruct.always_written` for types of the core API.
_ALWAYS_WRITTEN: Final[Mapping[type, frozenset[str]]] = MappingProxyType(
    {
        core.LabelSelectorRequirement: frozenset({"key", "operator"}),
        core.NodeSelector: frozenset({"node_selector_terms"}),
        core.NodeSelectorRequirement: frozenset({"key", "operator"}),
        core.PreferredSchedulingTerm: ALL_FIELDS,
        core.TopologySpreadConstraint: frozenset(
            {"max_skew", "topology_key", "when_unsatisfiable"}
        ),
    }
)


def encode_config(config: KubeSchedulerConfiguration) -> Json:
    """Return the configuration as a JSON object with `apiVersion` and `kind`."""
    return {"kind": KIND, "apiVersion": API_VERSION, **encode_struct(config)}


def encode_struct(struct: core.Struct) -> Json:
    """Return a part of a configuration as a JSON object without `apiVersion` and `kind`."""
    if isinstance(struct, ConfigStruct):
        always_written = struct.always_written
    else:
        always_written = _ALWAYS_WRITTEN.get(type(struct), frozenset())
    encoded: Json = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        is_always_written = always_written is ALL_FIELDS or field.name in always_written
        if is_always_written or not _is_empty(value, field.default):
            encoded[field.encode_name] = _encode(value)
    return encoded


def _encode(value: object) -> object:
    match value:
        case PluginArgs():
            type_meta = {"kind": type(value).__name__, "apiVersion": API_VERSION}
            return type_meta | encode_struct(value)
        case core.Struct():
            return encode_struct(value)
        case Duration():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case tuple():
            # An empty list that is written was never set: Go's nil.
            return [_encode(item) for item in value] or None
        case Mapping():
            return dict(value)
    return value


def _is_empty(value: object, default: object) -> bool:
    if isinstance(value, core.Struct):
        return value == default
    if default is None:
        # Optional field: 0 and false are values, an empty list is none.
        return value is None or value == ()
    return not value
