"""The decisions on each pod in an observed run, one after another, each with its step.

    Observation --Run--> Life: nominations with victims, the binding, reports; requests without one

If both schedulers share the suite's clock, each step of the case is a step of its own. A scheduler
in real time reacts while the next steps are carried out already, so there the steps up to a pause
are one.
"""

from __future__ import annotations

import bisect
import collections
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..format.expectation import Expectation
from ..format.reading import reasons_in
from ..format.steps import Advance, Settle, in_order

if TYPE_CHECKING:
    from collections import Counter

    from ..format.case import Case
    from ..run.observation import Observation, PodRecord, Rejection

_PENDING: Final = "pending"
#: Victims are chosen shortly before or after the nomination is written.
_AT_ONCE_SECONDS: Final = 1.0
_POD_PATH: Final = ("", "api", "v1", "namespaces")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One side's decision on a pod: a node, victims, or a message.

    `version` is the resource version of the change with the decision; 0 without a decision. With
    `is_waiting` nothing was decided, and the pod waited for a node at the end of the step; then
    `version` is that of the next step's first change.
    """

    uid: str = ""
    version: int = 0
    seconds: float = 0.0
    step: int = 0
    node: str = ""
    victims: tuple[str, ...] = ()
    message: str = ""
    end: str = ""
    is_nomination: bool = False
    is_waiting: bool = False

    def __str__(self) -> str:
        if self.is_nomination:
            return f"{self.node} instead of {', '.join(self.victims) or 'no pod'}"
        return self.node or " ".join(filter(None, (self.end or _PENDING, self.message)))

    @property
    def facts(self) -> tuple[object, ...]:
        """The part that two sides have in common if they decide alike."""
        return self.node, self.is_nomination, self.victims, self.message, self.end


@dataclass(slots=True, kw_only=True)
class Life:
    """The decisions on one pod in their order; `last` is the final one, perhaps a report."""

    pod: PodRecord
    last: Decision
    bound: Decision | None = None
    nominations: list[Decision] = field(default_factory=list)
    #: The steps in which the pod was reported to have no node.
    rejections: list[Decision] = field(default_factory=list)
    deleted_step: int | None = None

    @property
    def rejection_before_binding(self) -> Decision | None:
        """The report within the step in which the pod was bound; None if there is none."""
        assert self.bound is not None, "asked of bound pods only"
        of_step = (report for report in self.rejections if report.step == self.bound.step)
        return next(of_step, None)


class Run:
    """An observed run of a case as steps with decisions; `is_exact` if every step counts."""

    def __init__(self, seen: Observation, case: Case, *, is_exact: bool) -> None:
        self.seen = seen
        pauses = {
            step.where
            for step in in_order(case.steps)
            if isinstance(step.action, Advance | Settle | Expectation)
        }
        self._starts = [
            first
            for number, (_, first) in enumerate(seen.steps)
            if is_exact or number == 0 or seen.steps[number - 1][0] in pauses
        ]
        self._versions = [change.resource_version for change in seen.changes]

    @functools.cached_property
    def lives(self) -> dict[str, Life]:
        """The pods by key; a pod that is created again has its number behind the key."""
        by_name: dict[str, Life] = {}
        times: Counter[str] = collections.Counter()
        for pod in self.seen.pods:
            times[pod.key] += 1
            name = f"{pod.key} #{times[pod.key]}" if times[pod.key] > 1 else pod.key
            by_name[name] = self._life(pod)
        return by_name

    def place_of(self, version: int) -> str:
        """Return the place of the step in which a change was made; empty before the first one."""
        index = bisect.bisect_left(self._versions, version)
        firsts = [first for _, first in self.seen.steps]
        number = bisect.bisect_right(firsts, index) - 1
        return self.seen.steps[number][0] if number >= 0 else ""

    def standing(self, life: Life, step: int) -> Decision:
        """Return what has become of a pod by the end of a step."""
        if life.bound is not None and life.bound.step <= step:
            return life.bound
        uid = life.pod.uid
        if life.deleted_step is not None and life.deleted_step <= step:
            return Decision(uid=uid, end="deleted", step=step)
        version = self._version_after(step)
        reports = [report.message for report in life.rejections if report.step <= step]
        return Decision(
            uid=uid,
            version=version,
            seconds=self._seconds_before(version),
            step=step,
            message=reports[-1] if reports else "",
            is_waiting=True,
        )

    def unexplained_requests(self) -> dict[str, Counter[str]]:
        """Return the requests by pod that no decision explains: bindings and deletions.

        A binding is one request, and so is a deletion of a victim. Empty in a running cluster.
        """
        by_pod: dict[str, Counter[str]] = collections.defaultdict(collections.Counter)
        for write in self.seen.writes or ():
            words = tuple(write.path.partition("?")[0].split("/"))
            asked = ""
            if words[:4] == _POD_PATH and words[5:6] == ("pods",):
                is_binding = write.method == "POST" and words[7:] == ("binding",)
                is_deletion = write.method == "DELETE" and len(words) == 7
                asked = "binding" if is_binding else "deletion" if is_deletion else ""
            if asked:
                refused = "" if write.status < 300 else f" (answer {write.status})"
                by_pod[f"{words[4]}/{words[6]}"][f"{asked}{refused}"] += 1
        for pod in self.seen.pods:
            by_pod[pod.key]["binding"] -= pod.by_scheduler
            by_pod[pod.key]["deletion"] -= pod.preempted_seconds is not None
        return {key: +counts for key, counts in by_pod.items()}

    def _step_of(self, version: int) -> int:
        index = bisect.bisect_left(self._versions, version)
        return max(bisect.bisect_right(self._starts, index) - 1, 0)

    def _version_after(self, step: int) -> int:
        """Return a version that all changes up to the end of a step are before."""
        first = self._starts[step + 1] if step + 1 < len(self._starts) else len(self._versions)
        if first < len(self._versions):
            return self._versions[first]
        return self._versions[-1] + 1 if self._versions else 1

    def _seconds_before(self, version: int) -> float:
        index = bisect.bisect_left(self._versions, version) - 1
        return self.seen.changes[index].seconds - self.seen.started_seconds if index >= 0 else 0.0

    def _life(self, pod: PodRecord) -> Life:
        life = Life(
            pod=pod,
            last=self._last(pod),
            nominations=self._nominations(pod),
            rejections=[
                self._reported(pod, report)
                for report in pod.rejections
                if not report.nominated_node
            ],
            deleted_step=self._step_of(pod.deleted_version) if pod.deleted_version else None,
        )
        if pod.node:
            life.bound = life.last
        return life

    def _last(self, pod: PodRecord) -> Decision:
        if pod.node:
            return Decision(
                uid=pod.uid,
                version=pod.bound_version,
                seconds=pod.bound_seconds or 0.0,
                step=self._step_of(pod.bound_version),
                node=pod.node,
            )
        end = "deleted" if pod.deleted_seconds is not None else ""
        if not pod.rejections:
            return Decision(uid=pod.uid, end=end)
        report = pod.rejections[-1]
        return self._reported(pod, report, end=end)

    def _reported(self, pod: PodRecord, report: Rejection, *, end: str = "") -> Decision:
        return Decision(
            uid=pod.uid,
            version=report.version,
            seconds=report.seconds,
            step=self._step_of(report.version),
            message="" if end else reasons_in(report.message),
            end=end,
        )

    def _nominations(self, pod: PodRecord) -> list[Decision]:
        """Return a pod's nominations with their victims; a repeated one counts once."""
        nominations: list[Decision] = []
        for report in pod.nominations:
            if nominations and nominations[-1].node == report.nominated_node:
                continue
            victims = [
                victim
                for victim in self.seen.preempted
                if victim.node == report.nominated_node
                and self._is_preempted_by(victim, pod, report.seconds)
            ]
            version = min([report.version, *(victim.preempted_version for victim in victims)])
            nominations.append(
                Decision(
                    uid=pod.uid,
                    version=version,
                    seconds=report.seconds,
                    step=self._step_of(version),
                    node=report.nominated_node,
                    is_nomination=True,
                    victims=tuple(sorted(victim.key for victim in victims)),
                )
            )
        return nominations

    def _is_preempted_by(self, victim: PodRecord, pod: PodRecord, nominated_seconds: float) -> bool:
        """True if an event has the pod as the preemptor; without an event, if both were at once."""
        preemptor = self.seen.preemptors.get(victim.uid)
        if preemptor is not None:
            return preemptor == pod.uid
        return abs((victim.preempted_seconds or 0.0) - nominated_seconds) <= _AT_ONCE_SECONDS


def counted(counts: Counter[str]) -> str:
    """Return requests with their numbers as words."""
    return ", ".join(f"{number} x {name}" for name, number in sorted(counts.items())) or "none"
