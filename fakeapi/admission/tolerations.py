"""Sets of tolerations in which one may include another.

Source: pkg/util/tolerations/tolerations.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fakeapi.types.objects import Json


def merged_tolerations(tolerations: list[Json]) -> list[Json]:
    """The tolerations without those that another one includes; of equal ones the first stays."""
    merged: list[Json] = []
    for index, toleration in enumerate(tolerations):
        later = tolerations[index + 1 :]
        if not any(includes(other, toleration) for other in merged) and not any(
            other != toleration and includes(other, toleration) for other in later
        ):
            merged.append(toleration)
    return merged


def includes(wide: Json, narrow: Json) -> bool:
    """Whether whatever the narrow toleration tolerates, the wide one does too."""
    if wide == narrow:
        return True
    key, operator = wide.get("key", ""), wide.get("operator", "")
    if narrow.get("key", "") != key and (key or operator != "Exists"):
        return False
    if narrow.get("effect", "") != wide.get("effect", "") and wide.get("effect"):
        return False
    if wide.get("effect") == "NoExecute" and "tolerationSeconds" in wide:
        seconds = narrow.get("tolerationSeconds")
        if not isinstance(seconds, int) or seconds > int(str(wide["tolerationSeconds"])):
            return False
    if operator == "Exists":
        return True
    return (
        operator in ("", "Equal")
        and narrow.get("operator") == "Equal"
        and narrow.get("value", "") == wide.get("value", "")
    )
