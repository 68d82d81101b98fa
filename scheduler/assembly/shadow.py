"""Shadow mode: decide the pods that another scheduler handles, write nothing, and compare.

A binding is compared when its watch event arrives, before the cache has it: the decision is made
over the cluster as it is seen at that moment. A pod that the other scheduler reports unschedulable
is decided at each such report. Nothing is kept per pod; the queue is empty.

Another scheduler decides a pod before the bindings of earlier pods have arrived, and bindings
arrive in any order. So a disagreement waits for a second, and the pod is decided once more over the
cluster in which the bindings of that time are in the order of the queue: by priority, then by the
resource version that the pods had before. If that decision agrees, the agreement is `concurrent`.
A pod that the other scheduler names a node for, and waits in PreBind, counts as on that node.
Extenders and PreEnqueue, Reserve, Permit, PreBind and preemption are not called.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import msgspec

from scheduler.api.core import Pod
from scheduler.framework.cycle_state import CycleState
from scheduler.reports.build import cluster_without
from scheduler.reports.comparison import AGREEMENTS, compare
from scheduler.reports.decision import decide, result_of
from scheduler.snapshot.pod_info import PodInfo, priority_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from scheduler.api.core import PodCondition
    from scheduler.cache import Cache
    from scheduler.client import Informer
    from scheduler.clock import Clock
    from scheduler.metrics import SchedulerMetrics
    from scheduler.queue import Nominator
    from scheduler.reports.model import Comparison
    from scheduler.runtime import Framework
    from scheduler.snapshot import Snapshot

_log: Final = logging.getLogger(__name__)

_DISAGREEMENTS_MAX: Final = 500
_LATEST_MAX: Final = 100
_UNSETTLED_MAX: Final = 1_000
_BINDINGS_MAX: Final = 1_000
#: Bindings that arrive within this time may have been decided in another order.
_CONCURRENT_SECONDS: Final = 1.0
_NEVER_TRIED: Final = Pod()


@dataclass(frozen=True, slots=True)
class ShadowOptions:
    """The options of shadow mode: `log` gets a line of JSON per comparison."""

    log: BinaryIO | None = None


class _Seen(NamedTuple):
    """A pod before its binding or at a report that it is unschedulable, and the bound pod."""

    monotonic: float
    pod: Pod
    bound: PodInfo | None
    their_message: str = ""

    @property
    def node(self) -> str:
        return "" if self.bound is None else self.bound.spec.node_name

    @property
    def position(self) -> tuple[int, int]:
        """The position in the queue: the priority, then the version of the pod."""
        version = self.pod.metadata.resource_version
        return -priority_of(self.pod), int(version) if version.isdecimal() else 0


@dataclass(slots=True, kw_only=True)
class Shadow:
    """Compares the decisions of other schedulers with ours, for the scheduler names of `profiles`.

    Its event handler must be called before the one that updates the cache.
    """

    options: ShadowOptions
    profiles: Mapping[str, Framework]
    cache: Cache
    snapshot: Snapshot
    nominator: Nominator
    pods: Informer[Pod]
    metrics: SchedulerMetrics
    clock: Clock
    _is_started: bool = field(default=False, init=False)
    _disagreements: deque[Comparison] = field(
        default_factory=lambda: deque(maxlen=_DISAGREEMENTS_MAX), init=False
    )
    #: Disagreements that will be decided again, and the last bindings: both bounded.
    _unsettled: deque[tuple[_Seen, Comparison]] = field(default_factory=deque, init=False)
    _bindings: deque[_Seen] = field(default_factory=lambda: deque(maxlen=_BINDINGS_MAX), init=False)
    _latest: deque[Comparison] = field(
        default_factory=lambda: deque(maxlen=_LATEST_MAX), init=False
    )

    @property
    def is_idle(self) -> bool:
        """True if no disagreement waits to be decided again."""
        return not self._unsettled

    async def run(self) -> NoReturn:
        """Decide the pending pods of the first lists, and from now on every pod."""
        self._start()
        while True:
            await self.clock.sleep(_CONCURRENT_SECONDS / 4)
            before = self.clock.monotonic() - _CONCURRENT_SECONDS
            while self._unsettled and self._unsettled[0][0].monotonic <= before:
                self._settle(*self._unsettled.popleft())
                # Watch events are handled in between.
                await asyncio.sleep(0)

    def _start(self) -> None:
        self._is_started = True
        for pod in self.pods.lister.list():
            if not pod.spec.node_name:
                self._decide_pending(pod)

    def on_add(self, pod: Pod, *, is_initial: bool) -> None:
        """Note a nomination. The first lists are decided by `start`."""
        if pod.spec.node_name:
            return
        if self._is_shadowed(pod):
            self._note_nomination(None, pod)
        if not is_initial:
            self._decide_pending(pod)

    def on_update(self, old: Pod, new: Pod) -> None:
        if old.metadata.uid != new.metadata.uid:
            self.on_delete(old, final_state_unknown=True)
            self.on_add(new, is_initial=False)
        elif old.spec.node_name or not self._is_shadowed(old):
            return
        elif node := new.spec.node_name:
            self._forget(old)
            pod = old if old.status.nominated_node_name == node else _free(old)
            self._decide(_Seen(self.clock.monotonic(), pod, PodInfo(new)))
        else:
            self._note_nomination(old, new)
            if _unschedulable(new) not in (None, _unschedulable(old)):
                self._decide_pending(new)

    def on_delete(self, pod: Pod, *, final_state_unknown: bool) -> None:
        del final_state_unknown
        self._forget(pod)

    def as_json(self) -> bytes:
        """Return the page /debug/shadow: counts, and the latest disagreements and comparisons."""
        counts: dict[str, dict[str, int]] = {}
        for (agreement, profile), number in self.metrics.shadow_decisions.items():
            counts.setdefault(profile, {})[agreement] = int(number)
        content = {
            "decisions": counts,
            "disagreements": [*reversed(self._disagreements)],
            "latest": [*reversed(self._latest)],
        }
        return msgspec.json.encode(content)

    def _note_nomination(self, old: Pod | None, new: Pod) -> None:
        """Assume a pod on the node for which it waits in PreBind, or expect it there.

        Preemption names a node with a new condition, PreBind without one. Only the latter counts
        in scores, as the other scheduler has assumed the pod.
        """
        node, before = new.status.nominated_node_name, old or _NEVER_TRIED
        has_failed = _scheduled(new) != _scheduled(before)
        if node == before.status.nominated_node_name and not has_failed:
            self.nominator.refresh(PodInfo(new))
            return
        self._forget(new)
        if node and not has_failed:
            assumed = PodInfo(new).assigned_to(node)
            self.cache.assume_pod(assumed)
            self._bindings.append(_Seen(self.clock.monotonic(), old or new, assumed))
        else:
            self.nominator.add_nominated_pod(PodInfo(new), None)

    def _forget(self, pod: Pod) -> None:
        self.nominator.forget(pod.metadata.uid)
        assumed = self.cache.get_pod(pod)
        if assumed is not None and self.cache.is_assumed_pod(pod):
            self.cache.forget_pod(assumed)

    def _is_shadowed(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self.profiles

    def _decide_pending(self, pod: Pod) -> None:
        condition = _unschedulable(pod)
        if condition is not None and self._is_shadowed(pod):
            self._decide(_Seen(self.clock.monotonic(), _free(pod), None, condition.message))

    def _decide(self, seen: _Seen) -> None:
        """Compare a decision at once; a disagreement waits until concurrent bindings are seen."""
        if not self._is_started:
            return
        comparison = self._compared(seen)
        if comparison.agreement in AGREEMENTS:
            self._report(comparison)
        else:
            self._unsettled.append((seen, comparison))
            if len(self._unsettled) > _UNSETTLED_MAX:
                self._report(self._unsettled.popleft()[1])
        if seen.bound is not None:
            self._bindings.append(seen)

    def _compared(self, seen: _Seen) -> Comparison:
        self.cache.update_snapshot(self.snapshot)
        pod, pods = seen.pod, self.pods.lister
        framework = self.profiles[pod.spec.scheduler_name]
        with cluster_without(PodInfo(pod), self.snapshot, pods=pods) as waiting:
            decision = result_of(decide(self.snapshot, framework, CycleState(), waiting))
            return compare(
                decision,
                self.snapshot,
                node=seen.node,
                their_message=seen.their_message,
                now=self.clock.now(),
            )

    def _settle(self, seen: _Seen, first: Comparison) -> None:
        """Decide again with the bindings of the same time in the order of the queue."""
        self.cache.update_snapshot(self.snapshot)
        with self.snapshot.unchanged_pods():
            for other in (seen, *self._bindings):
                concurrent = other.monotonic >= seen.monotonic - _CONCURRENT_SECONDS
                if other is seen or (concurrent and other.position > seen.position):
                    self._take_out(other)
            again = self._compared(seen)
        if again.agreement not in AGREEMENTS:
            self._report(first)
            return
        answer = f"{again.answer}, with concurrent bindings in the order of the queue"
        settled = msgspec.structs.replace(again, agreement="concurrent", answer=answer)
        self._report(settled)

    def _take_out(self, seen: _Seen) -> None:
        row = self.snapshot.table.row_of.get(seen.node)
        if seen.bound is None or row is None:
            return
        if seen.bound.uid in self.snapshot.table.pods[row]:
            self.snapshot.remove_pod(seen.bound)

    def _report(self, comparison: Comparison) -> None:
        agreement = comparison.agreement
        self.metrics.shadow_decisions[agreement, comparison.scheduler_name] += 1
        self._latest.append(comparison)
        if agreement not in AGREEMENTS:
            self._disagreements.append(comparison)
        if (log := self.options.log) is not None:
            try:
                log.write(msgspec.json.encode(comparison) + b"\n")
                log.flush()
            except OSError as error:
                _log.error("The shadow log cannot be written", {"err": error})


def _scheduled(pod: Pod) -> PodCondition | None:
    """Return the condition of a pod that its scheduler has tried in vain or bound."""
    return next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)


def _unschedulable(pod: Pod) -> PodCondition | None:
    """Return the condition of a pod for which its scheduler has found no node."""
    condition = _scheduled(pod)
    return condition if condition is not None and condition.reason == "Unschedulable" else None


def _free(pod: Pod) -> Pod:
    """Return the pod without its nomination, so that all nodes are searched."""
    if not pod.status.nominated_node_name:
        return pod
    status = msgspec.structs.replace(pod.status, nominated_node_name="")
    return msgspec.structs.replace(pod, status=status)
