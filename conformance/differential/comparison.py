"""Compare two observations of one scenario pod by pod, and judge each difference.

    two observations --Run--> decisions with steps --differences--> differences, the earliest first
                     --questions--> kubesched-explain --verdicts--> chance | differs | ...

A pod is nominated, bound or left waiting in the same step on both sides, or there is a difference.
Each side's decision is then decided again with the configuration of the other side, over the
cluster at the moment of the decision; a pod that waits is decided at the end of the step. A wrong
decision differs. If both are right, then it is chance if the two nodes are both among the best.
After a choice by chance the clusters differ, so that later pods differ too, which is also chance.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from ..format.reading import reasons_in, text_in
from ..format.resources import part
from ..judge.referee import Answer, Question
from ..judge.stories import story_lines
from ..outcome import Verdict as Ending
from .decisions import Decision, Run, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..format.case import Case
    from ..run.observation import Observation
    from .decisions import Life
    from .sides import Side

#: Differences of one scenario that are judged; the first ones explain those after them.
_JUDGED_MAX: Final = 20
#: Kinds on which no decision depends.
_LEFT_OUT: Final = frozenset({"Event", "Lease"})
#: In real time a pod may be tried later: after the longest backoff (10 s), as soon as it is seen.
_RETRY_SECONDS_MAX: Final = 12.0
_REQUESTS: Final = "requests"
_FAULTS: Final = "faults"


class Verdict(enum.Enum):
    """The verdict on a difference; a scenario has the gravest verdict of its differences.

    CHANCE: both nodes are among the best, or it follows from such a choice. TIMING: the same
    decision at another moment, which is left to schedulers in real time; or a report that was not
    renewed.
    """

    SAME = "same"
    CHANCE = "chance"
    TIMING = "at another time"
    SKIPPED = "skipped"
    PERHAPS = "differs, perhaps by chance"
    DIFFERS = "differs"

    @property
    def is_divergence(self) -> bool:
        return self in (Verdict.PERHAPS, Verdict.DIFFERS)


_GRAVEST_FIRST: Final = (Verdict.DIFFERS, Verdict.PERHAPS, Verdict.TIMING, Verdict.CHANCE)


class _Judgement(enum.Enum):
    """A decision judged with the other side's configuration; LATE: the pod could have a node."""

    RIGHT = enum.auto()
    LATE = enum.auto()
    UNKNOWN = enum.auto()
    WRONG = enum.auto()


@dataclass(slots=True, kw_only=True)
class Difference:
    """A pod on which the sides decide differently.

    `aspect` is placement, preemption, message or requests; `step` the place of the earlier
    decision. If the side that waits decides the same in a later step, `delay_seconds` is the time
    until then. With `counts_if_wrong` both decide the same, and one of them has reported before
    that there is no node.
    """

    pod: str
    aspect: str
    a: Decision
    b: Decision
    step: str = ""
    delay_seconds: float | None = None
    counts_if_wrong: bool = False
    verdict: Verdict = Verdict.PERHAPS
    #: Each side's explanation: its own story if it serves one, and the referee's answers.
    story_a: list[str] = field(default_factory=list)
    story_b: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Comparison:
    """One scenario through both sides; `problem` is the reason why a run did not end well."""

    case: Case
    a: Observation
    b: Observation
    differences: list[Difference]
    problem: str = ""
    skipped: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.skipped:
            return Verdict.SKIPPED
        if self.problem:
            return Verdict.DIFFERS
        verdicts = {difference.verdict for difference in self.differences}
        return next((worst for worst in _GRAVEST_FIRST if worst in verdicts), Verdict.SAME)

    @property
    def first_divergence(self) -> Difference | None:
        """The earliest difference that is not chance."""
        return next((diff for diff in self.differences if diff.verdict.is_divergence), None)


