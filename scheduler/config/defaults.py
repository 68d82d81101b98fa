"""The defaults that are not a field's own: those that depend on other fields, or stand for zero.

A field's own default stands with the field, in `scheduler.config.types`.
Source: `pkg/scheduler/apis/config/v1/defaults.go`, component-base `config/v1alpha1/defaults.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from scheduler.config.default_plugins import default_plugins, merge_plugins
from scheduler.config.plugin_args import PLUGIN_ARGS, PluginArgs
from scheduler.config.types import (
    DEFAULT_SCHEDULER_NAME,
    ClientConnectionConfiguration,
    Json,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginConfig,
)

if TYPE_CHECKING:
    from scheduler.config.feature_gates import FeatureGates

S = TypeVar("S", LeaderElectionConfiguration, ClientConnectionConfiguration)


def fill_in_context(written: Json) -> Json:
    """A configuration as JSON, completed where it matters whether a field was written at all.

    There is always a profile, one alone gets the usual name, and contention profiling goes with
    profiling. What is malformed stays, for the decoder to complain about.
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


def set_defaults(
    config: KubeSchedulerConfiguration, gates: FeatureGates
) -> KubeSchedulerConfiguration:
    """Put defaults in the place of zeros, and complete every profile."""
    return msgspec.structs.replace(
        config,
        leader_election=_with_defaults_for_zeros(config.leader_election),
        client_connection=_with_defaults_for_zeros(config.client_connection),
        profiles=tuple(complete_profile(profile, gates) for profile in config.profiles),
    )


def complete_profile(profile: KubeSchedulerProfile, gates: FeatureGates) -> KubeSchedulerProfile:
    """A profile with the default plugins, and with arguments for every plugin that takes some.

    Arguments that were given come first, in their order; then the others, by plugin name.
    """
    plugins = merge_plugins(default_plugins(gates), profile.plugins)
    given = [_complete_args(plugin_config, gates) for plugin_config in profile.plugin_config]
    names = {plugin_config.name for plugin_config in given}
    missing = [
        PluginConfig(name, PLUGIN_ARGS[name]().with_defaults(gates))
        for name in plugins.names()
        if name in PLUGIN_ARGS and name not in names
    ]
    return msgspec.structs.replace(profile, plugins=plugins, plugin_config=(*given, *missing))


def _complete_args(plugin_config: PluginConfig, gates: FeatureGates) -> PluginConfig:
    if not isinstance(plugin_config.args, PluginArgs):
        return plugin_config
    return PluginConfig(plugin_config.name, plugin_config.args.with_defaults(gates))


def _with_defaults_for_zeros(value: S) -> S:
    """Empty texts, zero numbers and durations are "not set" here; false is false."""
    defaults = {
        field.name: field.default
        for field in msgspec.structs.fields(value)
        if not getattr(value, field.name) and getattr(value, field.name) is not False
    }
    return msgspec.structs.replace(value, **defaults)
