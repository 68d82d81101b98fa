"""The reasons in the messages of unschedulable pods."""

from __future__ import annotations

import collections
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEAD: Final = re.compile(r"\d+/\d+ nodes are available: ")
#: Texts of PostFilter plugins; the first is upstream's for pods without claims.
_TAIL: Final = re.compile(r"\.? (no new claims to deallocate)?(, )?(preemption: .*)?$", re.DOTALL)
_COUNT: Final = re.compile(r"(\d+) (.*)", re.DOTALL)


class Reason(NamedTuple):
    """A reason of rejections: the number of pods, and the average number of nodes per pod."""

    reason: str
    pods: int
    nodes_mean: float


def reasons_of(messages: Mapping[str, int]) -> tuple[Reason, ...]:
    """Return the reasons of rejections, the most frequent first; a pod may have several.

    A message has the form `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had ...`; any
    other message is a reason of its own, for no node. `messages` counts the pods' last messages.
    """
    pods: collections.Counter[str] = collections.Counter()
    nodes: collections.Counter[str] = collections.Counter()
    for message, times in messages.items():
        text = _TAIL.sub("", message).rstrip(".")
        head = _HEAD.match(text)
        for part in text[head.end() :].split(", ") if head else [text]:
            counted = _COUNT.fullmatch(part)
            reason = counted[2] if counted and head else part
            pods[reason] += times
            nodes[reason] += times * int(counted[1]) if counted and head else 0
    ordered = sorted(pods, key=lambda reason: (-pods[reason], -nodes[reason], reason))
    return tuple(Reason(reason, pods[reason], nodes[reason] / pods[reason]) for reason in ordered)
