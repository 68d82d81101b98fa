"""Which taints a pod bears, and for how long. Source: component-helpers scheduling/corev1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.actors.objects import spec_of
from fakeapi.types.objects import Json, mappings, text

if TYPE_CHECKING:
    from collections.abc import Iterable


def taints_of(node: Json, *effects: str) -> list[Json]:
    """The node's taints with one of these effects."""
    taints = mappings(spec_of(node).get("taints"))
    return [taint for taint in taints if taint.get("effect") in effects]


def tolerates(toleration: Json, taint: Json) -> bool:
    """Whether a toleration is for that taint."""
    if toleration.get("effect") and toleration.get("effect") != taint.get("effect"):
        return False
    if toleration.get("key") and toleration.get("key") != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    if toleration.get("operator") not in (None, "", "Equal") or not toleration.get("key"):
        return False
    return text(toleration.get("value")) == text(taint.get("value"))


def patience_seconds(tolerations: Iterable[Json], taints: Iterable[Json]) -> int | None:
    """How long a pod bears these taints: 0 is not at all, None is forever."""
    tolerations = list(tolerations)
    limits: list[int] = []
    for taint in taints:
        used = next((one for one in tolerations if tolerates(one, taint)), None)
        if used is None:
            return 0
        seconds = used.get("tolerationSeconds")
        if isinstance(seconds, int):
            limits.append(max(seconds, 0))
    return min(limits, default=None)
