"""Taints and tolerations: the scalar rule, written once.

Source: `k8s.io/api/core/v1/toleration.go`, component-helpers `scheduling/corev1/helpers.go`.
The operators `Lt` and `Gt` need the gate TaintTolerationComparisonOperators.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from scheduler.api.core import Taint, Toleration

#: The rule by which a toleration covers a taint.
Tolerates: TypeAlias = "Callable[[Toleration, Taint], bool]"

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"

#: The effects that keep a pod off a node; the third effect is only a preference.
HARD_EFFECTS: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})

_COMPARISON_OPERATORS: Final = "TaintTolerationComparisonOperators"
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT64: Final = range(-(2**63), 2**63)


def toleration_rule(gates: Container[str]) -> Tolerates:
    """Return the rule with these feature gates."""
    return tolerates_or_compares if _COMPARISON_OPERATORS in gates else tolerates


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return True if the toleration covers the taint; an empty effect or key covers any."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerates_or_compares(toleration: Toleration, taint: Taint) -> bool:
    """Return True if `tolerates` is, or if the taint's value is less or greater as demanded.

    Both values must be integers of 64 bits in their shortest form.
    """
    if toleration.operator not in ("Lt", "Gt"):
        return tolerates(toleration, taint)
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    limit, value = _integer(toleration.value), _integer(taint.value)
    if limit is None or value is None:
        return False
    return value < limit if toleration.operator == "Lt" else value > limit


def _integer(text: str) -> int | None:
    """Return the value of an integer; None if it is longer than necessary or has over 64 bits."""
    value = int(text) if _INTEGER.fullmatch(text) else None
    return value if value is not None and value in _INT64 else None


def is_tolerated(
    taint: Taint, tolerations: Iterable[Toleration], rule: Tolerates = tolerates
) -> bool:
    """Return True if any of the tolerations covers the taint."""
    return any(rule(toleration, taint) for toleration in tolerations)


def taint_text(taint: Taint) -> str:
    """Format a taint as kubectl does: `key=value:Effect`, or `key:Effect`."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def find_untolerated_taint(
    taints: Iterable[Taint],
    tolerations: Iterable[Toleration],
    effects: frozenset[str],
    rule: Tolerates = tolerates,
) -> Taint | None:
    """Return the first taint with one of these effects that no toleration covers, or None."""
    for taint in taints:
        if taint.effect in effects and not is_tolerated(taint, tolerations, rule):
            return taint
    return None
