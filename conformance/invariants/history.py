"""A run as the invariants see it: decisions, each with the cluster's state before it.

    Observation --History--> bindings, preemptions, the state at the end

A scheduler decides on a state that it has seen, and writes later. So a decision has several
*moments*, states on which it may be based: the state before the write; that state with the pods
that the scheduler bound between the same two steps, in another order; and the state at the start
of that time. A rule is broken if it is broken at each of them. Between two steps the scheduler has
settled, so nothing older counts.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from ..format.reading import node_of
from ..format.resources import objects, part
from .state import State, placed_on, priority_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..api import Json
    from ..run.observation import Observation

K = TypeVar("K")

_PREEMPTED: Final = "PreemptionByScheduler"
_CLAIM: Final = "ResourceClaim"


@dataclass(frozen=True, kw_only=True)
class Binding:
    """A pod that the scheduler has bound. `step` is the place of the step of the binding.

    `moments` begin with the state before the binding.
    """

    pod: Json
    node_name: str
    moments: Sequence[State]
    step: str


@dataclass(frozen=True, kw_only=True)
class Preemption:
    """Pods that the scheduler has deleted to make room for a pod, the preemptor, on their node.

    The preemptor is None if no event names it.
    """

    preemptor: Json | None
    victims: Sequence[Json]
    node_name: str
    moments: Sequence[State]
    step: str


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """A claim to which the scheduler has given devices, and the states on which it may be based."""

    claim: Json
    moments: Sequence[State]
    step: str


@dataclass(frozen=True, kw_only=True)
class _Moment:
    """A decision about a pod or a claim: the state before it, and the number of the step."""

    pod: Json
    before: State
    step: int


class History:
    """The decisions in an observed run. `scheduler_names` are the profiles of the scheduler."""

    def __init__(
        self,
        observation: Observation,
        *,
        scheduler_names: Collection[str] = ("default-scheduler",),
    ) -> None:
        self.observation = observation
        self.scheduler_names = scheduler_names
        self._bound: list[_Moment] = []
        self._deleted: list[_Moment] = []
        self._allocated: list[_Moment] = []
        self._starts: list[State] = []
        self.end = self._replay()
        self.bindings = [self._binding(change) for change in self._bound]
        self.preemptions = self._preemptions()
        self.allocations = [self._allocation(change) for change in self._allocated]

    def _replay(self) -> State:
        """Go through the changes once; return the state at the end."""
        observation = self.observation
        ours = {pod.uid: pod.bound_version for pod in observation.placements}
        first = [index for _, index in observation.steps]
        nodes: dict[str, Json] = {}
        pods: dict[str, Json] = {}
        others: dict[tuple[str, str, str], Json] = {}
        marked: set[str] = set()

        def state() -> State:
            return State(nodes=dict(nodes), pods=dict(pods), others=dict(others))

        for index, change in enumerate(observation.changes):
            step = bisect.bisect_right(first, index) - 1
            while len(self._starts) <= step:
                self._starts.append(state())
            if change.resource == "events":
                continue
            obj = observation.object_after(change)
            is_gone = change.type == "DELETED"
            if obj["kind"] == "Pod":
                uid = uid_of(obj)
                if ours.get(uid) == change.resource_version:
                    self._bound.append(_Moment(pod=obj, before=state(), step=step))
                if uid not in marked and (_is_victim(obj) or (is_gone and self._deletes(obj))):
                    marked.add(uid)
                    before = replace(state(), pods={**pods, uid: pods.get(uid, obj)})
                    self._deleted.append(_Moment(pod=pods.get(uid, obj), before=before, step=step))
                _store(pods, uid, obj, is_gone=is_gone)
            elif obj["kind"] == "Node":
                _store(nodes, change.name, obj, is_gone=is_gone)
            else:
                key = str(obj["kind"]), change.namespace, change.name
                if not is_gone and _gets_devices(obj, others.get(key)) and self._writes(obj):
                    self._allocated.append(_Moment(pod=obj, before=state(), step=step))
                _store(others, key, obj, is_gone=is_gone)
        end = state()
        self._starts += [end] * (len(first) - len(self._starts))
        return end

    def _deletes(self, pod: Json) -> bool:
        """Return True if the scheduler has deleted a pod of that name."""
        metadata = part(pod, "metadata")
        path = f"/api/v1/namespaces/{metadata.get('namespace')}/pods/{metadata.get('name')}"
        return any(
            write.method == "DELETE" and write.path.partition("?")[0] == path
            for write in self.observation.writes or ()
        )

    def _writes(self, claim: Json) -> bool:
        """Return True if the scheduler has written the status of a claim of that name."""
        metadata = part(claim, "metadata")
        end = f"/{metadata.get('namespace')}/resourceclaims/{metadata.get('name')}/status"
        return any(
            write.path.partition("?")[0].endswith(end) for write in self.observation.writes or ()
        )

    def _allocation(self, moment: _Moment) -> Allocation:
        start = self._starts[moment.step] if moment.step >= 0 else moment.before
        claims = {k: v for k, v in moment.before.others.items() if k[0] == _CLAIM}
        early = {k: v for k, v in start.others.items() if k[0] != _CLAIM}
        return Allocation(
            claim=moment.pod,
            moments=[moment.before, replace(start, others={**early, **claims})],
            step=self._place(moment.step),
        )

    def _binding(self, moment: _Moment) -> Binding:
        return Binding(
            pod=moment.pod,
            node_name=node_of(moment.pod),
            moments=self._moments(moment.before, moment.step),
            step=self._place(moment.step),
        )

    def _moments(self, before: State, step: int) -> list[State]:
        bound = [bound_pod.pod for bound_pod in self._bound if bound_pod.step == step]
        start = self._starts[step] if 0 <= step < len(self._starts) else before
        return [before, before.with_pods(bound), start.with_pods(bound)]

    def _place(self, step: int) -> str:
        return self.observation.steps[step][0] if step >= 0 else ""

    def _preemptions(self) -> list[Preemption]:
        """Group the victims by preemptor, node and step."""
        preemptors = self.observation.preemptors
        groups: dict[tuple[str, str, int], list[_Moment]] = {}
        for deleted in self._deleted:
            key = preemptors.get(uid_of(deleted.pod), ""), node_of(deleted.pod), deleted.step
            groups.setdefault(key, []).append(deleted)
        return [
            Preemption(
                preemptor=group[0].before.pods.get(preemptor),
                victims=[deleted.pod for deleted in group],
                node_name=node_name,
                moments=self._moments(group[0].before, step),
                step=self._place(step),
            )
            for (preemptor, node_name, step), group in groups.items()
        ]


def _store(kept: dict[K, Json], key: K, obj: Json, *, is_gone: bool) -> None:
    if is_gone:
        kept.pop(key, None)
    else:
        kept[key] = obj


def _gets_devices(obj: Json, before: Json | None) -> bool:
    """Return True if a claim has devices, and had none."""
    had = part(part(before or {}, "status"), "allocation")
    return obj["kind"] == _CLAIM and bool(part(part(obj, "status"), "allocation")) and not had


def _is_victim(pod: Json) -> bool:
    """Return True if a scheduler has marked a pod as a victim of preemption."""
    conditions = objects(part(pod, "status").get("conditions"))
    return any(condition.get("reason") == _PREEMPTED for condition in conditions)


def with_nominated(state: State, pod: Json) -> State:
    """Return a state with nominated pods of at least equal priority on their nominated nodes.

    The resources that a nominated pod has freed are kept for it, except from more important pods.
    """
    nominated = [
        placed_on(other, str(part(other, "status").get("nominatedNodeName")))
        for other in state.pods.values()
        if uid_of(other) != uid_of(pod)
        and not node_of(other)
        and part(other, "status").get("nominatedNodeName")
        and priority_of(other) >= priority_of(pod)
    ]
    return state.with_pods(nominated)
