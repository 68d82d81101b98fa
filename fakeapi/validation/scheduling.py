"""Validation of the fields for scheduling: tolerations, taints, affinity, spreading, gates.

Source: pkg/apis/core/validation/validation.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from fakeapi.types import names
from fakeapi.types.errors import FieldError, duplicate, forbidden, invalid, required
from fakeapi.types.gotext import quoted
from fakeapi.types.objects import Json, integer, mapping, mappings, text, texts
from fakeapi.validation.checks import (
    choice_errors,
    each,
    name_errors,
    optional_choice_errors,
    required_choice_errors,
)
from fakeapi.validation.metadata import (
    validate_label_key,
    validate_label_selector,
    validate_requirement,
)

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*").fullmatch
_DIGITS: Final = re.compile(r"[-+]?[0-9]{1,4000}").fullmatch
_NO_INTEGER: Final = "must be a valid decimal integer in canonical form"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_SPREAD_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_SPREAD_POLICIES: Final = ("Honor", "Ignore")


def validate_tolerations(tolerations: list[Json], field: str) -> list[FieldError]:
    """Return the errors of tolerations. The operators of an alpha gate, Gt and Lt, are accepted."""
    return each(tolerations, field, _toleration_errors)


def _toleration_errors(toleration: Json, path: str) -> list[FieldError]:
    key, operator = text(toleration.get("key")), text(toleration.get("operator"))
    value, effect = text(toleration.get("value")), text(toleration.get("effect"))
    errors: list[FieldError] = []
    if key:
        errors += validate_label_key(key, f"{path}.key")
    elif operator != "Exists":
        why = (
            "operator must be Exists when `key` is empty, which means "
            '"match all values and all keys"'
        )
        errors.append(invalid(f"{path}.operator", operator, why))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(f"{path}.effect", effect, why))
    if operator in ("Equal", ""):
        complaints = names.label_value(value)
        if complaints:
            errors.append(invalid(f"{path}.operator", value, ";".join(complaints)))
    elif operator == "Exists":
        if value:
            why = "value must be empty when `operator` is 'Exists'"
            errors.append(invalid(f"{path}.operator", value, why))
    elif operator in ("Lt", "Gt"):
        errors += _integer_errors(value, f"{path}.value")
    else:
        errors += choice_errors(operator, f"{path}.operator", ("Equal", "Exists"))
    return errors + choice_errors(effect, f"{path}.effect", _EFFECTS) if effect else errors


def _integer_errors(value: str, path: str) -> list[FieldError]:
    """Return the errors of a text that must be an integer of 64 bits in its shortest form."""
    errors: list[FieldError] = []
    if not value:
        errors.append(invalid(path, value, "must be non-empty"))
    elif not _INTEGER(value):
        errors.append(invalid(path, value, _NO_INTEGER))
    problem = "value out of range" if _DIGITS(value) else "invalid syntax"
    if not _DIGITS(value) or not -(2**63) <= int(value) < 2**63:
        why = f"strconv.ParseInt: parsing {quoted(value)}: {problem}"
        errors.append(invalid(path, value, why))
    return errors


def validate_taints(taints: list[Json], field: str) -> list[FieldError]:
    """Return the errors of a node's taints; key and effect together are unique."""
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        path = f"{field}[{index}]"
        key, effect, value = (text(taint.get(part)) for part in ("key", "effect", "value"))
        errors += validate_label_key(key, f"{path}.key")
        complaints = names.label_value(value)
        if complaints:
            errors.append(invalid(f"{path}.value", value, ";".join(complaints)))
        errors += required_choice_errors(effect, f"{path}.effect", _EFFECTS)
        if (key, effect) in seen:
            shown = {
                "Key": key,
                "Value": value,
                "Effect": effect,
                "TimeAdded": taint.get("timeAdded"),
            }
            why = "taints must be unique by key and effect pair"
            errors.append(duplicate(path, shown, why))
        seen.add((key, effect))
    return errors


def validate_affinity(affinity: Json, field: str) -> list[FieldError]:
    """Return the errors of node affinity, pod affinity and pod anti-affinity."""
    errors: list[FieldError] = []
    node_affinity = mapping(affinity.get("nodeAffinity"))
    if isinstance(node_affinity.get(_REQUIRED), dict):
        path = f"{field}.nodeAffinity.{_REQUIRED}"
        errors += validate_node_selector(mapping(node_affinity[_REQUIRED]), path)
    preferred, path = mappings(node_affinity.get(_PREFERRED)), f"{field}.nodeAffinity.{_PREFERRED}"
    errors += each(preferred, path, _preferred_node_errors)
    for name in ("podAffinity", "podAntiAffinity"):
        terms, path = mapping(affinity.get(name)), f"{field}.{name}"
        errors += each(mappings(terms.get(_REQUIRED)), f"{path}.{_REQUIRED}", _pod_term_errors)
        preferred = mappings(terms.get(_PREFERRED))
        errors += each(preferred, f"{path}.{_PREFERRED}", _preferred_pod_errors)
    return errors


def _preferred_node_errors(preferred: Json, path: str) -> list[FieldError]:
    term, at = mapping(preferred.get("preference")), f"{path}.preference"
    return _weight_errors(preferred, path) + _node_term_errors(term, at, any_value=True)


def _preferred_pod_errors(preferred: Json, path: str) -> list[FieldError]:
    term, at = mapping(preferred.get("podAffinityTerm")), f"{path}.podAffinityTerm"
    return _weight_errors(preferred, path) + _pod_term_errors(term, at)


