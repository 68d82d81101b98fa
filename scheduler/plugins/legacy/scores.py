"""The priorities of v1.13 that look at nodes and at the pod, with the formulas of v1.13.

All arithmetic is in whole numbers from 0 to 10, cut as v1.13 cut them, then multiplied by 10.
Requests are those of v1.36: init containers and overhead count, which v1.13 left out of scores.
Source: v1.13 `pkg/scheduler/algorithm/priorities`, a file per class; `core.EqualPriorityMap`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from scheduler.api import resources
from scheduler.framework.arithmetic import truncated_div_scalar
from scheduler.framework.interface import Plugin
from scheduler.plugins.image_locality import normalized_image_name
from scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from scheduler.plugins.node_affinity import preferred_by
from scheduler.plugins.taint_toleration import count_intolerable
from scheduler.snapshot.columns import uniform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.api.core import Node
    from scheduler.config.types import FeatureGates
    from scheduler.framework.cycle_state import CycleState
    from scheduler.snapshot.columns import FloatArray, IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

MAX_PRIORITY: Final = 10
#: Turns a score of v1.13 into one from 0 to 100.
SCALE: Final = 10

_MIB: Final = 1024 * 1024
_MIN_THRESHOLD_BYTES: Final = 23 * _MIB
_MAX_THRESHOLD_BYTES: Final = 1000 * _MIB

_AVOID_PODS: Final = "scheduler.alpha.kubernetes.io/preferAvoidPods"
_AVOIDED_KINDS: Final = ("ReplicationController", "ReplicaSet")
_MAX_UTILIZATION: Final = 100


def normalize_reduce(scores: IntArray, *, reverse: bool = False) -> IntArray:
    """Scale counts to 0..10 by the highest one, times `SCALE`. Source: `NormalizeReduce`."""
    highest = int(scores.max(initial=0))
    scaled = MAX_PRIORITY * scores // highest if highest else scores
    return (MAX_PRIORITY - scaled if reverse else scaled) * SCALE


class EqualPriority(Plugin):
    """Score all nodes 1."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        return uniform(len(nodes), np.int64(SCALE))


# Resources.


