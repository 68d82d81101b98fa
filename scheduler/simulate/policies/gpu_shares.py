"""GpuShare: keeps the idle part of each GPU, filters nodes by it, and chooses GPUs for a pod."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.api.core import Node, Pod
from scheduler.api.resources import CPU
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import ActionType, ClusterEventWithHint, on
from scheduler.framework.interface import Plugin
from scheduler.framework.status import reject_by, unresolvable, unschedulable
from scheduler.simulate.gpu_requests import (
    GPU_INDEX,
    GPUS_MAX,
    NO_GPU,
    WHOLE,
    GpuRequest,
    gpu_count,
    gpu_model,
    gpu_request,
)

if TYPE_CHECKING:
    from scheduler.framework.handle import Handle
    from scheduler.framework.status import Rejections
    from scheduler.snapshot.columns import BoolArray, IntArray
    from scheduler.snapshot.node_table import NodeTable
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_WRONG_MODEL: Final = unresolvable("node(s) had another GPU model")
_INSUFFICIENT: Final = unschedulable("Insufficient GPU shares")
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class _Held(NamedTuple):
    """The GPUs of a pod: its node, and the indexes there. None means not chosen yet."""

    node_name: str
    request: GpuRequest
    gpus: tuple[int, ...] | None


class GpuShares:
    """The idle part of the GPUs of all nodes; the rows are the snapshot's.

    The first axis of each array is the node; `left` and `kinds` have a second one.
    """

    def __init__(self, handle: Handle) -> None:
        self._held: Final[dict[str, _Held]] = {}
        self._table: NodeTable | None = None
        self._changes: Final = itertools.count(1)
        #: The idle thousandths of each GPU; 0 for GPUs that a node does not have.
        self.left: IntArray = np.zeros((0, GPUS_MAX), dtype=np.int64)
        #: The number of GPUs.
        self.gpus: IntArray = np.zeros(0, dtype=np.int64)
        #: The sum of `left`, its maximum, and the number of GPUs that are idle as a whole.
        self.total, self.largest, self.idle = self.gpus, self.gpus, self.gpus
        #: The number of pods of each `GpuRequest.kind`.
        self.kinds: IntArray = np.zeros((0, GPUS_MAX + 1), dtype=np.int64)
        #: A number that is new after each change of the node's pods.
        self.version: IntArray = self.gpus
        handle.on_change(Pod, self._pod_changed)
        handle.on_change(Node, self._node_changed)

    def align(self, nodes: Nodes) -> None:
        """Bring the rows in the order of the snapshot, if its nodes have changed."""
        table = nodes.table
        if self._table is table and len(self.gpus) == len(table):
            return
        self._table = table
        self.gpus = np.array([gpu_count(node) for node in table.nodes if node], dtype=np.int64)
        self.left = np.where(np.arange(GPUS_MAX) < self.gpus[:, None], WHOLE, 0)
        self.kinds = np.zeros((len(self.gpus), GPUS_MAX + 1), dtype=np.int64)
        self.total, self.largest = self.left.sum(axis=1), self.left.max(axis=1, initial=0)
        self.idle, self.version = self.gpus.copy(), np.zeros_like(self.gpus)
        for uid, held in self._held.items():
            row = table.row_of.get(held.node_name)
            if row is not None:
                self._held[uid] = self._taken(held, row)
        self.version[:] = next(self._changes)

    def row(self, node_name: str) -> int:
        """Return the row of a node."""
        assert self._table is not None, "pods are reserved after PreFilter"
        return self._table.row_of[node_name]

    def take(self, uid: str, node_name: str, request: GpuRequest, gpus: tuple[int, ...]) -> None:
        """Give GPUs of a node to a pod."""
        self._held[uid] = self._taken(_Held(node_name, request, gpus), self.row(node_name))

    def give_back(self, uid: str) -> None:
        """Take the GPUs of a pod back; a no-op for a pod that has no node."""
        held = self._held.pop(uid, None)
        if held is None or held.gpus is None or self._table is None:
            return
        row = self._table.row_of.get(held.node_name)
        if row is not None:
            self.left[row, list(held.gpus)] += held.request.milli
            self._count(row, held.request, -1)

    def _taken(self, held: _Held, row: int) -> _Held:
        """Take GPUs for a pod; by default the fullest ones that have room."""
        request, left, gpus = held.request, self.left[row], held.gpus
        if gpus is None:
            order = np.argsort(left, kind="stable")
            gpus = tuple(order[left[order] >= request.milli][: request.gpus].tolist())
        left[list(gpus)] -= request.milli
        assert left.min() >= 0, f"GPUs of {held.node_name} are given away twice"
        self._count(row, request, 1)
        return held._replace(gpus=gpus)

    def _count(self, row: int, request: GpuRequest, sign: int) -> None:
        left = self.left[row]
        self.total[row], self.largest[row] = left.sum(), left.max()
        self.idle[row] = np.count_nonzero(left == WHOLE)
        if request.gpus:
            self.kinds[row, request.kind] += sign
        self.version[row] = next(self._changes)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Follow pods that come with a node, are deleted, or have ended."""
        if new is None or new.status.phase in _FINISHED:
            if old is not None:
                self.give_back(old.metadata.uid)
        elif new.spec.node_name and new.metadata.uid not in self._held:
            indexes = new.metadata.annotations.get(GPU_INDEX)
            gpus = None if indexes is None else tuple(int(i) for i in indexes.split("-"))
            held = _Held(new.spec.node_name, gpu_request(new.metadata.annotations), gpus)
            row = None if self._table is None else self._table.row_of.get(held.node_name)
            self._held[new.metadata.uid] = held if row is None else self._taken(held, row)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or gpu_count(old) != gpu_count(new):
            self._table = None