def _weight_errors(preferred: Json, path: str) -> list[FieldError]:
    weight = integer(preferred.get("weight"))
    if 1 <= weight <= 100:
        return []
    return [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def validate_node_selector(selector: Json, field: str) -> list[FieldError]:
    """Return the errors of a v1.NodeSelector, which has at least one term."""
    terms = mappings(selector.get("nodeSelectorTerms"))
    path = f"{field}.nodeSelectorTerms"
    if not terms:
        return [required(path, "must have at least one node selector term")]
    return each(terms, path, _node_term_errors)


def _node_term_errors(term: Json, path: str, *, any_value: bool = False) -> list[FieldError]:
    """Return the errors of one term; with `any_value` the values are not checked."""
    check = functools.partial(validate_requirement, compares=True, any_value=any_value)
    errors = each(mappings(term.get("matchExpressions")), f"{path}.matchExpressions", check)
    fields = mappings(term.get("matchFields"))
    return errors + each(fields, f"{path}.matchFields", _node_field_errors)


def _node_field_errors(requirement: Json, path: str) -> list[FieldError]:
    operator, values = text(requirement.get("operator")), texts(requirement.get("values"))
    errors: list[FieldError] = []
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", why))
    key = text(requirement.get("key"))
    if key != "metadata.name":
        errors.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return errors
    check = functools.partial(name_errors, grammar=names.dns_subdomain)
    return errors + each(values, f"{path}.values", check)


def _pod_term_errors(term: Json, path: str) -> list[FieldError]:
    errors = validate_label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    errors += validate_label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in texts(term.get("namespaces")):
        errors += name_errors(name, f"{path}.namespace", names.dns_label)
    errors += _label_keys_errors(term, path)
    key = text(term.get("topologyKey"))
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + validate_label_key(key, f"{path}.topologyKey")


def _label_keys_errors(term: Json, path: str) -> list[FieldError]:
    """Return the errors of matchLabelKeys and mismatchLabelKeys; the selector is already merged."""
    matched, mismatched = texts(term.get("matchLabelKeys")), texts(term.get("mismatchLabelKeys"))
    if not matched and not mismatched:
        return []
    selector = term.get("labelSelector")
    errors: list[FieldError] = []
    for name, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", mismatched)):
        if keys and not isinstance(selector, dict):
            why = "must not be specified when labelSelector is not set"
            errors.append(forbidden(f"{path}.{name}", why))
        elif keys:
            errors += each(keys, f"{path}.{name}", validate_label_key)
    first = {key: index for index, key in reversed([*enumerate(matched)])}
    mismatching = frozenset(mismatched)
    seen = set(mapping(mapping(selector).get("matchLabels")))
    for expression in mappings(mapping(selector).get("matchExpressions")):
        key = text(expression.get("key"))
        if key in first and key in seen:
            why = "exists in both matchLabelKeys and labelSelector"
            errors.append(invalid(f"{path}[{first[key]}]", key, why))
        seen.add(key)
    for index, key in enumerate(matched):
        if key in mismatching:
            why = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.append(invalid(f"{path}.matchLabelKeys[{index}]", key, why))
    return errors


def validate_topology_spread(constraints: list[Json], field: str) -> list[FieldError]:
    """Return the errors of topology spread constraints; topology key and action are unique."""
    errors: list[FieldError] = []
    last = {_pair(constraint): index for index, constraint in enumerate(constraints)}
    for index, constraint in enumerate(constraints):
        repeats = last[_pair(constraint)] > index
        errors += _constraint_errors(constraint, f"{field}[{index}]", repeats=repeats)
    return errors


def _pair(constraint: Json) -> tuple[str, str]:
    """Return the parts of a topology spread constraint that are unique together."""
    return text(constraint.get("topologyKey")), text(constraint.get("whenUnsatisfiable"))


def _constraint_errors(constraint: Json, path: str, *, repeats: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    skew, action = integer(constraint.get("maxSkew")), text(constraint.get("whenUnsatisfiable"))
    if skew <= 0:
        errors.append(invalid(f"{path}.maxSkew", skew, "must be greater than zero"))
    if not constraint.get("topologyKey"):
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    errors += choice_errors(action, f"{path}.whenUnsatisfiable", _SPREAD_ACTIONS)
    if repeats:
        shown = f"{{{', '.join(_pair(constraint))}}}"
        errors.append(duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", shown))
    if "minDomains" in constraint:
        domains = integer(constraint["minDomains"])
        if domains <= 0:
            errors.append(invalid(f"{path}.minDomains", domains, "must be greater than zero"))
        if action != "DoNotSchedule":
            why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errors.append(invalid(f"{path}.minDomains", domains, why))
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        errors += optional_choice_errors(constraint.get(name), f"{path}.{name}", _SPREAD_POLICIES)
    errors += _label_keys_errors(constraint, path)
    return errors + validate_label_selector(
        constraint.get("labelSelector"), f"{path}.labelSelector"
    )


def validate_gates(gates: list[Json], field: str) -> list[FieldError]:
    """Return the errors of scheduling gates, which have qualified, unique names."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = text(gate.get("name"))
        errors += validate_label_key(name, f"{field}[{index}]")
        if name in seen:
            errors.append(duplicate(f"{field}[{index}]", name))
        seen.add(name)
    return errors