class _ResourcePriority(Plugin):
    """The base of scores by the cpu and memory that the pods on a node and the pod request."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        added = pod.requests.non_zero_cpu, pod.requests.non_zero_memory
        return nodes.per_node((type(self), self.args, added), lambda some: self._sum(some, added))

    def _sum(self, nodes: Nodes, added: tuple[int, int]) -> IntArray:
        cpu, memory = (
            self._rate(nodes.non_zero_requested(name) + amount, nodes.allocatable(name))
            for name, amount in zip((resources.CPU, resources.MEMORY), added, strict=True)
        )
        return (cpu + memory) // 2 * SCALE

    def _rate(self, requested: IntArray, capacity: IntArray) -> IntArray:
        """Return the scores of one resource, from 0 to 10."""
        raise NotImplementedError


class LeastRequestedPriority(_ResourcePriority):
    """Prefer nodes with more cpu and memory left."""

    def _rate(self, requested: IntArray, capacity: IntArray) -> IntArray:
        return _share(capacity - requested, requested, capacity)


class MostRequestedPriority(_ResourcePriority):
    """Prefer nodes with less cpu and memory left. An overcommitted node scores 0."""

    def _rate(self, requested: IntArray, capacity: IntArray) -> IntArray:
        return _share(requested, requested, capacity)


def _share(part: IntArray, requested: IntArray, capacity: IntArray) -> IntArray:
    fits = (capacity > 0) & (requested <= capacity)
    return np.where(fits, part * MAX_PRIORITY // np.maximum(capacity, 1), 0)


class BalancedResourceAllocation(_ResourcePriority):
    """Prefer nodes whose cpu and memory are used in equal shares; 0 if one is used up."""

    def _sum(self, nodes: Nodes, added: tuple[int, int]) -> IntArray:
        cpu, memory = (
            _fraction(nodes.non_zero_requested(name) + amount, nodes.allocatable(name))
            for name, amount in zip((resources.CPU, resources.MEMORY), added, strict=True)
        )
        balanced = ((1 - np.abs(cpu - memory)) * MAX_PRIORITY).astype(np.int64)
        return np.where((cpu >= 1) | (memory >= 1), 0, balanced * SCALE)


def _fraction(requested: IntArray, capacity: IntArray) -> FloatArray:
    return np.where(capacity == 0, 1.0, requested / np.maximum(capacity, 1))


class UtilizationShapePoint(msgspec.Struct, frozen=True):
    """A point of the function from utilization (0 to 100) to score (0 to 10)."""

    utilization: int = 0
    score: int = 0


class RequestedToCapacityRatioArgs(msgspec.Struct, frozen=True):
    """Arguments of RequestedToCapacityRatioPriority."""

    shape: tuple[UtilizationShapePoint, ...] = (
        UtilizationShapePoint(0, MAX_PRIORITY),
        UtilizationShapePoint(100, 0),
    )

    def validate(self, path: str, gates: FeatureGates) -> list[Exception]:
        error = shape_error(self.shape)
        return [ValueError(error)] if error else []


def shape_error(shape: Sequence[UtilizationShapePoint]) -> str:
    """Return the first error of a shape; empty if there is none. Source: `NewFunctionShape`."""
    if not shape:
        return "at least one point must be specified"
    for i in range(1, len(shape)):
        before, here = shape[i - 1].utilization, shape[i].utilization
        if before >= here:
            return (
                f"utilization values must be sorted. "
                f"Utilization[{i - 1}]=={before} >= Utilization[{i}]=={here}"
            )
    for i, (utilization, score) in enumerate((p.utilization, p.score) for p in shape):
        if utilization < 0:
            return f"utilization values must not be less than 0. Utilization[{i}]=={utilization}"
        if utilization > _MAX_UTILIZATION:
            return (
                f"utilization values must not be greater than {_MAX_UTILIZATION}. "
                f"Utilization[{i}]=={utilization}"
            )
        if score < 0:
            return f"score values must not be less than 0. Score[{i}]=={score}"
        if score > MAX_PRIORITY:
            return f"score valuses not be greater than {MAX_PRIORITY}. Score[{i}]=={score}"
    return ""


def broken_linear(shape: Sequence[UtilizationShapePoint], utilization: int) -> int:
    """Return the function's value. Source: `buildBrokenLinearFunction`."""
    before = shape[0]
    for point in shape:
        if utilization <= point.utilization:
            run = point.utilization - before.utilization
            rise = (point.score - before.score) * (utilization - before.utilization)
            return before.score + (truncated_div_scalar(rise, run) if run else 0)
        before = point
    return before.score


class RequestedToCapacityRatioPriority(_ResourcePriority):
    """Score nodes by a function of the used percentage of cpu and memory."""

    Args = RequestedToCapacityRatioArgs
    args: RequestedToCapacityRatioArgs

    def __init__(self) -> None:
        self._scores: Final[IntArray] = np.array(
            [broken_linear(self.args.shape, used) for used in range(_MAX_UTILIZATION + 1)]
        )

    def _rate(self, requested: IntArray, capacity: IntArray) -> IntArray:
        free = (capacity - requested) * _MAX_UTILIZATION // np.maximum(capacity, 1)
        used = np.where((capacity == 0) | (requested > capacity), 100, _MAX_UTILIZATION - free)
        scores: IntArray = self._scores[used]
        return scores


