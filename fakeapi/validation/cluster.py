"""Validation of nodes, priority classes, leases, events and the plain kinds around them.

Source: pkg/apis/{core,scheduling,coordination,node}/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types import names
from fakeapi.types.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from fakeapi.types.objects import Json, integer, mapping, mappings, name_of, namespace_of, text
from fakeapi.validation.metadata import IMMUTABLE, validate_label_key, validate_labels
from fakeapi.validation.numbers import NOT_NEGATIVE
from fakeapi.validation.resources import (
    validate_amounts,
    validate_overhead,
    validate_resource_name,
)
from fakeapi.validation.scheduling import validate_taints, validate_tolerations

_SYSTEM_PREFIX: Final = "system-"
_USER_PRIORITY_MAX: Final = 1_000_000_000
#: Name -> value of the classes whose names begin with system-.
SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_CONFIG_BYTES_MAX: Final = 1024 * 1024
_REASON_MAX, _ACTION_MAX, _INSTANCE_MAX, _NOTE_MAX = 128, 128, 128, 1024
_LIMIT_TYPES: Final = ("Container", "PersistentVolumeClaim", "Pod")
_EVENT_FIXED: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count",
    "type", "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip


def validate_node(node: Json) -> list[FieldError]:
    """A node's taints and the amounts in its status."""
    spec, status = mapping(node.get("spec")), mapping(node.get("status"))
    errors = validate_taints(mappings(spec.get("taints")), "metadata.taints")
    errors += validate_amounts(status.get("capacity"), "status.capacity")
    return errors + validate_amounts(status.get("allocatable"), "status.allocatable")


def validate_node_update(node: Json, old_node: Json) -> list[FieldError]:
    """What of a node is set once and for all."""
    spec, old = mapping(node.get("spec")), mapping(old_node.get("spec"))
    errors = []
    if old.get("podCIDRs") and spec.get("podCIDRs") != old.get("podCIDRs"):
        why = 'node updates may not change podCIDR except from "" to valid'
        errors.append(forbidden("spec.podCIDRs", why))
    if old.get("providerID") and spec.get("providerID") != old.get("providerID"):
        why = 'node updates may not change providerID except from "" to valid'
        errors.append(forbidden("spec.providerID", why))
    return errors


def validate_priority_class(priority_class: Json) -> list[FieldError]:
    """Names that begin with system- and very high values are the system's own."""
    name, value = name_of(priority_class), integer(priority_class.get("value"))
    errors = []
    if name.startswith(_SYSTEM_PREFIX):
        if SYSTEM_PRIORITIES.get(name) != value or priority_class.get("globalDefault"):
            why = (
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class"
            )
            errors.append(forbidden("metadata.name", why))
    elif value > _USER_PRIORITY_MAX:
        why = f"maximum allowed value of a user defined priority is {_USER_PRIORITY_MAX}"
        errors.append(forbidden("value", why))
    policy = text(priority_class.get("preemptionPolicy"))
    if policy not in _PREEMPTION_POLICIES:
        errors.append(not_supported("preemptionPolicy", policy, _PREEMPTION_POLICIES))
    return errors


def validate_priority_class_update(new: Json, old: Json) -> list[FieldError]:
    """Value and preemption policy are fixed."""
    errors = []
    if new.get("value") != old.get("value"):
        errors.append(forbidden("value", "may not be changed in an update."))
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        errors.append(invalid("preemptionPolicy", new.get("preemptionPolicy"), IMMUTABLE))
    return errors


def validate_lease(lease: Json) -> list[FieldError]:
    """A lease's numbers."""
    spec = mapping(lease.get("spec"))
    errors = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if isinstance(duration, int) and duration <= 0:
        why = "must be greater than 0"
        errors.append(invalid("spec.leaseDurationSeconds", duration, why))
    if isinstance(transitions, int) and transitions < 0:
        why = NOT_NEGATIVE
        errors.append(invalid("spec.leaseTransitions", transitions, why))
    if spec.get("preferredHolder") and not spec.get("strategy"):
        why = "may only be specified if `strategy` is defined"
        errors.append(forbidden("spec.preferredHolder", why))
    return errors


def validate_core_event(event: Json) -> list[FieldError]:
    """An event written through core/v1."""
    return _event_errors(event, "reportingComponent")


def validate_event(event: Json) -> list[FieldError]:
    """An event written through events.k8s.io/v1 (in stored form)."""
    errors = _event_errors(event, "reportingController")
    errors += _series_errors(event)
    if not event.get("eventTime"):
        errors.append(required("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {text(event.get('type'))}"))
    for field in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if event.get(field):
            errors.append(invalid(field, "", "needs to be unset"))
    return errors


