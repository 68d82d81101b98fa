"""Validate a configuration: all errors, with upstream's texts and in upstream's order.

Fields that this program does not support are validated as well.
Source: `pkg/scheduler/apis/config/validation/validation.go`, component-base
`config/validation/validation.go`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from scheduler.api import field
from scheduler.api.duration import Duration
from scheduler.api.field import FieldError
from scheduler.api.names import label_key_errors
from scheduler.api.resources import is_extended_resource_name
from scheduler.config.encode import internal_form
from scheduler.config.types import API_VERSION, PluginArgs
from scheduler.config.versions import SchedulerVersion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.config.types import (
        Extender,
        ExtenderManagedResource,
        KubeSchedulerConfiguration,
        KubeSchedulerProfile,
        LeaderElectionConfiguration,
        PluginConfig,
        Plugins,
        Scheme,
    )

_LEASES: Final = "leases"

#: Plugins that upstream removed.
_INVALID_PLUGINS: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})

#: Extension points at which upstream does not check for removed plugins.
_UNCHECKED_POINTS: Final = frozenset({"multiPoint", "placementGenerate", "placementScore"})

#: The words of 1.34 for label keys, by those of later versions.
_WORDS_OF_1_34: Final[Mapping[str, str]] = {
    "a valid label key must": "a qualified name must",
    "must be no more than 63 bytes": "must be no more than 63 characters",
    "must be no more than 253 bytes": "must be no more than 253 characters",
}

#: Shown in place of a value that upstream's text takes from a path.
_PATH_AS_VALUE: Final[Mapping[str, object]] = {}


def validate_config(config: KubeSchedulerConfiguration, scheme: Scheme) -> list[FieldError]:
    """Return all errors of a configuration; `field.aggregate` joins them to one text."""
    errors = []
    if config.client_connection.burst < 0:
        burst = config.client_connection.burst
        errors.append(field.invalid("clientConnection.burst", burst, "must be non-negative"))
    errors += _leader_election_errors(config.leader_election, "leaderElection")
    if config.parallelism <= 0:
        message = "should be an integer value greater than zero"
        errors.append(field.invalid("parallelism", config.parallelism, message))
    errors += _profiles_errors(config.profiles, "profiles", scheme)
    percentage = config.percentage_of_nodes_to_score
    errors += _percentage_errors(percentage, "percentageOfNodesToScore")
    errors += _backoff_errors(config)
    errors += _extenders_errors(config.extenders, "extenders")
    return errors_of(scheme.version, errors)


def errors_of(version: SchedulerVersion, errors: Iterable[FieldError]) -> list[FieldError]:
    """Return errors in the words of a version."""
    if version < SchedulerVersion.V1_35:
        for later, words in _WORDS_OF_1_34.items():
            errors = [FieldError(each.path, each.body.replace(later, words)) for each in errors]
    return list(errors)


def _leader_election_errors(
    leader_election: LeaderElectionConfiguration, path: str
) -> list[FieldError]:
    if not leader_election.leader_elect:
        return []
    durations = {
        "leaseDuration": leader_election.lease_duration,
        "renewDeadline": leader_election.renew_deadline,
        "retryPeriod": leader_election.retry_period,
    }
    errors = [
        field.invalid(f"{path}.{name}", str(duration), "must be greater than zero")
        for name, duration in durations.items()
        if duration <= Duration()
    ]
    if leader_election.lease_duration <= leader_election.renew_deadline:
        # Upstream shows the deadline here, not the duration that is too short.
        deadline = str(leader_election.renew_deadline)
        message = "must be greater than `RenewDeadline`"
        errors.append(field.invalid(f"{path}.leaseDuration", deadline, message))
    texts = {
        "resourceLock": leader_election.resource_lock,
        "resourceNamespace": leader_election.resource_namespace,
        "resourceName": leader_election.resource_name,
    }
    errors += [field.required(f"{path}.{name}") for name, text in texts.items() if not text]
    lock = leader_election.resource_lock
    if lock != _LEASES:
        message = f'resourceLock value must be "{_LEASES}"'
        errors.append(field.invalid(f"{path}.resourceLock", lock, message))
    return errors


def _percentage_errors(percentage: int | None, path: str) -> list[FieldError]:
    if percentage is None or 0 <= percentage <= 100:
        return []
    return [field.invalid(path, percentage, "not in valid range [0-100]")]


def _backoff_errors(config: KubeSchedulerConfiguration) -> list[FieldError]:
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    errors = []
    if initial <= 0:
        errors.append(field.invalid("podInitialBackoffSeconds", initial, "must be greater than 0"))
    if longest < initial:
        message = "must be greater than or equal to PodInitialBackoffSeconds"
        errors.append(field.invalid("podMaxBackoffSeconds", longest, message))
    return errors


def _profiles_errors(
    profiles: Sequence[KubeSchedulerProfile], path: str, scheme: Scheme
) -> list[FieldError]:
    if not profiles:
        return [field.required(path)]
    errors = []
    names = set()
    for index, profile in enumerate(profiles):
        below = f"{path}[{index}]"
        errors += _profile_errors(profile, below, scheme)
        if profile.scheduler_name in names:
            errors.append(field.duplicate(f"{below}.schedulerName", _PATH_AS_VALUE))
        names.add(profile.scheduler_name)
    return errors + _common_queue_sort_errors(profiles, path)


def _profile_errors(profile: KubeSchedulerProfile, path: str, scheme: Scheme) -> list[FieldError]:
    errors = []
    if not profile.scheduler_name:
        errors.append(field.required(f"{path}.schedulerName"))
    percentage = profile.percentage_of_nodes_to_score
    errors += _percentage_errors(percentage, f"{path}.percentageOfNodesToScore")
    errors += _invalid_plugin_errors(profile.plugins, f"{path}.plugins")
    return errors + _plugin_config_errors(profile.plugin_config, f"{path}.pluginConfig", scheme)


def _invalid_plugin_errors(plugins: Plugins, path: str) -> list[FieldError]:
    return [
        _invalid_plugin(f"{path}.{point}.enabled[{index}]", plugin.name)
        for point, plugin_set in plugins.points()
        if point not in _UNCHECKED_POINTS
        for index, plugin in enumerate(plugin_set.enabled)
        if plugin.name in _INVALID_PLUGINS
    ]


def _invalid_plugin(path: str, name: str) -> FieldError:
    # The first version is a slip of upstream's: the one of the core API.
    versions = f'"v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    return field.invalid(path, name, f"was invalid in version {versions}")


def _plugin_config_errors(
    plugin_config: Sequence[PluginConfig], path: str, scheme: Scheme
) -> list[FieldError]:
    errors = []
    names = set()
    for index, entry in enumerate(plugin_config):
        below = f"{path}[{index}]"
        if entry.name in names:
            errors.append(field.duplicate(below, entry.name))
        names.add(entry.name)
        if entry.name in _INVALID_PLUGINS:
            errors.append(_invalid_plugin(below, entry.name))
        else:
            errors += _args_errors(entry, f"{below}.args", scheme)
    return errors


def _args_errors(entry: PluginConfig, path: str, scheme: Scheme) -> list[FieldError]:
    args, args_type = entry.args, scheme.plugin_args.get(entry.name)
    if args_type is None or not args_type.is_validated_with_config:
        return []
    if isinstance(args, PluginArgs) and type(args) is args_type:
        return args.validator(scheme.version)(path, scheme.gates)
    return [field.invalid(path, internal_form(args), "has to match plugin args")]


def _common_queue_sort_errors(
    profiles: Sequence[KubeSchedulerProfile], path: str
) -> list[FieldError]:
    """Return errors if the profiles, which share one queue, sort it in different ways."""
    first, *others = profiles
    sort = first.plugins.queue_sort
    errors = []
    if len(sort.enabled) > 1:
        enabled_path = f"{path}[0].plugins.queueSort.Enabled"
        message = "only one queue sort plugin can be enabled"
        errors.append(field.invalid(enabled_path, len(sort.enabled), message))
    name = sort.enabled[0].name if sort.enabled else ""
    args = None
    if name:
        for entry in first.plugin_config:
            args = entry.args if entry.name == name else args
    for index, profile in enumerate(others, 1):
        below = f"{path}[{index}]"
        if profile.plugins.queue_sort != sort:
            shown = internal_form(profile.plugins.queue_sort)
            message = "must be the same for all profiles"
            errors.append(field.invalid(f"{below}.plugins.queueSort", shown, message))
        errors += [
            field.invalid(
                f"{below}.pluginConfig.args",
                internal_form(entry.args),
                "queueSort must be the same for all profiles",
            )
            for entry in profile.plugin_config
            if entry.name == name and entry.args != args
        ]
    return errors


def _extenders_errors(extenders: Sequence[Extender], path: str) -> list[FieldError]:
    errors = []
    names: Counter[str] = Counter()
    for index, extender in enumerate(extenders):
        below = f"{path}[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            message = "must have a positive weight applied to it"
            errors.append(field.invalid(f"{below}.weight", extender.weight, message))
        for number, resource in enumerate(extender.managed_resources):
            name_path = f"{below}.managedResources[{number}].name"
            errors += _managed_resource_errors(resource, name_path)
            if resource.name in names:
                message = "duplicate extender managed resource name"
                errors.append(field.invalid(name_path, resource.name, message))
            names[resource.name] += 1
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        problem = f"found {binders} extenders implementing bind"
        errors.append(field.invalid(path, problem, "only one extender can implement bind"))
    return errors


def _managed_resource_errors(resource: ExtenderManagedResource, path: str) -> list[FieldError]:
    name = resource.name
    if complaints := label_key_errors(name):
        return [field.invalid(path, name, complaint) for complaint in complaints]
    if not is_extended_resource_name(name):
        return [field.invalid(path, name, "is an invalid extended resource name")]
    return []
