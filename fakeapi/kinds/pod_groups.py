"""PodGroups and Workloads: gangs of pods (alpha).

The alpha fields are served with the version, as by a kube-apiserver with the gates
TopologyAwareWorkloadScheduling, WorkloadAwarePreemption and DRAWorkloadResourceClaims.

Source: pkg/apis/scheduling/v1alpha2 (`zz_generated.validations.go`, `zz_generated.defaults.go`),
pkg/apis/scheduling/validation and pkg/registry/scheduling of Kubernetes v1.36.3.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from fakeapi.types import names
from fakeapi.types.columns import (
    AGE,
    NAME,
    NAME_AND_AGE,
    NONE,
    Column,
    find,
    find_mappings,
    find_text,
)
from fakeapi.types.errors import (
    FieldError,
    duplicate,
    invalid,
    required,
    too_long,
    too_many,
)
from fakeapi.types.kind import CLIENT_METADATA, Kind, KindRules, UpdateRules
from fakeapi.types.objects import Json, child, integer, mapping, mappings, set_defaults, text
from fakeapi.validation.checks import (
    IMMUTABLE,
    choice_errors,
    each,
    fixed,
    name_errors,
    optional_choice_errors,
    optional_name_errors,
    required_name_errors,
)
from fakeapi.validation.metadata import validate_label_key

if TYPE_CHECKING:
    from collections.abc import Callable

    Grammar = Callable[[str], tuple[str, ...]]

_DISRUPTION_MODES: Final = ("Pod", "PodGroup")
_PRIORITY_MAX: Final = 1_000_000_000
_CLAIMS_MAX: Final = 4
_TEMPLATES_MAX: Final = 8
_TOPOLOGIES_MAX: Final = 1
_AT_LEAST_ONE: Final = "must be greater than or equal to 1"
_STATUSES: Final = ("False", "True", "Unknown")
_REASON_MAX: Final = 1024
_MESSAGE_MAX: Final = 32 * 1024
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_match_reason = re.compile(_REASON).fullmatch
_REASON_RULE: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. "
    "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex "
    f"used for validation is '{_REASON}')"
)


def _set_defaults(pod_group: Json) -> None:
    set_defaults(child(pod_group, "spec"), disruptionMode="Pod")


def _validate(pod_group: Json) -> list[FieldError]:
    spec = mapping(pod_group.get("spec"))
    errors: list[FieldError] = []
    if spec.get("podGroupTemplateRef") is not None:
        errors += _reference_errors(
            mapping(spec["podGroupTemplateRef"]), "spec.podGroupTemplateRef"
        )
    return errors + _group_errors(spec, "spec")


def _validate_update(new: Json, old: Json) -> list[FieldError]:
    """Return the errors of a changed spec: all its fields are immutable."""
    spec, old_spec = mapping(new.get("spec")), mapping(old.get("spec"))
    fields = (
        "controllerRef", "podGroupTemplates", "podGroupTemplateRef", "schedulingPolicy",
        "schedulingConstraints", "resourceClaims", "disruptionMode", "priorityClassName",
        "priority",
    )  # fmt: skip
    return [
        invalid(f"spec.{name}", None, IMMUTABLE)
        for name in fields
        if spec.get(name) != old_spec.get(name)
    ]


def _validate_workload(workload: Json) -> list[FieldError]:
    spec = mapping(workload.get("spec"))
    errors: list[FieldError] = []
    if spec.get("controllerRef") is not None:
        owner, field = mapping(spec["controllerRef"]), "spec.controllerRef"
        group = text(owner.get("apiGroup"))
        errors += optional_name_errors(group, f"{field}.apiGroup", names.dns_subdomain)
        for name in ("kind", "name"):
            value = text(owner.get(name))
            errors += required_name_errors(value, f"{field}.{name}", names.path_segment)
    templates, field = mappings(spec.get("podGroupTemplates")), "spec.podGroupTemplates"
    if not templates:
        return [*errors, required(field)]
    if len(templates) > _TEMPLATES_MAX:
        return [*errors, too_many(field, len(templates), _TEMPLATES_MAX)]
    return errors + _duplicates(templates, field) + each(templates, field, _template_errors)


def _template_errors(template: Json, field: str) -> list[FieldError]:
    name = text(template.get("name"))
    errors = required_name_errors(name, f"{field}.name", names.dns_label)
    return errors + _group_errors(template, field)


def _validate_workload_of_1_35(workload: Json) -> list[FieldError]:
    groups, field = mappings(mapping(workload.get("spec")).get("podGroups")), "spec.podGroups"
    if not groups:
        return [required(field)]
    return _duplicates(groups, field) + each(groups, field, _group_errors_of_1_35)


def _group_errors_of_1_35(group: Json, field: str) -> list[FieldError]:
    errors = required_name_errors(text(group.get("name")), f"{field}.name", names.dns_label)
    policy = mapping(group.get("policy"))
    count = integer(mapping(policy.get("gang")).get("minCount"))
    if len({"basic", "gang"} & policy.keys()) != 1:
        why = "must specify exactly one of: `basic`, `gang`"
        errors.append(invalid(f"{field}.policy", "", why))
    elif "gang" in policy and count < 1:
        errors.append(invalid(f"{field}.policy.gang.minCount", count, _AT_LEAST_ONE))
    return errors


def _reference_errors(reference: Json, field: str) -> list[FieldError]:
    errors = _union_errors(reference, field, "workload")
    if errors:
        return errors
    workload, path = mapping(reference["workload"]), f"{field}.workload"
    name, template = text(workload.get("workloadName")), text(workload.get("podGroupTemplateName"))
    return [
        *required_name_errors(name, f"{path}.workloadName", names.dns_subdomain),
        *required_name_errors(template, f"{path}.podGroupTemplateName", names.dns_label),
    ]


def _union_errors(value: Json, field: str, *members: str) -> list[FieldError]:
    """Return the error of a value that has not exactly one of these fields."""
    present = [name for name in members if value.get(name) is not None]
    listed = ", ".join(f"`{name}`" for name in members)
    if not present:
        return [invalid(field, "", f"must specify one of: {listed}")]
    if len(present) > 1:
        shown = f"{{{', '.join(present)}}}"
        return [invalid(field, shown, f"must specify exactly one of: {listed}")]
    return []


def _group_errors(spec: Json, field: str) -> list[FieldError]:
    """Return the errors of the fields that PodGroups and their templates share."""
    errors = _policy_errors(mapping(spec.get("schedulingPolicy")), f"{field}.schedulingPolicy")
    constraints = mapping(spec.get("schedulingConstraints"))
    errors += _topology_errors(
        mappings(constraints.get("topology")), f"{field}.schedulingConstraints.topology"
    )
    errors += _claims_errors(mappings(spec.get("resourceClaims")), f"{field}.resourceClaims")
    mode, class_name = spec.get("disruptionMode"), text(spec.get("priorityClassName"))
    errors += optional_choice_errors(mode, f"{field}.disruptionMode", _DISRUPTION_MODES)
    errors += optional_name_errors(class_name, f"{field}.priorityClassName", names.dns_subdomain)
    if integer(spec.get("priority")) > _PRIORITY_MAX:
        why = f"must be less than or equal to {_PRIORITY_MAX}"
        errors.append(invalid(f"{field}.priority", spec.get("priority"), why))
    return errors


def _policy_errors(policy: Json, field: str) -> list[FieldError]:
    errors = _union_errors(policy, field, "basic", "gang")
    gang = policy.get("gang")
    if gang is None:
        return errors
    count, path = integer(mapping(gang).get("minCount")), f"{field}.gang.minCount"
    if not count:
        return [*errors, required(path)]
    if count < 1:
        return [*errors, invalid(path, count, _AT_LEAST_ONE)]
    return errors


def _topology_errors(constraints: list[Json], field: str) -> list[FieldError]:
    if len(constraints) > _TOPOLOGIES_MAX:
        return [too_many(field, len(constraints), _TOPOLOGIES_MAX)]
    errors: list[FieldError] = []
    for index, constraint in enumerate(constraints):
        key, path = text(constraint.get("key")), f"{field}[{index}].key"
        errors += validate_label_key(key, path) if key else [required(path)]
    return errors


def _claims_errors(claims: list[Json], field: str) -> list[FieldError]:
    if len(claims) > _CLAIMS_MAX:
        return [too_many(field, len(claims), _CLAIMS_MAX)]
    errors = _duplicates(claims, field)
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    for index, claim in enumerate(claims):
        path = f"{field}[{index}]"
        errors += _union_errors(claim, path, *sources)
        errors += required_name_errors(text(claim.get("name")), f"{path}.name", names.dns_label)
        for name in sources:
            errors += _claim_name_errors(claim, path, name)
    return errors


def _claim_name_errors(claim: Json, field: str, name: str) -> list[FieldError]:
    if claim.get(name) is None:
        return []
    return name_errors(text(claim[name]), f"{field}.{name}", names.dns_subdomain)


def _duplicates(items: list[Json], field: str) -> list[FieldError]:
    """Return the errors of items whose name an earlier item has."""
    seen: set[str] = set()
    errors = []
    for index, item in enumerate(items):
        name = text(item.get("name"))
        if name in seen:
            errors.append(duplicate(f"{field}[{index}]", item))
        seen.add(name)
    return errors


def _validate_status(new: Json, old: Json) -> list[FieldError]:
    """Return the errors of the conditions, and of claims that the spec does not have."""
    status = mapping(new.get("status"))
    errors: list[FieldError] = []
    types: set[str] = set()
    for index, condition in enumerate(mappings(status.get("conditions"))):
        path, kind = f"status.conditions[{index}]", text(condition.get("type"))
        if kind in types:
            errors.append(duplicate(f"{path}.type", kind))
        types.add(kind)
        errors += validate_condition(condition, path)
    claims = mappings(mapping(new.get("spec")).get("resourceClaims"))
    names = {text(claim.get("name")) for claim in claims}
    statuses, field = mappings(status.get("resourceClaimStatuses")), "status.resourceClaimStatuses"
    for index, claim in enumerate(statuses):
        name = text(claim.get("name"))
        if name not in names:
            why = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(f"{field}[{index}].name", name, why))
    if len(statuses) > _CLAIMS_MAX:
        return [*errors, too_many(field, len(statuses), _CLAIMS_MAX)]
    errors += _duplicates(statuses, field)
    for index, claim in enumerate(statuses):
        errors += _claim_name_errors(claim, f"{field}[{index}]", "resourceClaimName")
    return errors


def validate_condition(condition: Json, field: str) -> list[FieldError]:
    """Return the errors of a metav1.Condition. Source: ValidateCondition of apimachinery."""
    errors = validate_label_key(text(condition.get("type")), f"{field}.type")
    status, reason = text(condition.get("status")), text(condition.get("reason"))
    errors += choice_errors(status, f"{field}.status", _STATUSES)
    generation = integer(condition.get("observedGeneration"))
    if generation < 0:
        why = "must be greater than or equal to zero"
        errors.append(invalid(f"{field}.observedGeneration", generation, why))
    if not condition.get("lastTransitionTime"):
        errors.append(required(f"{field}.lastTransitionTime"))
    if not reason:
        errors.append(required(f"{field}.reason"))
    elif not _match_reason(reason):
        errors.append(invalid(f"{field}.reason", reason, _REASON_RULE))
    if len(reason.encode()) > _REASON_MAX:
        errors.append(too_long(f"{field}.reason", _REASON_MAX))
    if len(text(condition.get("message")).encode()) > _MESSAGE_MAX:
        errors.append(too_long(f"{field}.message", _MESSAGE_MAX))
    return errors


def _pod_group_policy(pod_group: Json, _now_seconds: float) -> str:
    return "Basic" if find(pod_group, ".spec.schedulingPolicy.gang") is None else "Gang"


def _pod_group_status(pod_group: Json, _now_seconds: float) -> str:
    conditions = {text(c.get("type")): c for c in find_mappings(pod_group, ".status.conditions")}
    if (disrupted := conditions.get("DisruptionTarget")) is not None:
        return text(disrupted.get("reason"))
    if (scheduled := conditions.get("PodGroupScheduled")) is not None:
        return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
    return "Pending"


def _workload_name(reference: object) -> str:
    return find_text(mapping(reference), ".workload.workloadName") if reference else NONE


KINDS: Final = (
    Kind(
        "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup",
        schema="scheduling/v1alpha2.PodGroup", subresources=("status",),
        columns=(
            NAME, Column("Policy", _pod_group_policy),
            Column("Workload", ".spec.podGroupTemplateRef", _workload_name),
            Column("Status", _pod_group_status), AGE,
        ),
        status_keeps=CLIENT_METADATA,
        rules=KindRules(
            set_defaults=_set_defaults, validate_create=_validate,
            validate_update=_validate_update,
            subresources={"status": UpdateRules(validate=_validate_status)},
        ),
    ),
    Kind(
        "scheduling.k8s.io", "v1alpha2", "workloads", "Workload",
        schema="scheduling/v1alpha2.Workload",
        columns=NAME_AND_AGE,
        rules=KindRules(validate_create=_validate_workload, validate_update=_validate_update),
    ),
)  # fmt: skip

#: The version that kube-scheduler 1.35 reads: a Workload has its groups within it.
KINDS_OF_1_35: Final = (
    Kind(
        "scheduling.k8s.io", "v1alpha1", "workloads", "Workload",
        schema="scheduling/v1alpha1.Workload",
        columns=NAME_AND_AGE,
        stored_as=("scheduling.k8s.io", "workloads.v1alpha1"),
        rules=KindRules(validate_create=_validate_workload_of_1_35, validate_update=fixed("spec")),
    ),
)  # fmt: skip