def validate_event_update(event: Json, old: Json) -> list[FieldError]:
    """Through events.k8s.io/v1 only the series of an event moves."""
    errors = []
    for field in _EVENT_FIXED:
        if event.get(field) != old.get(field):
            shown = "reportingController" if field == "reportingComponent" else field
            errors.append(invalid(shown, event.get(field), IMMUTABLE))
    return errors


def _series_errors(event: Json) -> list[FieldError]:
    series = event.get("series")
    if not isinstance(series, dict):
        return []
    errors = []
    if integer(series.get("count")) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


def _event_errors(event: Json, controller_field: str) -> list[FieldError]:
    namespace = namespace_of(event)
    about = text(mapping(event.get("involvedObject")).get("namespace"))
    mismatch = invalid("involvedObject.namespace", about, "does not match event.namespace")
    if not event.get("eventTime"):
        wrong = namespace != about if about else namespace not in ("", "default")
        return [mismatch] if wrong else []
    errors = []
    if not about and namespace not in ("default", "kube-system"):
        errors.append(mismatch)
    controller = text(event.get("reportingComponent"))
    if not controller:
        errors.append(required(controller_field))
    errors += validate_label_key(controller, controller_field)
    for field, limit in (
        ("reportingInstance", _INSTANCE_MAX),
        ("action", _ACTION_MAX),
        ("reason", _REASON_MAX),
    ):
        value = text(event.get(field))
        if not value:
            errors.append(required(field))
        if len(value) > limit:
            errors.append(invalid(field, "", f"can have at most {limit} characters"))
    if len(text(event.get("message")).encode()) > _NOTE_MAX:
        errors.append(invalid("message", "", f"can have at most {_NOTE_MAX} characters"))
    return errors


def validate_config_map(config_map: Json) -> list[FieldError]:
    """Keys and total size of a ConfigMap or Secret."""
    errors: list[FieldError] = []
    size = 0
    for bag in ("data", "binaryData"):
        for key, value in mapping(config_map.get(bag)).items():
            if (
                not key
                or len(key) > 253
                or not key.replace("-", "a").replace("_", "a").replace(".", "a").isalnum()
            ):
                why = (
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
                    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation "
                    "is '[-._a-zA-Z0-9]+')"
                )
                errors.append(invalid(f"{bag}[{key}]", key, why))
            size += len(text(value).encode())
    if size > _CONFIG_BYTES_MAX:
        errors.append(too_long("", _CONFIG_BYTES_MAX))
    return errors


def validate_config_map_update(new: Json, old: Json) -> list[FieldError]:
    """An immutable ConfigMap or Secret stays as it is."""
    if not old.get("immutable"):
        return []
    why = "field is immutable when `immutable` is set"
    fields = ("immutable", "data", "binaryData")
    return [forbidden(field, why) for field in fields if new.get(field) != old.get(field)]


def validate_limit_range(limit_range: Json) -> list[FieldError]:
    """Types and resource names of a LimitRange; each type occurs once."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, item in enumerate(mappings(mapping(limit_range.get("spec")).get("limits"))):
        path = f"spec.limits[{index}]"
        limit_type = text(item.get("type"))
        if limit_type not in _LIMIT_TYPES:
            errors += validate_label_key(limit_type, f"{path}.type")
        if limit_type in seen:
            errors.append(duplicate(f"{path}.type", limit_type))
        seen.add(limit_type)
        for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            for name in mapping(item.get(field)):
                errors += validate_resource_name(name, f"{path}.{field}[{name}]")
    return errors


def validate_runtime_class(runtime_class: Json) -> list[FieldError]:
    """Handler, overhead and scheduling of a RuntimeClass."""
    handler = text(runtime_class.get("handler"))
    if not handler:
        errors = [required("handler")]
    else:
        errors = [invalid("handler", handler, why) for why in names.dns_label(handler)]
    overhead = mapping(runtime_class.get("overhead")).get("podFixed")
    errors += validate_overhead(overhead, "overhead.podFixed")
    scheduling = mapping(runtime_class.get("scheduling"))
    errors += validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    tolerations = mappings(scheduling.get("tolerations"))
    return errors + validate_tolerations(tolerations, "scheduling.tolerations")


def validate_runtime_class_update(new: Json, old: Json) -> list[FieldError]:
    """The handler is fixed."""
    if new.get("handler") == old.get("handler"):
        return []
    return [invalid("handler", new.get("handler"), IMMUTABLE)]