_REQUEST: Final = StateKey[GpuRequest]("GpuShare")


class GpuShare(Plugin):
    """Never promise more of a GPU than it has left, nor a GPU of another model.

    A pod that asks for a share gets the fullest GPU with room, others the first idle GPUs.
    """

    reads = (Pod, Node)

    def __init__(self) -> None:
        self.shares: Final = self.handle.shared(GpuShares)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        self.shares.align(nodes)
        state.write(_REQUEST, gpu_request(pod.annotations))

    def request(self, state: CycleState) -> GpuRequest:
        """Return the pod's request for GPUs."""
        return state.read(_REQUEST)

    def cpu_left(self, nodes: Nodes) -> IntArray:
        """Return the free thousandths of a core."""
        return nodes.unrequested(CPU)

    def gpu_left(self, nodes: Nodes) -> IntArray:
        """Return the idle thousandths of all GPUs of each node."""
        return self.shares.total[nodes.base_rows]

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        request, rows = self.request(state), nodes.base_rows
        if request == NO_GPU:
            return None
        if request.is_share:
            short: BoolArray = self.shares.largest[rows] < request.milli
        else:
            short = self.shares.idle[rows] < request.gpus
        if not request.models:
            return reject_by((short, _INSUFFICIENT))
        is_other = ~nodes.derive(gpu_model).isin(request.models)
        return reject_by((is_other, _WRONG_MODEL), (short, _INSUFFICIENT))

    def events_to_register(self) -> list[ClusterEventWithHint]:
        """Pods that leave, and nodes that are new or have other GPUs."""
        node_change = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        return [
            on(Pod, ActionType.DELETE),
            on(Node, node_change | ActionType.UPDATE_NODE_LABEL),
        ]

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        request, shares = self.request(state), self.shares
        left = shares.left[shares.row(node_name)]
        if request.is_share:
            gpus: tuple[int, ...] = (self.chosen_gpu(state, pod, node_name, left),)
        else:
            gpus = tuple(np.flatnonzero(left == WHOLE)[: request.gpus].tolist())
        shares.take(pod.uid, node_name, request, gpus)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.shares.give_back(pod.uid)

    def chosen_gpu(self, state: CycleState, pod: PodInfo, node_name: str, left: IntArray) -> int:
        """Return the GPU for a share: the first of the fullest that have room."""
        return int(np.where(left < self.request(state).milli, 2 * WHOLE, left).argmin())