def compare(case: Case, a: Observation, b: Observation) -> Comparison:
    """Return the differences of two observations, the earliest decision of A first."""
    skipped, problem = "", ""
    for name, seen in (("A", a), ("B", b)):
        if seen.outcome.verdict is Ending.SKIPPED:
            skipped = skipped or f"{name}: {seen.outcome.reason}"
    ends = [seen.outcome.reason for seen in (a, b)]
    if not skipped and ends[0] != ends[1]:
        problem = "; ".join(f"{name}: {end}" for name, end in zip("AB", ends, strict=True) if end)
    diffs = [] if skipped else _differences(case, a, b)
    if not diffs and not skipped and ends[0] and not problem:
        skipped = f"both: {ends[0]}"
    if a.shares_nodes or b.shares_nodes:
        # The messages of one side count nodes that the other side does not have.
        diffs = [diff for diff in diffs if diff.aspect != "message"]
    return Comparison(case=case, a=a, b=b, differences=diffs, problem=problem, skipped=skipped)


def _differences(case: Case, a: Observation, b: Observation) -> list[Difference]:
    is_exact = not (a.in_real_time or b.in_real_time)
    run_a, run_b = (Run(seen, case, is_exact=is_exact) for seen in (a, b))
    ours, theirs = run_a.lives, run_b.lives
    diffs: list[Difference] = []
    for name in dict.fromkeys([*ours, *theirs]):
        life_a, life_b = ours.get(name), theirs.get(name)
        if life_a is not None and life_b is not None:
            diffs += _of_pod(name, (run_a, life_a), (run_b, life_b))
        else:
            left, right = (
                Decision(end="never created") if life is None else life.last
                for life in (life_a, life_b)
            )
            diffs.append(Difference(pod=name, aspect="placement", a=left, b=right))
    if a.writes is not None and b.writes is not None:
        diffs += _requests(run_a, run_b)
    for difference in diffs:
        key = difference.pod.partition(" ")[0]
        difference.story_a = story_lines(a.stories.get(key, {}))
        difference.story_b = story_lines(b.stories.get(key, {}))
    return sorted(diffs, key=lambda each: _moment(each.a, each.b))


def _moment(a: Decision, b: Decision) -> tuple[float, float, int]:
    """Return the position of a difference: the earlier of the two decisions."""
    seconds = [side.seconds for side in (a, b) if side.version and not side.is_waiting]
    return min(seconds, default=max(a.seconds, b.seconds)), a.seconds, a.version


def _of_pod(name: str, a: tuple[Run, Life], b: tuple[Run, Life]) -> Iterator[Difference]:
    """Yield the differences in the decisions on one pod: the first preemption, and the end."""
    (_, life_a), (_, life_b) = a, b
    preempts_differently = False
    for left, right in zip_longest(life_a.nominations, life_b.nominations):
        if not _are_alike(left, right):
            preempts_differently = True
            yield _paired(name, "preemption", a, b, (left, right))
            break
    left, right = life_a.bound, life_b.bound
    if left is None and right is None:
        if not preempts_differently and life_a.last.facts != life_b.last.facts:
            ends = life_a.last.end, life_b.last.end
            aspect = "message" if ends[0] == ends[1] else "placement"
            yield Difference(pod=name, aspect=aspect, a=life_a.last, b=life_b.last)
    elif not _are_alike(left, right):
        yield _paired(name, "placement", a, b, (left, right))
    elif left is not None and right is not None:
        reports = life_a.rejection_before_binding, life_b.rejection_before_binding
        if (reports[0] is None) != (reports[1] is None):
            yield Difference(
                pod=name,
                aspect="placement",
                a=reports[0] or left,
                b=reports[1] or right,
                step=a[0].place_of((reports[0] or left).version),
                counts_if_wrong=True,
            )


def _are_alike(left: Decision | None, right: Decision | None) -> bool:
    if left is None or right is None:
        return left is right
    return (left.facts, left.step) == (right.facts, right.step)


