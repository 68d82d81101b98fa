"""Encode a configuration as a JSON object, as `/configz` shows it.

Empty fields are left out, except those whose Go tags lack `omitempty`.
Source: `encodeConfig` of `configfile.go`, `EncodeNestedObjects` of kube-scheduler
`config/v1/types.go`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec
import yaml

from scheduler.api import core
from scheduler.api.duration import Duration
from scheduler.api.field import go_float
from scheduler.config.go_yaml import STANDARD_TAG, resolve
from scheduler.config.types import (
    ALL_FIELDS,
    API_VERSION,
    KIND,
    ConfigStruct,
    PluginArgs,
    fields_of,
    has_field,
)
from scheduler.config.versions import DEFAULT_SCHEDULER_VERSION, SchedulerVersion

if TYPE_CHECKING:
    from scheduler.config.types import Json, KubeSchedulerConfiguration

_STR: Final = f"{STANDARD_TAG}str"
#: Numbers to the base 60 and dates of YAML 1.1: quoted, although they are read as text.
_AMBIGUOUS: Final = re.compile(
    r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"
)
#: Characters of more than 16 bits, which go-yaml escapes.
_WIDE: Final = re.compile("[\U00010000-\U0010ffff]")

#: The part of a field's name that Go writes in capitals where it exports the field.
_EXPORTED: Final = re.compile(r"^(?:(?:qps|url|http|tls|ca)(?=[A-Z]|$)|.)")

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


def encode_config(config: KubeSchedulerConfiguration, version: SchedulerVersion) -> Json:
    """Return the configuration as a JSON object with `apiVersion` and `kind`."""
    return {"kind": KIND, "apiVersion": API_VERSION, **encode_struct(config, version)}


def internal_config(config: KubeSchedulerConfiguration, version: SchedulerVersion) -> Json:
    """Return a configuration as `/configz` up to 1.35 shows it."""
    return {"apiVersion": API_VERSION, **_internal_fields(config, version)}


def internal_form(value: object, version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION) -> object:
    """Return the JSON of the types of kube-scheduler itself, as messages show a bad value.

    These have all fields, under their names in Go, and arguments without `apiVersion` and `kind`.
    """
    match value:
        case ConfigStruct():
            return _internal_fields(value, version)
        case tuple():
            return [internal_form(item, version) for item in value]
    return _encode(value, version)


def _internal_fields(struct: ConfigStruct, version: SchedulerVersion) -> Json:
    fields: Json = {}
    for field in fields_of(type(struct)):
        if has_field(type(struct), field.name, version):
            value = getattr(struct, field.name)
            # Lists and bytes that were never set are Go's nil.
            is_nil = value in ((), b"") and value == field.default
            name = _EXPORTED.sub(lambda match: match[0].upper(), field.encode_name)
            fields[name] = None if is_nil else internal_form(value, version)
    return fields


def config_yaml(config: KubeSchedulerConfiguration, version: SchedulerVersion) -> str:
    """Return the configuration as YAML, as `--write-config-to` writes it.

    The arguments of plugins are sorted by the plugins' names.
    """
    profiles = tuple(
        msgspec.structs.replace(
            profile,
            plugin_config=tuple(sorted(profile.plugin_config, key=lambda entry: entry.name)),
        )
        for profile in config.profiles
    )
    completed = msgspec.structs.replace(config, profiles=profiles)
    return go_yaml(go_numbers(encode_config(completed, version)))


class _Dumper(yaml.SafeDumper):
    """Writes YAML as go-yaml does: every scalar is plain where it reads back as the same value."""

    def represent_text(self, text: str) -> yaml.nodes.Node:
        style = None
        if not isinstance(resolve(text), str) or _AMBIGUOUS.fullmatch(text) or _WIDE.search(text):
            style = '"'
        elif "\n" in text:
            style = "|"
        return self.represent_scalar(_STR, text, style=style)

    def represent_other(self, value: object) -> yaml.nodes.Node:
        text = go_float(value) if isinstance(value, float) else json.dumps(value)
        return self.represent_scalar(_STR, text)

    def ignore_aliases(self, _: object) -> bool:
        return True


_Dumper.yaml_implicit_resolvers = {}
_Dumper.add_representer(str, _Dumper.represent_text)
for _kind in (type(None), bool, int, float):
    _Dumper.add_representer(_kind, _Dumper.represent_other)


def go_yaml(value: object) -> str:
    """Return JSON as YAML in the style of go-yaml: sorted keys, lists not indented."""
    text: str = yaml.dump(value, Dumper=_Dumper, default_flow_style=False, allow_unicode=True)
    return _WIDE.sub(lambda match: f"\\U{ord(match[0]):08X}", text)


def go_numbers(value: object) -> object:
    """Return JSON with numbers as Go writes them: a whole number has no decimal point."""
    match value:
        case dict():
            return {key: go_numbers(item) for key, item in value.items()}
        case list():
            return [go_numbers(item) for item in value]
        case float() if value.is_integer():
            return int(value)
    return value


def encode_struct(
    struct: core.Struct, version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION
) -> Json:
    """Return a part of a configuration as a JSON object without `apiVersion` and `kind`."""
    if isinstance(struct, ConfigStruct):
        always_written = struct.always_written
    else:
        always_written = _ALWAYS_WRITTEN.get(type(struct), frozenset())
    encoded: Json = {}
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        if not has_field(type(struct), field.name, version):
            continue
        is_always_written = always_written is ALL_FIELDS or field.name in always_written
        if is_always_written or not _is_empty(value, field.default):
            encoded[field.encode_name] = _encode(value, version)
    return encoded


def _encode(value: object, version: SchedulerVersion) -> object:
    match value:
        case PluginArgs():
            type_meta = {"kind": type(value).__name__, "apiVersion": API_VERSION}
            return type_meta | encode_struct(value, version)
        case core.Struct():
            return encode_struct(value, version)
        case Duration():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case tuple():
            # An empty list that is written was never set: Go's nil.
            return [_encode(item, version) for item in value] or None
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
