"""The configuration of a scheduler, `KubeSchedulerConfiguration`: read, checked, written back.

    config = load_config(path)                    # ConfigError: one line
    if errors := validate_config(config):         # all that is wrong
        raise ConfigError(field.aggregate(errors))

A plugin's arguments are structs from `scheduler.config.plugin_args`.
"""

from scheduler.config.default_plugins import ALL_PLUGINS, default_plugins, merge_plugins
from scheduler.config.dump import dump_config, encode_config
from scheduler.config.duration import Duration
from scheduler.config.errors import ConfigError
from scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from scheduler.config.load import default_config, load_config, load_text
from scheduler.config.types import (
    API_VERSION,
    DEFAULT_SCHEDULER_NAME,
    KIND,
    ClientConnectionConfiguration,
    Extender,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
)
from scheduler.config.validation import validate_config

__all__ = [
    "ALL_PLUGINS",
    "API_VERSION",
    "DEFAULT_FEATURE_GATES",
    "DEFAULT_SCHEDULER_NAME",
    "KIND",
    "ClientConnectionConfiguration",
    "ConfigError",
    "Duration",
    "Extender",
    "ExtenderManagedResource",
    "ExtenderTLSConfig",
    "FeatureGates",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "LeaderElectionConfiguration",
    "Plugin",
    "PluginConfig",
    "PluginSet",
    "Plugins",
    "default_config",
    "default_plugins",
    "dump_config",
    "encode_config",
    "load_config",
    "load_text",
    "merge_plugins",
    "validate_config",
]
