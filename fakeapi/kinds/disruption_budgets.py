"""PodDisruptionBudgets.

Source: pkg/apis/policy/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, Column, or_else
from fakeapi.types.errors import FieldError, invalid
from fakeapi.types.kind import Generation, Kind, KindRules, UpdateRules
from fakeapi.types.objects import Json, mapping
from fakeapi.validation.checks import number_errors, optional_choice_errors, share_errors
from fakeapi.validation.metadata import validate_label_selector

_EVICTION_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_BUDGET_NUMBERS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
#: The fields of the spec in Go, in their order.
_SHOWN: Final = {
    "MinAvailable": "minAvailable",
    "Selector": "selector",
    "MaxUnavailable": "maxUnavailable",
    "UnhealthyPodEvictionPolicy": "unhealthyPodEvictionPolicy",
}


def _validate(budget: Json) -> list[FieldError]:
    spec = mapping(budget.get("spec"))
    errors: list[FieldError] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        why = "minAvailable and maxUnavailable cannot be both set"
        shown = {go_name: spec.get(name) for go_name, name in _SHOWN.items()}
        errors.append(invalid("spec", shown, why))
    for name in ("minAvailable", "maxUnavailable"):
        if name in spec:
            errors += share_errors(spec[name], f"spec.{name}")
    errors += validate_label_selector(spec.get("selector"), "spec.selector")
    policy, field = spec.get("unhealthyPodEvictionPolicy"), "spec.unhealthyPodEvictionPolicy"
    return errors + optional_choice_errors(policy, field, _EVICTION_POLICIES)


def _validate_status(new: Json, old: Json) -> list[FieldError]:
    return number_errors(mapping(new.get("status")), "status", _BUDGET_NUMBERS)


KINDS: Final = (
    Kind(
        "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",),
        schema="policy/v1.PodDisruptionBudget", subresources=("status",),
        generation=Generation.SPEC, unconditional_update=False,
        columns=(
            NAME, Column("Min Available", ".spec.minAvailable", or_else("N/A")),
            Column("Max Unavailable", ".spec.maxUnavailable", or_else("N/A")),
            Column("Allowed Disruptions", ".status.disruptionsAllowed", type="integer"), AGE,
        ),
        rules=KindRules(
            checks_metadata_once=True, validate=_validate,
            subresources={"status": UpdateRules(validate=_validate_status)},
        ),
    ),
)  # fmt: skip
