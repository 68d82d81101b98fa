"""Reads a configuration file as upstream does: strictly, one version, defaults filled in.

What is read is complete but not yet checked for sense: see `scheduler.config.validation`.
Source: `cmd/kube-scheduler/app/options/configfile.go`, apimachinery
`pkg/runtime/serializer/json/json.go`, `DecodeNestedObjects` of kube-scheduler `config/v1/types.go`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api.field import FieldError
from scheduler.config.decode import decode
from scheduler.config.defaults import fill_in_context, set_defaults
from scheduler.config.document import parse_document
from scheduler.config.errors import ConfigError
from scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from scheduler.config.plugin_args import PLUGIN_ARGS, PluginArgs, args_kind
from scheduler.config.types import (
    API_VERSION,
    GROUP,
    KIND,
    Json,
    KubeSchedulerConfiguration,
    PluginConfig,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_ARGS_KINDS: Final = frozenset(args_kind(name) for name in PLUGIN_ARGS)

#: As much of a text as an error message shows.
_SHOWN_LENGTH_MAX: Final = 120


def load_config(
    path: str | Path, *, gates: FeatureGates = DEFAULT_FEATURE_GATES
) -> KubeSchedulerConfiguration:
    """Read a file. Raises `ConfigError` if it cannot be read or is no configuration."""
    try:
        # A byte order mark is what some editors put before UTF-8.
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except OSError as error:
        raise ConfigError(f"open {path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"read {path}: not UTF-8 text: byte {error.start} is wrong") from error
    return load_text(text, gates=gates)


def default_config(*, gates: FeatureGates = DEFAULT_FEATURE_GATES) -> KubeSchedulerConfiguration:
    """The configuration of a scheduler that was given none."""
    return set_defaults(decode_config(fill_in_context({})), gates)


def load_text(
    text: str, *, gates: FeatureGates = DEFAULT_FEATURE_GATES
) -> KubeSchedulerConfiguration:
    """Read a configuration from YAML or JSON text, complete with all defaults.

    Raises `ConfigError`: bad syntax, another version or kind, a wrong type, unknown or repeated
    fields (all of them in one message).
    """
    document = parse_document(text)
    api_version, kind = _type_meta(document.value)
    if not kind:
        raise ConfigError(f"Object 'Kind' is missing in '{_shown(text)}'")
    if not api_version.rpartition("/")[2]:
        raise ConfigError(f"Object 'apiVersion' is missing in '{_shown(text)}'")
    _check_registered(api_version, kind)
    if kind != KIND:
        found = f"{api_version}, Kind={kind}"
        raise ConfigError(f"couldn't decode as KubeSchedulerConfiguration, got {found}: ")
    config = decode_config(
        fill_in_context(_without_type_meta(document.value)), duplicates=document.duplicates
    )
    return set_defaults(config, gates)


def decode_config(value: Json, *, duplicates: Iterable[str] = ()) -> KubeSchedulerConfiguration:
    """A configuration from its fields as JSON, with the defaults of single fields only.

    `duplicates` are the paths of keys that the text had more than once. Raises `ConfigError`.
    """
    try:
        config, unknown_fields = decode(KubeSchedulerConfiguration, value)
    except FieldError as error:
        raise ConfigError(str(error)) from error
    problems = [f'duplicate field "{path}"' for path in duplicates]
    problems += _unknown_field_texts(unknown_fields)
    profiles = []
    for index, profile in enumerate(config.profiles):
        plugin_config = []
        for number, entry in enumerate(profile.plugin_config):
            where = f"decoding .profiles[{index}].pluginConfig[{number}]"
            try:
                args, below = decode_args(entry.name, entry.args)
            except ConfigError as error:
                raise ConfigError(f"{where}: {error}") from error
            if below:
                nested = f"decoding args for plugin {entry.name}: {_strict_text(below)}"
                problems.append(f"{where}: {_strict_text([nested])}")
            plugin_config.append(PluginConfig(entry.name, args))
        profiles.append(msgspec.structs.replace(profile, plugin_config=tuple(plugin_config)))
    if problems:
        raise ConfigError(_strict_text(problems))
    return msgspec.structs.replace(config, profiles=tuple(profiles))


def decode_args(plugin_name: str, value: object) -> tuple[object, list[str]]:
    """A plugin's arguments as its own type, and complaints about fields that type has not.

    The arguments of a plugin that is not in-tree come back as they are. Raises `ConfigError`.
    """
    args_type = PLUGIN_ARGS.get(plugin_name)
    if args_type is None:
        return value, []
    try:
        return _decode_in_tree_args(plugin_name, args_type, {} if value is None else value)
    except (_TypeMetaError, FieldError) as error:
        raise ConfigError(f"decoding args for plugin {plugin_name}: {error}") from error


class _TypeMetaError(ConfigError):
    """A value does not say rightly what it is."""


def _decode_in_tree_args(
    plugin_name: str, args_type: type[PluginArgs], value: object
) -> tuple[PluginArgs, list[str]]:
    api_version, kind = _type_meta(value)
    expected = args_kind(plugin_name)
    kind = kind or expected
    _check_registered(api_version or API_VERSION, kind)
    if kind != expected:
        raise ConfigError(
            f"args for plugin {plugin_name} were not of type {expected}.{GROUP}, got {kind}.{GROUP}"
        )
    args, unknown_fields = decode(args_type, _without_type_meta(value))
    return args, _unknown_field_texts(unknown_fields)


def _type_meta(value: object) -> tuple[str, str]:
    """The `apiVersion` and `kind` of a value, empty if it says none."""
    if value is None:
        return "", ""
    if not isinstance(value, dict):
        found = "a list" if isinstance(value, list) else json.dumps(value, ensure_ascii=False)
        raise _TypeMetaError(f"couldn't get version/kind; must be a mapping, not {found}")
    found_texts = []
    for key in ("apiVersion", "kind"):
        text = value.get(key)
        if text is not None and not isinstance(text, str):
            raise _TypeMetaError(f"couldn't get version/kind; {key} must be a string")
        found_texts.append(text or "")
    api_version, kind = found_texts
    if api_version.count("/") > 1:
        raise _TypeMetaError(f"unexpected GroupVersion string: {api_version}")
    return api_version, kind


def _without_type_meta(value: object) -> Json:
    assert isinstance(value, dict)
    return {key: item for key, item in value.items() if key not in ("apiVersion", "kind")}


def _check_registered(api_version: str, kind: str) -> None:
    if api_version != API_VERSION or kind not in {KIND, *_ARGS_KINDS}:
        raise _TypeMetaError(f'no kind "{kind}" is registered for version "{api_version}"')


def _unknown_field_texts(paths: Iterable[str]) -> list[str]:
    return [f'unknown field "{path}"' for path in paths]


def _strict_text(problems: Iterable[str]) -> str:
    return f"strict decoding error: {', '.join(problems)}"


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_LENGTH_MAX else f"{line[:_SHOWN_LENGTH_MAX]}..."
