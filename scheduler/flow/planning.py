"""A plan for a batch of pods: by minimum-cost flow, or one by one if that is as good.

    classes --> slots --> flow --> replay --> pods that found their node taken: next round
                                     |
    one by one: replay of the best node for each pod in turn --> the better plan of the two

The flow knows the room for pods of one class on a node, and shares it between classes by number:
where pods of different sizes share a node, the flow may take too many. The replay finds that out,
as it places the pods one after another in a dry run.
A plan takes long. It is made in steps (`Steps`), so that other tasks can run between two of them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from scheduler.flow.classes import classes_of
from scheduler.flow.network import Network, solve_in_steps
from scheduler.flow.trial import FeasibleClass, Trial
from scheduler.framework.failures import FrameworkError
from scheduler.framework.types import NextOnNode

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from scheduler.flow.classes import PodClass
    from scheduler.flow.cost_models import CostModel
    from scheduler.framework.handle import Handle, Worlds
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

T = TypeVar("T")

#: Work that ends with a result, and can rest at each `yield`.
Steps: TypeAlias = "Generator[None, None, T]"

_log: Final = logging.getLogger(__name__)

#: Rounds of the flow. Each places the pods whose node was taken in the round before, and one pod
#: with claims on a node.
_ROUNDS_MAX: Final = 16


class Placed(NamedTuple):
    """A pod with its node and its cost there."""

    pod: PodInfo
    node_name: str
    cost: int


class Course(NamedTuple):
    """The pods that got a node, in order."""

    placed: Sequence[Placed] = ()

    @property
    def score(self) -> int:
        """The total score: the sum of the costs, negated."""
        return -sum(each.cost for each in self.placed)

    @property
    def rank(self) -> tuple[tuple[int, ...], int]:
        """The measure by which plans are compared: pods of high priority, of lower, the score."""
        return tuple(sorted((each.pod.priority for each in self.placed), reverse=True)), self.score

    def find(self, uid: str) -> Placed | None:
        return next((each for each in self.placed if each.pod.uid == uid), None)


class Plan(NamedTuple):
    """The nodes of the pods of a batch; a pod that is considered and has none is left out.

    `chosen` is one of `by_flow` and `one_by_one`.
    """

    chosen: Course
    by_flow: Course
    one_by_one: Course
    considered: frozenset[str]
    num_classes: int

    @property
    def nodes(self) -> dict[str, str]:
        """The name of each pod's node, by the pod's uid."""
        return {each.pod.uid: each.node_name for each in self.chosen.placed}

    def next_on_node(self, pod: PodInfo) -> NextOnNode:
        """Return the other pods that are planned on a pod's node."""
        name = self.nodes.get(pod.uid, "")
        here = [each.pod for each in self.chosen.placed if each.node_name == name]
        return NextOnNode(name, [other for other in here if other.uid != pod.uid])

    @property
    def is_by_flow(self) -> bool:
        """True if the flow is better than one by one."""
        return self.chosen is self.by_flow

    def story(self, uid: str) -> str:
        """Return a line about both choices for a pod: by flow, and one by one."""
        flow, single = self.by_flow, self.one_by_one
        return (
            f"FlowPlacement: a batch of {len(self.considered)} pods in {self.num_classes} classes; "
            f"by flow {len(flow.placed)} of them get a node, total score {flow.score}, one by one "
            f"{len(single.placed)}, total score {single.score}; this pod by flow "
            f"{_place(flow, uid)}, one by one {_place(single, uid)}"
        )


def _place(course: Course, uid: str) -> str:
    placed = course.find(uid)
    return "no node" if placed is None else f"{placed.node_name} (score {-placed.cost})"


