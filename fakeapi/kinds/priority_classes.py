"""PriorityClasses.

Source: pkg/apis/scheduling/{v1,validation} and pkg/registry/scheduling of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, Column
from fakeapi.types.errors import FieldError, forbidden
from fakeapi.types.kind import Generation, Kind, KindRules
from fakeapi.types.objects import Json, integer, name_of, set_defaults, text
from fakeapi.validation.checks import choice_errors, fixed
from fakeapi.validation.pods import PREEMPTION_POLICIES

_SYSTEM_PREFIX: Final = "system-"
_USER_PRIORITY_MAX: Final = 1_000_000_000
#: Name -> value of the system's classes.
SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


def _set_defaults(priority_class: Json) -> None:
    set_defaults(priority_class, preemptionPolicy="PreemptLowerPriority")


def _validate(priority_class: Json) -> list[FieldError]:
    """Refuse names with system- and values above a billion, which only the system may have."""
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
    return errors + choice_errors(policy, "preemptionPolicy", PREEMPTION_POLICIES)


def _validate_update(new: Json, old: Json) -> list[FieldError]:
    errors = []
    if new.get("value") != old.get("value"):
        errors.append(forbidden("value", "may not be changed in an update."))
    return errors + fixed("preemptionPolicy")(new, old)


def _deletion_problem(name: str) -> str:
    is_system = name in SYSTEM_PRIORITIES
    return "this is a system priority class and cannot be deleted" if is_system else ""


KINDS: Final = (
    Kind(
        "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False,
        schema="scheduling/v1.PriorityClass", short_names=("pc",),
        generation=Generation.ON_CREATE,
        columns=(
            NAME, Column("Value", ".value", type="integer"),
            Column("Global-Default", ".globalDefault", type="boolean"), AGE,
            Column("PreemptionPolicy", ".preemptionPolicy"),
        ),
        rules=KindRules(
            set_defaults=_set_defaults, validate=_validate, validate_update=_validate_update,
            deletion_problem=_deletion_problem,
        ),
    ),
)  # fmt: skip