def _paired(
    name: str,
    aspect: str,
    a: tuple[Run, Life],
    b: tuple[Run, Life],
    decisions: tuple[Decision | None, Decision | None],
) -> Difference:
    """Return a difference at the step of the earlier decision, where the other side may wait."""
    earlier = min(decision.step for decision in decisions if decision is not None)
    sides = [
        decision
        if decision is not None and decision.step == earlier
        else run.standing(life, earlier)
        for (run, life), decision in zip((a, b), decisions, strict=True)
    ]
    first, (run, _) = next(
        (side, owner) for side, owner in zip(sides, (a, b), strict=True) if not side.is_waiting
    )
    difference = Difference(
        pod=name, aspect=aspect, a=sides[0], b=sides[1], step=run.place_of(first.version)
    )
    left, right = decisions
    if left is not None and right is not None and left.facts == right.facts:
        delays = (
            decision.seconds - side.seconds
            for side, decision in zip(sides, (left, right), strict=True)
        )
        difference.delay_seconds = max(delays)
    return difference


def _requests(a: Run, b: Run) -> Iterator[Difference]:
    """Yield the pods for which one side has asked for more than its decisions need."""
    asked_a, asked_b = a.unexplained_requests(), b.unexplained_requests()
    for key in dict.fromkeys([*asked_a, *asked_b]):
        left, right = asked_a.get(key, Counter()), asked_b.get(key, Counter())
        if left != right:
            ends = (Decision(end=f"besides its decisions: {counted(one)}") for one in (left, right))
            yield Difference(pod=key, aspect=_REQUESTS, a=next(ends), b=next(ends))


def questions_of(comparison: Comparison, a: Side, b: Side) -> list[Question | None]:
    """Return four questions for each difference that is judged: each decision, by A and by B."""
    return [
        _question(seen, decision, comparison.case, side)
        for difference in comparison.differences[:_JUDGED_MAX]
        for seen, decision in ((comparison.a, difference.a), (comparison.b, difference.b))
        for side in (a, b)
    ]


def _question(seen: Observation, decision: Decision, case: Case, side: Side) -> Question | None:
    """Return the question about a decision just before it; None without a decision."""
    adapted = side.adapted(case)
    if not decision.version or adapted.extenders:
        return None
    pod, others = None, []
    for obj in seen.objects_before(decision.version):
        if text_in(part(obj, "metadata"), "uid") == decision.uid:
            pod = obj
        elif obj["kind"] not in _LEFT_OUT:
            others.append(obj)
    if pod is None or "schedulingGroup" in part(pod, "spec"):
        # One pod of a group is not decided by itself.
        return None
    return Question(
        objects=others,
        pod=pod,
        config=adapted.config,
        gates=adapted.gates,
        plugins=tuple(dict.fromkeys((*side.plugins, *case.plugins))),
        version=side.version,
    )


def judge(
    comparison: Comparison,
    questions: Sequence[Question | None],
    answers: Sequence[Answer | None],
) -> None:
    """Set the verdicts of a comparison. `questions` come from `questions_of`."""
    judged = comparison.differences[:_JUDGED_MAX]
    follows_chance = False
    for index, difference in enumerate(judged):
        part = slice(4 * index, 4 * index + 4)
        difference.lines = _explained(difference, answers[part])
        difference.verdict = _verdict(
            difference, comparison, questions[part], answers[part], follows_chance=follows_chance
        )
        follows_chance = follows_chance or difference.verdict is Verdict.CHANCE
    # Differences after the judged ones follow from them, if none of those is grave.
    rest = comparison.differences[_JUDGED_MAX:]
    is_harmless = not any(difference.verdict.is_divergence for difference in judged)
    for difference in rest:
        difference.verdict = Verdict.CHANCE if is_harmless else Verdict.PERHAPS
    comparison.differences = [
        difference
        for difference in comparison.differences
        if difference.verdict is not Verdict.SAME
    ]


def _explained(difference: Difference, answers: Sequence[Answer | None]) -> list[str]:
    a_by_a, a_by_b, _, b_by_b = answers
    return [
        *_lines("A", difference, a_by_a, over="A"),
        *_lines("B", difference, a_by_b or b_by_b, over="A" if a_by_b else "B"),
    ]


