"""Reasons that lie in pod groups: the group, its quorum, room for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .world import Sketch, create, gone, node, patch, pod, reason, remedy

if TYPE_CHECKING:
    import random

    from ..api import Json

_GATES: Final = {"GenericWorkload": True, "GangScheduling": True}
_TRAIN: Final[Json] = {"pod_group": "train"}


def _group(**fields: object) -> Json:
    return {"pod_group": {"name": "train", **fields}}


@reason("GangScheduling", "", _GATES)
def group_is_missing(rng: random.Random) -> Sketch:
    """The pod group does not exist."""
    group = _group(**rng.choice([{}, {"min_count": 1}]))
    return Sketch(
        cluster=[node("a")], waiter=_TRAIN, remedies={"group is added": remedy(create(group))}
    )


@reason("GangScheduling", "", _GATES)
def quorum_is_missing(rng: random.Random) -> Sketch:
    """The group has too few pods."""
    other = pod("other", **_TRAIN)
    gated = pod("other", scheduling_gates=["x.example/y"], **_TRAIN)
    away = pod("other", node="a", **_TRAIN)
    del rng
    return Sketch(
        cluster=[node("a"), _group(min_count=2)],
        waiter=_TRAIN,
        remedies={
            "pod is added": remedy(create(other)),
            "pod that is bound is added": remedy(create(away)),
            "pod loses its gates": remedy(
                create(gated), patch({"pod": "other"}, {"spec": {"schedulingGates": None}})
            ),
        },
    )


@reason("NodeResourcesFit", "", _GATES)
def no_room_for_all(rng: random.Random) -> Sketch:
    """The group fits only once another pod ends."""
    wants: Json = rng.choice([{"cpu": 2}, {"host_ports": [80]}])
    used: Json = {"cpu": 1} if "cpu" in wants else wants
    other = pod("other", **_TRAIN, **({"cpu": 2} if "cpu" in wants else {}))
    return Sketch(
        cluster=[node("a"), pod("used", node="a", **used), _group(min_count=2)],
        before=[create(other)],
        waiter={**_TRAIN, **wants},
        remedies={**gone("used"), "node is added": remedy(create(node("b")))},
    )
