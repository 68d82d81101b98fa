"""`KubeSchedulerConfiguration`: types, reading files, defaults, validation, encoding.

    config = load_config(path, scheme)            # raises ConfigError
    if errors := validate_config(config, scheme):
        raise ConfigError(field.aggregate(errors))

A `Scheme` holds the types of plugins' arguments; the one of the in-tree plugins is
`scheduler.plugins.SCHEME`.
"""

from scheduler.api.duration import Duration
from scheduler.config.default_plugins import default_plugins, merge_plugins
from scheduler.config.encode import encode_config
from scheduler.config.feature_gates import DEFAULT_VERSION, EffectiveVersion, enabled_gates
from scheduler.config.load import default_config, load_config, load_text
from scheduler.config.types import (
    API_VERSION,
    DEFAULT_FEATURE_GATES,
    DYNAMIC_RESOURCE_ALLOCATION,
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    KIND,
    POP_FROM_BACKOFF_Q,
    RESIZE_PREEMPTION,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
    WORKLOAD_AWARE_PREEMPTION,
    ConfigError,
    Extender,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    FeatureGates,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    Plugin,
    PluginArgs,
    PluginConfig,
    Plugins,
    PluginSet,
    Scheme,
    default_feature_gates,
    uses_queueing_hints,
)
from scheduler.config.validation import validate_config
from scheduler.config.versions import DEFAULT_SCHEDULER_VERSION, VERSION_LABELS, SchedulerVersion

__all__ = [
    "API_VERSION",
    "DEFAULT_FEATURE_GATES",
    "DEFAULT_SCHEDULER_VERSION",
    "DEFAULT_VERSION",
    "DYNAMIC_RESOURCE_ALLOCATION",
    "GANG_SCHEDULING",
    "GENERIC_WORKLOAD",
    "KIND",
    "POP_FROM_BACKOFF_Q",
    "RESIZE_PREEMPTION",
    "TOPOLOGY_AWARE_WORKLOAD_SCHEDULING",
    "VERSION_LABELS",
    "WORKLOAD_AWARE_PREEMPTION",
    "ConfigError",
    "Duration",
    "EffectiveVersion",
    "Extender",
    "ExtenderManagedResource",
    "ExtenderTLSConfig",
    "FeatureGates",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "LeaderElectionConfiguration",
    "Plugin",
    "PluginArgs",
    "PluginConfig",
    "PluginSet",
    "Plugins",
    "SchedulerVersion",
    "Scheme",
    "default_config",
    "default_feature_gates",
    "default_plugins",
    "enabled_gates",
    "encode_config",
    "load_config",
    "load_text",
    "merge_plugins",
    "uses_queueing_hints",
    "validate_config",
]
