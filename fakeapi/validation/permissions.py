"""Validation of roles and of bindings to them.

Source: pkg/apis/rbac/validation/validation.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types import names
from fakeapi.types.errors import invalid, not_supported, required
from fakeapi.types.objects import Json, mapping, mappings, text
from fakeapi.validation.metadata import validate_label_selector

if TYPE_CHECKING:
    from fakeapi.types.errors import FieldError

__all__ = [
    "validate_binding_update",
    "validate_cluster_role",
    "validate_cluster_role_binding",
    "validate_role",
    "validate_role_binding",
]

_GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")


def validate_role(role: Json) -> list[FieldError]:
    """What is wrong with the rules of a namespace's role."""
    return _rule_errors(role, namespaced=True)


def validate_cluster_role(role: Json) -> list[FieldError]:
    """What is wrong with the rules of a role of the cluster, and with what it is made of."""
    errors = _rule_errors(role, namespaced=False)
    if "aggregationRule" not in role:
        return errors
    field = "aggregationRule.clusterRoleSelectors"
    selectors = mappings(mapping(role["aggregationRule"]).get("clusterRoleSelectors"))
    if not selectors:
        why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.append(required(field, why))
    for index, selector in enumerate(selectors):
        errors += validate_label_selector(selector, f"{field}[{index}]")
    return errors


def _rule_errors(role: Json, *, namespaced: bool) -> list[FieldError]:
    errors = []
    for index, rule in enumerate(mappings(role.get("rules"))):
        field = f"rules[{index}]"
        if not rule.get("verbs"):
            errors.append(required(f"{field}.verbs", "verbs must contain at least one value"))
        urls = rule.get("nonResourceURLs")
        if urls:
            errors += _path_rule_errors(rule, f"{field}.nonResourceURLs", namespaced=namespaced)
            continue
        for name, what in (("apiGroups", "api group"), ("resources", "resource")):
            if not rule.get(name):
                why = f"resource rules must supply at least one {what}"
                errors.append(required(f"{field}.{name}", why))
    return errors


def _path_rule_errors(rule: Json, field: str, *, namespaced: bool) -> list[FieldError]:
    errors, urls = [], rule["nonResourceURLs"]
    if namespaced:
        why = "namespaced rules cannot apply to non-resource URLs"
        errors.append(invalid(field, urls, why))
    if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
        why = "rules cannot apply to both regular resources and non-resource URLs"
        errors.append(invalid(field, urls, why))
    return errors


def validate_role_binding(binding: Json) -> list[FieldError]:
    """What is wrong with a binding in a namespace."""
    return _binding_errors(binding, ("Role", "ClusterRole"), namespaced=True)


def validate_cluster_role_binding(binding: Json) -> list[FieldError]:
    """What is wrong with a binding for the whole cluster."""
    return _binding_errors(binding, ("ClusterRole",), namespaced=False)


def validate_binding_update(binding: Json, old: Json) -> list[FieldError]:
    """A binding is to one role for ever."""
    reference = binding.get("roleRef")
    if reference == old.get("roleRef"):
        return []
    return [invalid("roleRef", reference, "cannot change roleRef")]


def _binding_errors(binding: Json, kinds: tuple[str, ...], *, namespaced: bool) -> list[FieldError]:
    reference = mapping(binding.get("roleRef"))
    group, kind, name = (text(reference.get(part)) for part in ("apiGroup", "kind", "name"))
    errors = []
    if group != _GROUP:
        errors.append(not_supported("roleRef.apiGroup", group, [_GROUP]))
    if kind not in kinds:
        errors.append(not_supported("roleRef.kind", kind, kinds))
    if not name:
        errors.append(required("roleRef.name"))
    else:
        errors += [invalid("roleRef.name", name, why) for why in names.path_segment(name)]
    for index, subject in enumerate(mappings(binding.get("subjects"))):
        errors += _subject_errors(subject, f"subjects[{index}]", namespaced=namespaced)
    return errors


def _subject_errors(subject: Json, field: str, *, namespaced: bool) -> list[FieldError]:
    kind, name, group = (text(subject.get(part)) for part in ("kind", "name", "apiGroup"))
    errors = [] if name else [required(f"{field}.name")]
    if kind not in _SUBJECTS:
        return [*errors, not_supported(f"{field}.kind", kind, _SUBJECTS)]
    expected = "" if kind == "ServiceAccount" else _GROUP
    if kind == "ServiceAccount" and name:
        errors += [invalid(f"{field}.name", name, why) for why in names.dns_subdomain(name)]
    if group != expected:
        errors.append(not_supported(f"{field}.apiGroup", group, [expected]))
    if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
        errors.append(required(f"{field}.namespace"))
    return errors
