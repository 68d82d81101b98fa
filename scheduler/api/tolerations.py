"""Taints and tolerations: the scalar rule, written once.

Source: `k8s.io/api/core/v1/toleration.go`, component-helpers `scheduling/corev1/helpers.go`.
The numeric operators `Lt` and `Gt` (gate TaintTolerationComparisonOperators, off by default in
v1.36) tolerate nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.api.core import Taint, Toleration

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"

#: The effects that keep a pod off a node; the third effect is only a preference.
HARD_EFFECTS: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return True if the toleration covers the taint; an empty effect or key covers any."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return True if any of the tolerations covers the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def taint_text(taint: Taint) -> str:
    """Format a taint as kubectl does: `key=value:Effect`, or `key:Effect`."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def find_untolerated_taint(
    taints: Iterable[Taint], tolerations: Iterable[Toleration], effects: frozenset[str]
) -> Taint | None:
    """Return the first taint with one of these effects that no toleration covers, or None."""
    for taint in taints:
        if taint.effect in effects and not is_tolerated(taint, tolerations):
            return taint
    return None