class ResourceLimitsPriority(Plugin):
    """Score 1 for nodes that offer the pod's cpu limit or its memory limit, else 0."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        limits = resources.counted(resources.pod_limits(pod.pod))
        met = np.zeros(len(nodes), dtype=np.bool_)
        for name in (resources.CPU, resources.MEMORY):
            if limit := limits.get(name, 0):
                met |= nodes.allocatable(name) >= limit
        return met * np.int64(SCALE)


# Labels, taints and annotations.


class NodeLabelArgs(msgspec.Struct, frozen=True):
    """Arguments of NodeLabelPriority."""

    label: str = ""
    presence: bool = False


class NodeLabelPriority(Plugin):
    """Prefer nodes that have a label or, with `presence: false`, that do not have it."""

    Args = NodeLabelArgs
    args: NodeLabelArgs

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        present = nodes.labels(self.args.label).present
        preferred = present if self.args.presence else ~present
        return preferred * np.int64(MAX_PRIORITY * SCALE)


class TaintTolerationPriority(Plugin):
    """Prefer nodes with fewer PreferNoSchedule taints that the pod does not tolerate."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        tolerations = pod.spec.tolerations
        return nodes.taints.map(lambda taints: count_intolerable(taints, tolerations))

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        return normalize_reduce(scores, reverse=True)


class NodeAffinityPriority(Plugin):
    """Prefer nodes that match the pod's preferred terms; only the labels of a term count."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """Return the sum of the weights. Raises `ValueError` for malformed terms."""
        scores = np.zeros(len(nodes), dtype=np.int64)
        for weight, term in preferred_by(pod) or ():
            if term.expressions:
                met = np.ones(len(nodes), dtype=np.bool_)
                for expression in term.expressions:
                    met &= nodes.accepted_by(expression)
                scores += met * np.int64(weight)
        return scores

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        return normalize_reduce(scores)


class InterPodAffinityPriority(InterPodAffinity):
    """Prefer nodes by the weighted pod affinity terms, scaled between 0 and the extremes.

    A profile enables it at PreScore and Score; the inherited filter is InterPodAffinity's.
    """

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        lowest, highest = int(scores.min(initial=0)), int(scores.max(initial=0))
        if lowest == highest:
            return uniform(len(scores), np.int64(0))
        scaled: FloatArray = MAX_PRIORITY * ((scores - lowest) / (highest - lowest))
        return scaled.astype(np.int64) * SCALE


class NodePreferAvoidPodsPriority(Plugin):
    """Avoid nodes whose annotation names the pod's ReplicationController or ReplicaSet."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        owner = pod.pod.metadata.controller
        if owner is None or owner.kind not in _AVOIDED_KINDS:
            return uniform(len(nodes), np.int64(MAX_PRIORITY * SCALE))
        controller = (owner.kind, owner.uid)
        avoided = nodes.derive(_avoided).where(lambda found: controller in (found or ()))
        return np.where(avoided, 0, MAX_PRIORITY * SCALE)


def _avoided(node: Node) -> tuple[tuple[str, str], ...]:
    """Return the kinds and uids of the controllers that a node's annotation names.

    A malformed annotation names none.
    """
    text = node.metadata.annotations.get(_AVOID_PODS)
    if text is None:
        return ()
    try:
        entries = json.loads(text)["preferAvoidPods"]
        controllers = [entry["podSignature"]["podController"] for entry in entries]
        return tuple((str(owner["kind"]), str(owner["uid"])) for owner in controllers)
    except (ValueError, TypeError, KeyError, RecursionError):
        return ()


class ImageLocalityPriority(Plugin):
    """Prefer nodes that have large images of the pod's containers."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        sums = np.zeros(len(nodes), dtype=np.int64)
        for container in pod.spec.containers:
            if image := nodes.image(normalized_image_name(container.image)):
                spread = image.num_nodes / nodes.total
                sums += image.present * np.int64(float(image.size_bytes) * spread)
        above = np.clip(sums, _MIN_THRESHOLD_BYTES, _MAX_THRESHOLD_BYTES) - _MIN_THRESHOLD_BYTES
        return MAX_PRIORITY * above // (_MAX_THRESHOLD_BYTES - _MIN_THRESHOLD_BYTES) * SCALE