def _verdict(
    difference: Difference,
    comparison: Comparison,
    questions: Sequence[Question | None],
    answers: Sequence[Answer | None],
    *,
    follows_chance: bool,
) -> Verdict:
    in_real_time = comparison.a.in_real_time or comparison.b.in_real_time
    if difference.aspect == _REQUESTS:
        is_by_chance = in_real_time and _FAULTS in comparison.case.labels
        return Verdict.PERHAPS if is_by_chance else Verdict.DIFFERS
    a, b = difference.a, difference.b
    found = {_judged(a, answers[1], questions[1]), _judged(b, answers[2], questions[2])}
    if _Judgement.WRONG in found:
        return Verdict.DIFFERS
    if difference.counts_if_wrong:
        return Verdict.SAME
    if _Judgement.UNKNOWN in found:
        return Verdict.PERHAPS
    if _Judgement.LATE in found:
        return _verdict_on_delay(
            difference, comparison, in_real_time=in_real_time, follows_chance=follows_chance
        )
    if follows_chance or (a.node and b.node and a.is_nomination == b.is_nomination):
        return Verdict.CHANCE
    is_report = difference.aspect == "message"
    return Verdict.TIMING if is_report or in_real_time else Verdict.PERHAPS


def _judged(decision: Decision, answer: Answer | None, question: Question | None) -> _Judgement:
    """Judge a decision by the answer with the other side's configuration."""
    if not decision.version:
        # A pod may be gone before its turn by chance; a pod is not left alone by chance.
        return _Judgement.UNKNOWN if decision.end else _Judgement.WRONG
    if answer is None or question is None or answer.result == "error":
        return _Judgement.UNKNOWN
    right = _Judgement.RIGHT
    nominated = answer.post_filter.nominated_node if answer.post_filter is not None else ""
    fits = answer.result == "scheduled" or bool(nominated)
    if decision.is_waiting:
        return _Judgement.LATE if fits else right
    if decision.is_nomination:
        victims = answer.post_filter.victims if answer.post_filter is not None else ()
        is_right = (nominated, tuple(sorted(victims))) == (decision.node, decision.victims)
        return right if is_right else _Judgement.WRONG
    if decision.node in answer.best:
        return right
    if decision.node:
        # Of many nodes a scheduler looks at some only, by chance.
        samples = not question.searches_all_nodes and decision.node in answer.total
        return _Judgement.UNKNOWN if samples else _Judgement.WRONG
    alike = not fits and reasons_in(answer.message) == decision.message
    return right if alike else _Judgement.WRONG


def _verdict_on_delay(
    difference: Difference, comparison: Comparison, *, in_real_time: bool, follows_chance: bool
) -> Verdict:
    """Judge a side that lets a pod wait which could have a node."""
    if not in_real_time:
        # After a choice by chance the backoffs may differ.
        return Verdict.PERHAPS if follows_chance else Verdict.DIFFERS
    if difference.delay_seconds is not None:
        is_soon = difference.delay_seconds <= _RETRY_SECONDS_MAX
        return Verdict.TIMING if is_soon else Verdict.DIFFERS
    decided, seen = (
        (difference.b, comparison.a) if difference.a.is_waiting else (difference.a, comparison.b)
    )
    is_recent = seen.end_seconds - decided.seconds <= _RETRY_SECONDS_MAX
    return Verdict.PERHAPS if is_recent else Verdict.DIFFERS


def _lines(name: str, difference: Difference, answer: Answer | None, *, over: str) -> list[str]:
    """Return an answer with a configuration as lines: both sides' nodes."""
    if answer is None:
        return []
    head = f"with the configuration of {name}, over the cluster of {over}:"
    nodes = dict.fromkeys(side.node for side in (difference.a, difference.b) if side.node)
    lines = [answer.about(node) for node in nodes]
    if not lines or answer.result != "scheduled":
        lines.append(f"{answer.result}: {answer.message}".rstrip(": "))
    if answer.post_filter is not None and answer.post_filter.nominated_node:
        victims = ", ".join(answer.post_filter.victims)
        lines.append(f"preemption: {answer.post_filter.nominated_node} for {victims}")
    return [head, *(f"  {line}" for line in lines)]