class Batch:
    """The pods of a batch in their order, with the nodes that fit each class of them."""

    def __init__(
        self, handle: Handle, model: CostModel, pods: Sequence[PodInfo], *, candidates: int
    ) -> None:
        self._handle: Final = handle
        self._model: Final = model
        self._candidates: Final = candidates
        self._pods: Final = pods
        self._feasible: Final[list[FeasibleClass]] = []

    def prepare(self) -> Steps[None]:
        """Find the nodes of each class."""
        for pod_class in classes_of(self._pods):
            try:
                self._feasible.append(FeasibleClass(self._handle, self._model, pod_class))
            except FrameworkError as failure:
                # The pods meet the same failure in their own cycles, where it is reported.
                _log.info("Flow: %s is left out: %s", pod_class.first.key, failure)
            yield

    @property
    def is_simple(self) -> bool:
        """True if the plan has all pods: no class has only one pod in a round."""
        return not any(each.pod_class.one_per_round for each in self._feasible)

    def plan(self, nodes: Nodes) -> Steps[Plan]:
        """Plan the batch on some nodes. Raises `FrameworkError` and `NoSolutionError`."""
        count = sum(len(each.pod_class.pods) for each in self._feasible)
        trials = []
        for each in self._feasible:
            trials.append(Trial(each, nodes, num_pods=count, candidates=self._candidates))
            yield
        trial_of = {pod.uid: trial for trial in trials for pod in trial.pod_class.pods}
        order = [pod for pod in self._pods if pod.uid in trial_of]
        one_by_one = yield from _one_by_one(order, trial_of)
        by_flow = yield from _by_flow(order, trial_of)
        best = max(one_by_one, by_flow, key=lambda course: course.rank)
        again = yield from _anew_beside_others(best, order, trial_of)
        by_flow = max(by_flow, again, key=lambda course: course.rank)
        return Plan(
            by_flow if by_flow.rank > one_by_one.rank else one_by_one,
            by_flow,
            one_by_one,
            frozenset(trial_of),
            len(trials),
        )


class _View:
    """A class in a replay: where its next pod fits, and its cost there."""

    def __init__(self, trial: Trial) -> None:
        self._trial: Final = trial
        self._worlds: Final[Worlds] = trial.dry_run()
        self._seen = 0
        self.fits = np.ones(len(trial.names), dtype=np.bool_)
        self.costs = trial.costs(self._worlds)

    def follow(self, placed: Sequence[Placed]) -> None:
        """Add the pods that were placed since the last call."""
        new = [(each.pod, each.node_name) for each in placed[self._seen :]]
        self._seen = len(placed)
        changed = self._trial.add(self._worlds, new)
        if len(changed):
            rejections = self._worlds.run_filters(changed)
            self.fits[changed] &= True if rejections is None else rejections.passed
            self.costs = self._trial.costs(self._worlds)


class _Replay:
    """Places pods one after another, in dry runs."""

    def __init__(self, trial_of: Mapping[str, Trial]) -> None:
        self._trial_of: Final = trial_of
        self._views: Final[dict[PodClass, _View]] = {}
        #: The nodes whose devices are taken, for each class.
        self._without_devices: Final[set[tuple[Trial, str]]] = set()
        self.placed: Final[list[Placed]] = []

    def place_best(self, pod: PodInfo) -> bool:
        """Place a pod on the node with the lowest cost; False if it fits on none."""
        view = self._view(pod)
        while len(fitting := np.flatnonzero(view.fits)):
            position = int(fitting[np.argmin(view.costs[fitting])])
            if self._place(pod, view, position):
                return True
        return False

    def place_on(self, pod: PodInfo, node_name: str) -> bool:
        """Place a pod on a node; False if it does not fit there any more."""
        view = self._view(pod)
        position = self._trial_of[pod.uid].names.index(node_name)
        return bool(view.fits[position]) and self._place(pod, view, position)

    def slots(self, trial: Trial) -> dict[str, list[int]]:
        """Return the slots of a class beside the pods that are placed."""
        beside = [(each.pod, each.node_name) for each in self.placed]
        return {
            name: costs
            for name, costs in trial.slots(beside).items()
            if (trial, name) not in self._without_devices
        }

    def _view(self, pod: PodInfo) -> _View:
        trial = self._trial_of[pod.uid]
        view = self._views.get(trial.pod_class)
        if view is None:
            view = self._views[trial.pod_class] = _View(trial)
        view.follow(self.placed)
        return view

    def _place(self, pod: PodInfo, view: _View, position: int) -> bool:
        """Place a pod that fits; False if its devices are taken, where it does not fit then."""
        trial = self._trial_of[pod.uid]
        name = trial.names[position]
        if pod.spec.resource_claims:
            others = [
                e.pod for e in self.placed if e.node_name == name and e.pod.spec.resource_claims
            ]
            if others and not trial.of.has_devices(pod, others, name):
                self._without_devices.add((trial, name))
                view.fits[position] = False
                return False
        self.placed.append(Placed(pod, name, int(view.costs[position])))
        return True


