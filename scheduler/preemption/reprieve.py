"""Reprieve: puts removed pods back on their nodes, in order, as far as the preemptor still fits.

    each step: add the next pods of each node, up to the next one that will hardly be able to stay
               remove that one again where the preemptor does not fit

A pod with which the preemptor does not fit is a victim. All nodes are processed at the same time.
Source: `SelectVictimsOnNode` (`reprievePod`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.api import resources
from scheduler.api.host_ports import conflicts
from scheduler.snapshot.columns import run_starts

if TYPE_CHECKING:
    from scheduler.framework.handle import Worlds
    from scheduler.preemption.pods_by_world import PodsByWorld
    from scheduler.snapshot.columns import BoolArray, IntArray
    from scheduler.snapshot.pod_info import PodInfo

_UNLIMITED: Final = 2**62


class Reprieve:
    """Puts pods back in each of the `fitting` worlds, in order.

    A step adds one pod, or where filters only look at room many: if the preemptor fits beside them,
    it also fits beside fewer. Such a step ends with the next pod that cannot stay by what the pods
    request (`_foreseen`). If the preemptor does not fit, that pod is taken for a victim. In the end
    the preemptor must fit beside all pods that have stayed; where it does not, the foresight was
    wrong, and the pods are put back one by one.
    """

    def __init__(
        self, worlds: Worlds, fitting: IntArray, pods: PodsByWorld, preemptor: PodInfo
    ) -> None:
        self._worlds: Final = worlds
        self._fitting: Final = fitting
        self._pods: Final = pods
        self._preemptor: Final = preemptor
        self._worlds_total: Final = len(worlds.nodes)
        self._ends: Final[IntArray] = pods.starts + pods.counts
        #: The position of the next pod of each world.
        self._next: Final[IntArray] = pods.starts.copy()
        #: The end of a step that begins with a pod.
        self._stops: Final[IntArray] = np.arange(1, len(pods.pods) + 1)
        #: True for worlds in which the preemptor fits beside all pods that have stayed.
        self._is_proven: Final[BoolArray] = np.ones(len(fitting), dtype=np.bool_)
        #: True for each pod that cannot stay.
        self.is_victim: Final[BoolArray] = np.zeros(len(pods.pods), dtype=np.bool_)

    def run(self) -> None:
        """Put back every pod with which the preemptor still fits."""
        if self._worlds.only_room:
            self._set_stops()
        self._put_back_all()
        unproven = np.flatnonzero(~self._is_proven)
        if len(unproven) and len(wrong := unproven[~self._fits(unproven)]):
            self._start_again(wrong)
            self._put_back_all()

    def _set_stops(self) -> None:
        """Let each step end with a pod that cannot stay, or with the last pod of its world."""
        ends = self._foreseen()
        ends[self._ends - 1] = True
        stops = np.where(ends, self._stops, len(ends))
        self._stops[:] = np.minimum.accumulate(stops[::-1])[::-1]

    def _foreseen(self) -> BoolArray:
        """Flag the pods that cannot stay if filters look at requests and host ports only."""
        pods = self._pods
        needs, room = self._needs(), self._room()
        before = needs.cumsum(axis=1) - needs
        used = before - np.repeat(before[:, pods.starts], pods.counts, axis=1) + needs
        left, worlds = np.repeat(room, pods.counts, axis=1) - used, pods.worlds
        foreseen = np.zeros(len(pods.pods), dtype=np.bool_)
        while len(short := np.flatnonzero((left < 0).any(axis=0))):
            first = short[run_starts(worlds[short])]
            foreseen[first] = True
            freed = np.zeros_like(room)
            freed[:, worlds[first]] = needs[:, first]
            left += np.repeat(freed, pods.counts, axis=1)
        return foreseen

    def _needs(self) -> IntArray:
        """Return the amounts that each pod takes: a row per resource of the preemptor's requests.

        One more row counts the pod itself, and one flags a conflict of host ports.
        """
        requests = [pod.requests for pod in self._pods.pods]
        number_of = {each: number for number, each in enumerate(dict.fromkeys(requests))}
        numbers = np.fromiter(map(number_of.__getitem__, requests), np.int64, count=len(requests))
        rows = [[each[name] for each in number_of] for name in self._preemptor.spec_requests]
        needs = np.array([*rows, [1] * len(number_of)], dtype=np.int64).take(numbers, axis=1)
        if not self._preemptor.host_ports:
            return needs
        wanted = self._preemptor.host_ports
        ports = [conflicts(wanted, pod.host_ports) for pod in self._pods.pods]
        return np.vstack([needs, np.array(ports, dtype=np.int64)])

    def _room(self) -> IntArray:
        """Return the amounts that are left in each world beside the preemptor, in the same rows.

        Filters do not look at a resource that is short although the preemptor fits.
        """
        nodes = self._worlds.nodes.take(self._fitting)
        wanted = self._preemptor.spec_requests
        rows = [nodes.unrequested(name) - amount for name, amount in wanted.items()]
        rows.append(nodes.allocatable(resources.PODS) - nodes.pod_count - 1)
        if self._preemptor.host_ports:
            rows.append(np.zeros(len(nodes), dtype=np.int64))
        room = np.array(rows)
        room[room < 0] = _UNLIMITED
        return room

    def _put_back_all(self) -> None:
        while len(active := np.flatnonzero(self._next < self._ends)):
            if self._worlds.failures:
                broken = np.fromiter(self._worlds.failures, dtype=np.int64)
                active = active[~np.isin(self._fitting[active], broken)]
                if not len(active):
                    break
            self._step(active)

    def _step(self, active: IntArray) -> None:
        first = self._next[active]
        stop = self._stops[first]
        sizes = stop - first
        offsets = first - (np.cumsum(sizes) - sizes)
        positions = np.repeat(offsets, sizes) + np.arange(int(sizes.sum()))
        self._worlds.add_pods(np.repeat(self._fitting[active], sizes), self._pods.at(positions))
        self._next[active] = stop
        fits = self._fits(active)
        self._is_proven[active[fits]] = True
        rejected, last = active[~fits], stop[~fits] - 1
        self._is_proven[rejected] &= sizes[~fits] == 1
        self.is_victim[last] = True
        self._worlds.remove_pods(self._fitting[rejected], self._pods.at(last))

    def _fits(self, active: IntArray) -> BoolArray:
        """Return True for the worlds among these in which the preemptor fits."""
        worlds = self._fitting[active]
        are_all = len(worlds) == self._worlds_total
        rejections = self._worlds.run_filters(None if are_all else worlds)
        return np.ones(len(active), dtype=np.bool_) if rejections is None else rejections.passed

    def _start_again(self, wrong: IntArray) -> None:
        """Remove all pods in some worlds again, and put them back one by one."""
        in_wrong = np.isin(self._pods.worlds, wrong)
        stayed = np.flatnonzero(in_wrong & ~self.is_victim)
        self._worlds.remove_pods(self._fitting[self._pods.worlds[stayed]], self._pods.at(stayed))
        self.is_victim[in_wrong] = False
        self._next[wrong] = self._pods.starts[wrong]
        self._stops[in_wrong] = np.flatnonzero(in_wrong) + 1
