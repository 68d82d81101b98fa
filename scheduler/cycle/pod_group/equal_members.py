"""Finds out if the members of a group need only be counted, and not be searched a node for.

That is so if they are equal, and if each plugin has skipped them or only takes room
(`Plugin.only_takes_room`). Wherever one of them is placed, it then takes its place from no other
node: as many fit as all nodes have room for, in any order. Preemption counts them instead of
searching for each victim, the search for a group in placements that may not be chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.framework.types import EqualMembers, FitError
from scheduler.snapshot.claims_and_disks import NO_VOLUMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.cycle.attempt import CycleParts
    from scheduler.cycle.pod_group.results import MemberResult, PodGroupAttempt, PodGroupResult
    from scheduler.framework.interface import Plugin
    from scheduler.runtime.framework import Framework
    from scheduler.snapshot.pod_info import PodInfo

#: The extension points that the members of a group pass; see `Plugin.only_takes_room`.
_POINTS: Final = ("pre_filter", "filter", "reserve", "permit")
#: The extension points whose plugins are not called where members are counted.
_RANKING: Final = ("pre_score", "score", "placement_score")


def equal_members(
    parts: CycleParts, framework: Framework, attempt: PodGroupAttempt, fitting: PodGroupResult
) -> EqualMembers | None:
    """Return the members of a group if counting them is right in preemption, else None.

    `fitting` is the result of a search without the pods of lower priority. What plugins skip is
    compared with the first search: it must be the same with all of these pods, and then with some.
    """
    needed = quorum(fitting)
    if not needed or not _is_everywhere(parts, attempt):
        return None
    tried = (*fitting.members, *attempt.result.members)
    return _countable(parts, framework, attempt, tried, needed)


def equal_members_in_placements(
    parts: CycleParts, framework: Framework, attempt: PodGroupAttempt, tried: Sequence[MemberResult]
) -> EqualMembers | None:
    """Return the members of a group if counting them is right in placements, else None.

    `tried` are those that were tried in a placement, `needed` is the number of all.
    """
    ranking = (plugin for point in _RANKING for plugin in framework.plugins[point])
    if not all(plugin.only_ranks for plugin in ranking):
        return None
    pod = attempt.members[0].pod_info
    if any(e.is_prioritizer and e.is_interested(pod) for e in parts.algorithm.extenders):
        return None
    return _countable(parts, framework, attempt, tried, len(attempt.members))


def _countable(
    parts: CycleParts,
    framework: Framework,
    attempt: PodGroupAttempt,
    tried: Sequence[MemberResult],
    needed: int,
) -> EqualMembers | None:
    pods = [member.pod_info for member in attempt.members]
    if not _are_equal(pods) or any(map(_has_own_nodes, tried)):
        return None
    nominations = parts.queue.nominator.nominations
    if pods[0].priority <= 0 and any(pod.uid in nominations for pod in pods):
        # A nominated member takes the room of a pod without requests from the others.
        return None
    if any(e.is_filter and e.is_interested(pods[0]) for e in parts.algorithm.extenders):
        return None
    state = tried[0].attempt.state
    skipped = state.skip_filter_plugins
    if any(member.attempt.state.skip_filter_plugins != skipped for member in tried):
        return None
    taking_part = (plugin for point in _POINTS for plugin in framework.plugins[point])
    if not all(plugin.only_takes_room or plugin.name in skipped for plugin in taking_part):
        return None
    return EqualMembers(pods, needed, state)


def quorum(fitting: PodGroupResult) -> int:
    """Return the number of members with a node at which Permit allowed the group; 0 if never."""
    placed = 0
    for member in fitting.members:
        placed += bool(member.host)
        if member.permit_status is not None and member.permit_status.is_success:
            return placed
    return 0


def _are_equal(pods: list[PodInfo]) -> bool:
    """True if the pods are the same to plugins; pods with claims or devices are not equal."""
    return all(
        pod.volumes is NO_VOLUMES and not pod.spec.resource_claims and pod.is_like(pods[0])
        for pod in pods
    )


def _is_everywhere(parts: CycleParts, attempt: PodGroupAttempt) -> bool:
    """True if the search is over all nodes."""
    total, placements = len(parts.algorithm.snapshot), attempt.placements
    return len(placements) <= 1 and all(len(one.placement.nodes) == total for one in placements)


def _has_own_nodes(member: MemberResult) -> bool:
    """True if PreFilter has narrowed the search for a member, or has rejected it."""
    if member.found.result is not None:
        diagnosis = member.found.result.diagnosis
    elif member.status is not None and isinstance(member.status.cause, FitError):
        diagnosis = member.status.cause.diagnosis
    else:
        return True
    return diagnosis.pre_filter_node_names is not None or diagnosis.pre_filter_status is not None


def post_filter_is_idle(framework: Framework, members: EqualMembers) -> bool:
    """True if PostFilter does nothing for members that do not fit."""
    return all(_is_idle(plugin, members) for plugin in framework.plugins["post_filter"])


def _is_idle(plugin: Plugin, members: EqualMembers) -> bool:
    """Ask the plugin. An answer that a class with its own PostFilter inherits does not count."""
    for owner in type(plugin).__mro__:
        if "post_filter_is_idle" in vars(owner):
            return plugin.post_filter_is_idle(members.state, members.pods[0])
        if "post_filter" in vars(owner):
            return False
    return False
