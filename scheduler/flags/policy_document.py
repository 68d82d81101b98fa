"""The document of kind Policy: read as JSON or YAML, checked with v1.13's error texts.

Unknown fields are ignored, as in v1.13. Fields of extenders may be written in any case.
Source: v1.13 `pkg/scheduler/api/{types,v1/types}.go`, `api/validation/validation.go`,
`scheduler.go` (`initPolicyFromFile`, `initPolicyFromConfigMap`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from scheduler.api.field import quoted
from scheduler.api.names import label_key_errors
from scheduler.api.resources import is_extended_resource_name
from scheduler.config.decode import decode
from scheduler.config.document import parse_document
from scheduler.config.types import (
    ConfigError,
    ConfigStruct,
    Extender,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    Int64,
    fields_of,
)
from scheduler.plugins.legacy.scores import NodeLabelArgs, UtilizationShapePoint
from scheduler.plugins.legacy.services import (
    LabelsPresenceArgs,
    ServiceAffinityArgs,
    ServiceAntiAffinityArgs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec

#: The key of the policy in a ConfigMap.
CONFIG_MAP_KEY: Final = "policy.cfg"

_KIND: Final = "Policy"
_VERSIONS: Final = ("", "v1", "kubescheduler.config.k8s.io/v1")
_SCHEME: Final = "k8s.io/kubernetes/pkg/scheduler/api/register.go:27"
#: The types of the nested objects of extenders, by field.
_NESTED: Final[Mapping[str, type[msgspec.Struct]]] = MappingProxyType(
    {"tls_config": ExtenderTLSConfig, "managed_resources": ExtenderManagedResource}
)
#: The number that no weight may reach.
_MAX_WEIGHT: Final = (2**63 - 1) // 10


class ResourceWeight(ConfigStruct, frozen=True):
    """A resource of RequestedToCapacityRatioPriority, since v1.17."""

    name: str = ""
    weight: Int64 = 0


class RequestedToCapacityRatioArguments(ConfigStruct, frozen=True):
    """The function from utilization to score, and since v1.17 the resources."""

    shape: tuple[UtilizationShapePoint, ...] = ()
    resources: tuple[ResourceWeight, ...] = ()


class PredicateArgument(ConfigStruct, frozen=True):
    """The argument of a predicate: one of the fields."""

    service_affinity: ServiceAffinityArgs | None = None
    labels_presence: LabelsPresenceArgs | None = None


class PriorityArgument(ConfigStruct, frozen=True):
    """The argument of a priority: one of the fields."""

    service_anti_affinity: ServiceAntiAffinityArgs | None = None
    label_preference: NodeLabelArgs | None = None
    requested_to_capacity_ratio_arguments: RequestedToCapacityRatioArguments | None = None


class PredicatePolicy(ConfigStruct, frozen=True):
    """A predicate, which may have a name of the user's own if it has an argument."""

    name: str = ""
    argument: PredicateArgument | None = None


class PriorityPolicy(ConfigStruct, frozen=True):
    """A priority, which may have a name of the user's own if it has an argument."""

    name: str = ""
    weight: Int64 = 0
    argument: PriorityArgument | None = None


class Policy(ConfigStruct, frozen=True):
    """A policy. Predicates or priorities that are None come from DefaultProvider."""

    predicates: tuple[PredicatePolicy, ...] | None = None
    priorities: tuple[PriorityPolicy, ...] | None = None
    extenders: tuple[Extender, ...] = ()
    hard_pod_affinity_symmetric_weight: Int64 = 0
    always_check_all_predicates: bool = False


def load_policy(path: str) -> Policy:
    """Read and check a policy file. Raises `ConfigError`."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(f"missing policy config file {path}") from error
    except OSError as error:
        reason = f"read {path}: {(error.strerror or '').lower()}"
        raise ConfigError(f"couldn't read policy config: {reason}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"invalid policy: {path}: not UTF-8 text") from error
    return read_policy(text)


def policy_of_config_map(data: Mapping[str, str]) -> Policy:
    """Read and check the policy in a ConfigMap's data. Raises `ConfigError`."""
    if CONFIG_MAP_KEY not in data:
        key = quoted(CONFIG_MAP_KEY)
        raise ConfigError(f"missing policy config map value at key {key}")
    return read_policy(data[CONFIG_MAP_KEY])


def read_policy(text: str) -> Policy:
    """Read and check a policy. Raises `ConfigError`."""
    try:
        policy = _decode(parse_document(text).value)
    except ValueError as error:
        raise ConfigError(f"invalid policy: {error}") from error
    if errors := [*_errors(policy)]:
        # v1.13 repeats equal errors.
        listed = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        raise ConfigError(f"couldn't create scheduler from policy: {listed}")
    return policy


def _decode(document: object) -> Policy:
    if not isinstance(document, Mapping):
        raise ConfigError("expected a mapping")
    version, kind = document.get("apiVersion") or "", document.get("kind") or _KIND
    if version not in _VERSIONS or kind != _KIND:
        shown = quoted(str(version))
        raise ConfigError(
            f"no kind {quoted(str(kind))} is registered for version {shown} "
            f"in scheme {quoted(_SCHEME)}"
        )
    extenders = document.get("extenders")
    if isinstance(extenders, list):
        document = {**document, "extenders": [_extender(entry) for entry in extenders]}
    policy, _ = decode(Policy, document)
    return policy


def _extender(entry: object) -> object:
    """Return an extender with today's names of fields, and its timeout, in nanoseconds, as text."""
    named = _with_names_of(Extender, entry)
    if isinstance(named, dict) and isinstance(timeout := named.get("httpTimeout"), int):
        named["httpTimeout"] = f"{timeout}ns"
    return named


def _with_names_of(cls: type[msgspec.Struct], value: object) -> object:
    """Return a JSON value with the fields' names in the case of `cls`, also in nested objects."""
    if isinstance(value, list):
        return [_with_names_of(cls, item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {field.encode_name.lower(): field for field in fields_of(cls)}
    named = {}
    for key, item in value.items():
        if field := fields.get(key.lower()):
            nested = _NESTED.get(field.name)
            named[field.encode_name] = _with_names_of(nested, item) if nested else item
    return named


def _errors(policy: Policy) -> Iterator[str]:
    """Yield all errors. Source: `ValidatePolicy`."""
    for priority in policy.priorities or ():
        if not 0 < priority.weight < _MAX_WEIGHT:
            yield (
                f"Priority {priority.name} should have a positive weight applied to it "
                "or it has overflown"
            )
    binders = 0
    managed: set[str] = set()
    for extender in policy.extenders:
        if extender.prioritize_verb and extender.weight <= 0:
            yield (
                f"Priority for extender {extender.url_prefix} should have a positive weight "
                "applied to it"
            )
        binders += bool(extender.bind_verb)
        for resource in extender.managed_resources:
            yield from _resource_name_errors(resource.name)
            if resource.name in managed:
                yield f"Duplicate extender managed resource name {resource.name}"
            managed.add(resource.name)
    if binders > 1:
        yield f"Only one extender can implement bind, found {binders}"


def _resource_name_errors(name: str) -> tuple[str, ...]:
    if errors := label_key_errors(name):
        return errors
    if is_extended_resource_name(name):
        return ()
    return (f"{name} is an invalid extended resource name",)
