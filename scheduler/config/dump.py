"""Writes a configuration back, as `--write-config-to` and `/configz` show it.

What upstream leaves out when it is empty is left out; the YAML is the one of upstream's own writer:
keys in alphabetical order, lists not indented, quotes where a reader could go wrong.
Source: `encodeConfig` of `configfile.go`, `EncodeNestedObjects` of kube-scheduler
`config/v1/types.go`, go-yaml v2 `encode.go`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec
import yaml

from scheduler.api import core
from scheduler.config import types
from scheduler.config.duration import Duration
from scheduler.config.plugin_args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    PluginArgs,
    VolumeBindingArgs,
)
from scheduler.config.plugin_args.scoring import ResourceSpec, UtilizationShapePoint
from scheduler.config.yaml_scalars import float_text, needs_quotes, resolve_scalar

if TYPE_CHECKING:
    from scheduler.config.types import Json, KubeSchedulerConfiguration


def _all_fields(struct: type[core.Struct]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(struct))


#: Fields that are written even if they are empty; Go's tags lack `omitempty` there.
_ALWAYS_WRITTEN: Final[Mapping[type, frozenset[str]]] = MappingProxyType(
    {
        types.KubeSchedulerConfiguration: _all_fields(types.KubeSchedulerConfiguration)
        - {"profiles", "extenders", "delay_cache_until_active"},
        types.ClientConnectionConfiguration: _all_fields(types.ClientConnectionConfiguration),
        types.LeaderElectionConfiguration: _all_fields(types.LeaderElectionConfiguration),
        types.KubeSchedulerProfile: frozenset({"scheduler_name"}),
        types.Plugins: _all_fields(types.Plugins),
        types.Plugin: _all_fields(types.Plugin),
        types.PluginConfig: _all_fields(types.PluginConfig),
        types.Extender: frozenset({"url_prefix", "http_timeout"}),
        types.ExtenderManagedResource: frozenset({"name"}),
        DefaultPreemptionArgs: _all_fields(DefaultPreemptionArgs),
        DynamicResourcesArgs: frozenset({"filter_timeout"}),
        InterPodAffinityArgs: _all_fields(InterPodAffinityArgs),
        VolumeBindingArgs: frozenset({"bind_timeout_seconds"}),
        ResourceSpec: frozenset({"name"}),
        UtilizationShapePoint: _all_fields(UtilizationShapePoint),
        core.LabelSelectorRequirement: frozenset({"key", "operator"}),
        core.NodeSelector: frozenset({"node_selector_terms"}),
        core.NodeSelectorRequirement: frozenset({"key", "operator"}),
        core.PreferredSchedulingTerm: _all_fields(core.PreferredSchedulingTerm),
        core.TopologySpreadConstraint: frozenset(
            {"max_skew", "topology_key", "when_unsatisfiable"}
        ),
    }
)


def dump_config(config: KubeSchedulerConfiguration) -> str:
    """The configuration as YAML text, as upstream would write it."""
    text: str = yaml.dump(
        encode_config(config),
        Dumper=_Dumper,
        default_flow_style=False,
        allow_unicode=True,
        width=float("inf"),
    )
    return text


def encode_config(config: KubeSchedulerConfiguration) -> Json:
    """The configuration as a JSON object, `apiVersion` and `kind` included."""
    return {"kind": types.KIND, "apiVersion": types.API_VERSION, **encode_struct(config)}


def _encode(value: object) -> object:
    match value:
        case PluginArgs():
            type_meta = {"kind": type(value).__name__, "apiVersion": types.API_VERSION}
            return type_meta | encode_struct(value)
        case core.Struct():
            return encode_struct(value)
        case Duration():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case tuple():
            # Where a list is written although it is empty, nobody set it: Go's nil.
            return [_encode(item) for item in value] or None
        case Mapping():
            return dict(value)
    return value


def encode_struct(struct: core.Struct) -> Json:
    """One part of a configuration as a JSON object; arguments come without their kind."""
    always_written = _ALWAYS_WRITTEN.get(type(struct), frozenset())
    encoded: Json = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        if field.name in always_written or not _is_empty(value, field.default):
            encoded[field.encode_name] = _encode(value)
    return encoded


def _is_empty(value: object, default: object) -> bool:
    if isinstance(value, core.Struct):
        return value == default
    if default is None:
        # Optional: zero and false were set on purpose. An empty list is as good as none.
        return value is None or value == ()
    return not value


_TEXT_TAG: Final = "tag:yaml.org,2002:str"


class _Dumper(yaml.SafeDumper):
    """Writes as go-yaml does, for its reader's idea of what needs no quotes."""

    def resolve(self, kind: type[yaml.nodes.Node], value: str, implicit: tuple[bool, bool]) -> str:
        if kind is yaml.nodes.ScalarNode and implicit[0]:
            return _tag(value)
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return tag

    def ignore_aliases(self, data: object) -> bool:
        """The same value twice is written twice."""
        return True


def _tag(text: str) -> str:
    """The tag of a text that stands without quotes."""
    match resolve_scalar(text):
        case None:
            name = "null"
        case bool():
            name = "bool"
        case int():
            name = "int"
        case float():
            name = "float"
        case _:
            return _TEXT_TAG
    return f"tag:yaml.org,2002:{name}"


def _represent_text(dumper: _Dumper, text: str) -> yaml.nodes.ScalarNode:
    style = "|" if "\n" in text else '"' if needs_quotes(text) else None
    return dumper.represent_scalar(_TEXT_TAG, text, style=style)


def _represent_float(dumper: _Dumper, number: float) -> yaml.nodes.ScalarNode:
    text = float_text(number)
    return dumper.represent_scalar(_tag(text), text)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(float, _represent_float)