def _one_by_one(order: Sequence[PodInfo], trial_of: Mapping[str, Trial]) -> Steps[Course]:
    """Place each pod in turn where it costs least, as the scheduling cycle does."""
    replay = _Replay(trial_of)
    for pod in order:
        replay.place_best(pod)
        yield
    return Course(replay.placed)


def _by_flow(order: Sequence[PodInfo], trial_of: Mapping[str, Trial]) -> Steps[Course]:
    """Place all pods by flows; raises `NoSolutionError`."""
    replay, waiting = _Replay(trial_of), list(order)
    for number in range(_ROUNDS_MAX):  # noqa: B007 - read below
        chosen = yield from _flow(waiting, trial_of, replay)
        placed = yield from _follow(chosen, waiting, replay)
        waiting = [pod for pod in waiting if pod.uid not in placed]
        is_all = len(placed) == len(chosen) and not any(p.spec.resource_claims for p in waiting)
        if not placed or is_all:
            break
    if number == 0:
        return Course(replay.placed)
    # The pods of later rounds are tried in their order, too.
    node_of = {each.pod.uid: each.node_name for each in replay.placed}
    replay = _Replay(trial_of)
    yield from _follow(node_of, order, replay)
    return Course(replay.placed)


def _anew_beside_others(
    course: Course, order: Sequence[PodInfo], trial_of: Mapping[str, Trial]
) -> Steps[Course]:
    """Place each class anew beside all others: the flow of one class is its cheapest slots.

    The first flow knows what pods of a class cost each other, and not what other classes do.
    """
    node_of = {each.pod.uid: each.node_name for each in course.placed}
    users: dict[str, set[Trial]] = {}
    for uid, name in node_of.items():
        users.setdefault(name, set()).add(trial_of[uid])
    sharing = {trial for some in users.values() if len(some) > 1 for trial in some}
    if not sharing:
        return course
    for trial in dict.fromkeys(trial_of[pod.uid] for pod in order):
        if trial not in sharing or trial.pod_class.has_claims:
            continue
        placed = [pod for pod in order if pod.uid in node_of]
        others = [(pod, node_of[pod.uid]) for pod in placed if trial_of[pod.uid] is not trial]
        slots = trial.slots(others).items()
        cheapest = sorted((cost, name) for name, costs in slots for cost in costs)
        own = (pod for pod in placed if trial_of[pod.uid] is trial)
        node_of |= {pod.uid: name for pod, (_, name) in zip(own, cheapest, strict=False)}
        yield
    replay = _Replay(trial_of)
    yield from _follow(node_of, order, replay)
    return Course(replay.placed)


def _follow(
    node_of: Mapping[str, str], pods: Sequence[PodInfo], replay: _Replay
) -> Steps[set[str]]:
    """Place pods on their nodes where they fit; return the uids of the pods that do."""
    placed = set()
    for pod in pods:
        if pod.uid in node_of and replay.place_on(pod, node_of[pod.uid]):
            placed.add(pod.uid)
        yield
    return placed


def _flow(
    pods: Sequence[PodInfo], trial_of: Mapping[str, Trial], replay: _Replay
) -> Steps[dict[str, str]]:
    """Return the node of each pod in a minimum-cost flow, beside pods that are placed already."""
    of_class: dict[Trial, list[PodInfo]] = {}
    for pod in pods:
        of_class.setdefault(trial_of[pod.uid], []).append(pod)
    arcs: list[tuple[int, int, int, str]] = []
    slot_of: dict[tuple[str, int], int] = {}
    for number, trial in enumerate(of_class):
        for name, costs in replay.slots(trial).items():
            for index, cost in enumerate(costs):
                arcs.append((number, slot_of.setdefault((name, index), len(slot_of)), cost, name))
        yield
    columns = np.array([arc[:3] for arc in arcs], dtype=np.int64).reshape(-1, 3).T
    flow = yield from solve_in_steps(
        Network(
            supplies=[len(some) for some in of_class.values()],
            priorities=[some[0].priority for some in of_class.values()],
            num_slots=len(slot_of),
            classes=columns[0],
            slots=columns[1],
            costs=columns[2],
        )
    )
    used = sorted((arcs[arc] for arc in np.flatnonzero(flow)), key=lambda arc: arc[2])
    left = [iter(some) for some in of_class.values()]
    return {next(left[number]).uid: name for number, _, _, name in used}
