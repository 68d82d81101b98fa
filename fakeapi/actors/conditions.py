"""Conditions in a status, and what is read from them."""

from __future__ import annotations

from fakeapi.types.objects import Json, mapping, mappings, text

__all__ = ["as_patch", "condition_of", "is_ready", "with_condition"]


def condition_of(obj: Json, kind: str) -> Json:
    """The condition of that type, empty if there is none."""
    conditions = mappings(mapping(obj.get("status")).get("conditions"))
    return next((one for one in conditions if one.get("type") == kind), {})


def is_ready(obj: Json) -> bool:
    """Whether a pod or node says that it is ready."""
    return condition_of(obj, "Ready").get("status") == "True"


def with_condition(conditions: object, condition: Json, now: str) -> list[Json]:
    """The conditions with that one; its transition time moves only if its status does."""
    kept = mappings(conditions)
    for index, present in enumerate(kept):
        if present.get("type") == condition["type"]:
            same = present.get("status") == condition["status"]
            since = text(present.get("lastTransitionTime")) if same else now
            kept[index] = {**condition, "lastTransitionTime": since or now}
            return kept
    return [*kept, {**condition, "lastTransitionTime": now}]


def as_patch(conditions: list[Json], old: object) -> list[Json]:
    """The conditions for a strategic patch: what they say no longer has to be said to go."""
    before = {one.get("type"): one for one in mappings(old)}
    return [
        {**dict.fromkeys(before.get(one.get("type"), {}).keys() - one.keys()), **one}
        for one in conditions
    ]
