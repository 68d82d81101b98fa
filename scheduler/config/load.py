"""Read a configuration file as upstream does: strictly, one version, defaults filled in.

The result is complete but not yet validated: see `scheduler.config.validation`.
Source: `cmd/kube-scheduler/app/options/configfile.go`, apimachinery
`pkg/runtime/serializer/json/json.go`, `DecodeNestedObjects` of kube-scheduler `config/v1/types.go`,
`pkg/scheduler/apis/config/v1/defaults.go`, component-base `config/v1alpha1/defaults.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from scheduler.config.decode import decode, json_kind
from scheduler.config.default_plugins import default_plugins, merge_plugins
from scheduler.config.document import parse_document
from scheduler.config.types import (
    API_VERSION,
    DEFAULT_SCHEDULER_NAME,
    GROUP,
    KIND,
    ClientConnectionConfiguration,
    ConfigError,
    Json,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginArgs,
    PluginConfig,
    fields_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from scheduler.config.types import FeatureGates, Scheme

S = TypeVar("S", LeaderElectionConfiguration, ClientConnectionConfiguration)

#: Parts of upstream's error texts.
_SCHEME: Final = 'in scheme "pkg/runtime/scheme.go:111"'
_NO_TYPE_META: Final = "couldn't get version/kind; json parse error: json: cannot unmarshal"
_TYPE_META: Final = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)

#: Characters of a text that an error message shows.
_SHOWN_LENGTH_MAX: Final = 120


def load_config(path: str | Path, scheme: Scheme) -> KubeSchedulerConfiguration:
    """Read a file. Raises `ConfigError` as `load_text` does, with the name of the file."""
    try:
        # Some editors put a byte order mark in front of UTF-8.
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except OSError as error:
        raise ConfigError(f"open {path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"read {path}: not UTF-8 text: byte {error.start} is wrong") from error
    try:
        return load_text(text, scheme)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def default_config(scheme: Scheme) -> KubeSchedulerConfiguration:
    """Return the configuration of a scheduler without a configuration file."""
    return _set_defaults(decode_config(_fill_in_context({}), scheme), scheme)


def load_text(text: str, scheme: Scheme) -> KubeSchedulerConfiguration:
    """Read a configuration from YAML or JSON text and fill in all defaults.

    Raises `ConfigError`: bad syntax, another version or kind, a wrong type, unknown or repeated
    fields (all of them in one message).
    """
    document = parse_document(text)
    api_version, kind = _type_meta(document.value)
    if not kind:
        raise ConfigError(f"Object 'Kind' is missing in '{_shown(text)}'")
    if not api_version.rpartition("/")[2]:
        raise ConfigError(f"Object 'apiVersion' is missing in '{_shown(text)}'")
    _check_registered(api_version, kind, scheme)
    if kind != KIND:
        decoded = f"{api_version}, Kind={kind}"
        raise ConfigError(f"couldn't decode as KubeSchedulerConfiguration, got {decoded}: ")
    written = _fill_in_context(_without_type_meta(document.value))
    return _set_defaults(decode_config(written, scheme, duplicates=document.duplicates), scheme)


# Decoding.


def decode_config(
    value: Json, scheme: Scheme, *, duplicates: Iterable[str] = ()
) -> KubeSchedulerConfiguration:
    """Decode a configuration, with the defaults of single fields only.

    `duplicates` are the paths of keys that appear more than once in the text. Raises `ConfigError`.
    """
    try:
        config, unknown_fields = decode(KubeSchedulerConfiguration, value, scheme.version)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    problems = [f'duplicate field "{path}"' for path in duplicates]
    problems += _unknown_field_texts(unknown_fields)
    profiles = []
    for index, profile in enumerate(config.profiles):
        plugin_config = []
        for number, entry in enumerate(profile.plugin_config):
            where = f"decoding .profiles[{index}].pluginConfig[{number}]"
            try:
                args, below = decode_args(entry.name, entry.args, scheme)
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


def decode_args(plugin_name: str, value: object, scheme: Scheme) -> tuple[object, list[str]]:
    """Decode a plugin's arguments; also return error texts about unknown fields.

    Arguments of a plugin that is not in the scheme are returned unchanged. Raises `ConfigError`.
    """
    args_type = scheme.plugin_args.get(plugin_name)
    if args_type is None:
        return value, []
    try:
        value = {} if value is None else value
        api_version, kind = _type_meta(value)
        expected = args_type.__name__
        kind = kind or expected
        _check_registered(api_version or API_VERSION, kind, scheme)
        if kind == expected:
            args, unknown_fields = decode(args_type, _without_type_meta(value), scheme.version)
            return args, _unknown_field_texts(unknown_fields)
    except (_TypeMetaError, ValueError) as error:
        raise ConfigError(f"decoding args for plugin {plugin_name}: {error}") from error
    raise ConfigError(
        f"args for plugin {plugin_name} were not of type {expected}.{GROUP}, got {kind}.{GROUP}"
    )


class _TypeMetaError(ConfigError):
    """The `apiVersion` or `kind` of a value is missing, malformed or unknown."""


def _type_meta(value: object) -> tuple[str, str]:
    """Return the `apiVersion` and `kind` of a value, empty if not set."""
    if value is None:
        return "", ""
    if not isinstance(value, dict):
        raise _TypeMetaError(
            f"{_NO_TYPE_META} {json_kind(value)} into Go value of type {_TYPE_META}"
        )
    found_texts = []
    for key in ("apiVersion", "kind"):
        text = value.get(key)
        if text is not None and not isinstance(text, str):
            json_type = json_kind(text)
            raise _TypeMetaError(
                f"{_NO_TYPE_META} {json_type} into Go struct field .{key} of type string"
            )
        found_texts.append(text or "")
    api_version, kind = found_texts
    if api_version.count("/") > 1:
        raise _TypeMetaError(f"unexpected GroupVersion string: {api_version}")
    return api_version, kind


def _without_type_meta(value: object) -> Json:
    assert isinstance(value, dict)
    return {key: item for key, item in value.items() if key not in ("apiVersion", "kind")}


def _check_registered(api_version: str, kind: str, scheme: Scheme) -> None:
    if api_version != API_VERSION or kind not in scheme.kinds:
        raise _TypeMetaError(
            f'no kind "{kind}" is registered for version "{api_version}" {_SCHEME}'
        )


def _unknown_field_texts(paths: Iterable[str]) -> list[str]:
    return [f'unknown field "{path}"' for path in paths]


def _strict_text(problems: Iterable[str]) -> str:
    return f"strict decoding error: {', '.join(problems)}"


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_LENGTH_MAX else f"{line[:_SHOWN_LENGTH_MAX]}..."


# Defaults that are not a field's own.


def _fill_in_context(written: Json) -> Json:
    """Return a copy with the defaults that depend on a field being written at all.

    There is at least one profile, a lone profile has a name, and contention profiling follows
    profiling. Malformed values are left to the decoder.
    """
    filled = dict(written)
    if filled.get("enableContentionProfiling") is None:
        filled["enableContentionProfiling"] = filled.get("enableProfiling") is not False
    if filled.get("profiles") in (None, []):
        filled["profiles"] = [{}]
    profiles = filled["profiles"]
    if isinstance(profiles, list) and len(profiles) == 1:
        (profile,) = profiles
        if profile is None:
            profile = {}
        if isinstance(profile, dict) and profile.get("schedulerName") is None:
            filled["profiles"] = [{**profile, "schedulerName": DEFAULT_SCHEDULER_NAME}]
    return filled


def _set_defaults(config: KubeSchedulerConfiguration, scheme: Scheme) -> KubeSchedulerConfiguration:
    """Replace zeros by defaults and complete every profile."""
    return msgspec.structs.replace(
        config,
        leader_election=_with_defaults_for_zeros(config.leader_election),
        client_connection=_with_defaults_for_zeros(config.client_connection),
        profiles=tuple(complete_profile(profile, scheme) for profile in config.profiles),
    )


def complete_profile(profile: KubeSchedulerProfile, scheme: Scheme) -> KubeSchedulerProfile:
    """Add the default plugins, and the default arguments of all plugins.

    Arguments of the file come first, in their order; then the default ones, by plugin name.
    """
    plugins = merge_plugins(default_plugins(scheme.gates, scheme.version), profile.plugins)
    configured = [_complete_args(entry, scheme.gates) for entry in profile.plugin_config]
    names = {entry.name for entry in configured}
    missing = [
        PluginConfig(name, scheme.plugin_args[name]().with_defaults(scheme.gates))
        for name in plugins.names()
        if name in scheme.plugin_args and name not in names
    ]
    return msgspec.structs.replace(profile, plugins=plugins, plugin_config=(*configured, *missing))


def _complete_args(entry: PluginConfig, gates: FeatureGates) -> PluginConfig:
    if not isinstance(entry.args, PluginArgs):
        return entry
    return PluginConfig(entry.name, entry.args.with_defaults(gates))


def _with_defaults_for_zeros(value: S) -> S:
    """Replace empty strings, zeros and zero durations by defaults; false is a value."""
    defaults = {
        field.name: field.default
        for field in fields_of(type(value))
        if not getattr(value, field.name) and getattr(value, field.name) is not False
    }
    return msgspec.structs.replace(value, **defaults)
