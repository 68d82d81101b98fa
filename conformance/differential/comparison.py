"""Compare two observations of one scenario pod by pod, and judge each difference.

    two observations --differences--> differences, the earliest first
                     --questions--> kubesched-explain --verdicts--> chance | differs | perhaps

After a choice by chance the two clusters differ, so that later pods differ too. A difference is
chance if each side's decision is also among the best decisions for the other side's configuration,
over the cluster at the moment of the decision. Without an answer of `kubesched-explain`, or if a
scheduler looks at a part of the nodes only, the difference is perhaps chance.
"""

from __future__ import annotations

import collections
import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..judge.observe import part, text_in
from ..judge.referee import Answer, Question
from ..judge.stories import story_lines
from ..outcome import Verdict as Ending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..format.case import Case
    from ..run.observation import Observation, PodRecord
    from .sides import Side

__all__ = ["Comparison", "Decision", "Difference", "Verdict", "compare", "judge"]

#: Differences of one scenario that are judged; the first ones explain those after them.
_JUDGED_MAX: Final = 20
_PENDING: Final = "pending"
#: Kinds on which no decision depends.
_LEFT_OUT: Final = frozenset({"Event", "Lease"})
#: Victims are chosen shortly before or after the nomination is written.
_AT_ONCE_SECONDS: Final = 1.0


class Verdict(enum.Enum):
    """The verdict on a difference; a scenario has the gravest verdict of its differences."""

    SAME = "same"
    CHANCE = "chance"
    SKIPPED = "skipped"
    PERHAPS = "differs, perhaps by chance"
    DIFFERS = "differs"

    @property
    def is_divergence(self) -> bool:
        return self in (Verdict.PERHAPS, Verdict.DIFFERS)


_GRAVEST_FIRST: Final = (Verdict.DIFFERS, Verdict.PERHAPS, Verdict.CHANCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One side's decision on a pod: a node, victims, or a message.

    `version` is the resource version of the change with the decision; 0 without a decision.
    """

    uid: str = ""
    version: int = 0
    seconds: float = 0.0
    node: str = ""
    victims: tuple[str, ...] = ()
    message: str = ""
    end: str = ""
    is_nomination: bool = False

    def __str__(self) -> str:
        if self.is_nomination:
            return f"{self.node} instead of {', '.join(self.victims) or 'no pod'}"
        return self.node or " ".join(filter(None, (self.end or _PENDING, self.message)))

    @property
    def facts(self) -> tuple[object, ...]:
        """The part that two sides have in common if they decide alike."""
        return self.node, self.is_nomination, self.victims, self.message, self.end


@dataclass(slots=True, kw_only=True)
class Difference:
    """A pod on which the sides decide differently; `aspect` is placement, preemption or message."""

    pod: str
    aspect: str
    a: Decision
    b: Decision
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
    diffs = [] if skipped else _differences(a, b)
    if a.shares_nodes or b.shares_nodes:
        # The messages of one side count nodes that the other side does not have.
        diffs = [diff for diff in diffs if diff.aspect != "message"]
    return Comparison(case=case, a=a, b=b, differences=diffs, problem=problem, skipped=skipped)


def _differences(a: Observation, b: Observation) -> list[Difference]:
    ours, theirs = _by_name(a.pods), _by_name(b.pods)
    diffs: list[Difference] = []
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        pod_a, pod_b = ours.get(name), theirs.get(name)
        first = _preemption(a, pod_a), _preemption(b, pod_b)
        last = _placement(pod_a), _placement(pod_b)
        if (first[0] and first[0].facts) != (first[1] and first[1].facts):
            left, right = first[0] or last[0], first[1] or last[1]
            diffs.append(Difference(pod=name, aspect="preemption", a=left, b=right))
        elif last[0].facts != last[1].facts:
            left, right = last
            waits = not left.node and not right.node and left.end == right.end
            aspect = "message" if waits else "placement"
            diffs.append(Difference(pod=name, aspect=aspect, a=left, b=right))
    for difference in diffs:
        difference.story_a = story_lines(a.stories.get(difference.pod.partition(" ")[0], {}))
        difference.story_b = story_lines(b.stories.get(difference.pod.partition(" ")[0], {}))
    return sorted(diffs, key=lambda each: _moment(each.a, each.b))


def _moment(a: Decision, b: Decision) -> tuple[float, float, int]:
    """Return the position of a difference: the earlier of the two decisions."""
    seconds = [side.seconds for side in (a, b) if side.version]
    return min(seconds, default=0.0), a.seconds, a.version


def _by_name(pods: Sequence[PodRecord]) -> dict[str, PodRecord]:
    """Return the pods by key; a pod created again has its number behind the key."""
    by_name: dict[str, PodRecord] = {}
    times: collections.Counter[str] = collections.Counter()
    for pod in pods:
        times[pod.key] += 1
        by_name[f"{pod.key} #{times[pod.key]}" if times[pod.key] > 1 else pod.key] = pod
    return by_name


def _placement(pod: PodRecord | None) -> Decision:
    """Return the final decision on a pod."""
    if pod is None:
        return Decision(end="never created")
    if pod.node:
        return Decision(
            uid=pod.uid, version=pod.bound_version, seconds=pod.bound_seconds or 0.0, node=pod.node
        )
    end = "deleted" if pod.deleted_seconds is not None else ""
    if not pod.rejections:
        return Decision(uid=pod.uid, end=end)
    last = pod.rejections[-1]
    return Decision(
        uid=pod.uid,
        version=last.version,
        seconds=last.seconds,
        message="" if end else _head(last.message),
        end=end,
    )


def _head(message: str) -> str:
    """Return a message up to the text of PostFilter, which differs between versions."""
    return message.partition(". ")[0].rstrip(".")


def _preemption(seen: Observation, pod: PodRecord | None) -> Decision | None:
    """Return a pod's first nomination with its victims; None if there was none."""
    if pod is None or not pod.nominations:
        return None
    first = pod.nominations[0]
    victims = [
        victim
        for victim in seen.preempted
        if victim.node == first.nominated_node
        and _is_preempted_by(seen, victim, pod, first.seconds)
    ]
    return Decision(
        uid=pod.uid,
        version=min([first.version, *(victim.preempted_version for victim in victims)]),
        seconds=first.seconds,
        node=first.nominated_node,
        is_nomination=True,
        victims=tuple(sorted(victim.key for victim in victims)),
    )


def _is_preempted_by(
    seen: Observation, victim: PodRecord, pod: PodRecord, nominated_seconds: float
) -> bool:
    """True if an event has the pod as the preemptor; without an event, if both were at once."""
    preemptor = seen.preemptors.get(victim.uid)
    if preemptor is not None:
        return preemptor == pod.uid
    return abs((victim.preempted_seconds or 0.0) - nominated_seconds) <= _AT_ONCE_SECONDS


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
    if pod is None:
        return None
    return Question(
        objects=others, pod=pod, config=adapted.config, gates=adapted.gates, plugins=side.plugins
    )


def judge(
    comparison: Comparison,
    questions: Sequence[Question | None],
    answers: Sequence[Answer | None],
) -> None:
    """Set the verdicts of a comparison. `questions` come from `questions_of`."""
    judged = comparison.differences[:_JUDGED_MAX]
    for index, difference in enumerate(judged):
        part = slice(4 * index, 4 * index + 4)
        _judge_one(difference, questions[part], answers[part])
    # Differences after the judged ones follow from them, if those are all chance.
    rest = comparison.differences[_JUDGED_MAX:]
    all_chance = all(diff.verdict is Verdict.CHANCE for diff in judged)
    for difference in rest:
        difference.verdict = Verdict.CHANCE if all_chance else Verdict.PERHAPS


def _judge_one(
    difference: Difference,
    questions: Sequence[Question | None],
    answers: Sequence[Answer | None],
) -> None:
    a_by_a, a_by_b, b_by_a, b_by_b = answers
    difference.lines = [
        *_lines("A", difference, a_by_a, over="A"),
        *_lines("B", difference, a_by_b or b_by_b, over="A" if a_by_b else "B"),
    ]
    crossed = ((difference.a, a_by_b, questions[1]), (difference.b, b_by_a, questions[2]))
    verdicts = [_agreement(decision, answer, question) for decision, answer, question in crossed]
    difference.verdict = next(worst for worst in _GRAVEST_FIRST if worst in verdicts)


def _agreement(decision: Decision, answer: Answer | None, question: Question | None) -> Verdict:
    """Return CHANCE if the other side's configuration allows the same decision."""
    if not decision.version:
        # A pod may be gone before its turn by chance; a pod is not left alone by chance.
        return Verdict.PERHAPS if decision.end else Verdict.DIFFERS
    if answer is None or question is None or answer.result == "error":
        return Verdict.PERHAPS
    nominated = answer.post_filter.nominated_node if answer.post_filter is not None else ""
    if decision.is_nomination:
        return Verdict.CHANCE if nominated == decision.node else Verdict.DIFFERS
    if decision.node in answer.best:
        return Verdict.CHANCE
    if decision.node:
        # Of many nodes a scheduler looks at some only, by chance.
        samples = not question.searches_all_nodes and decision.node in answer.total
        return Verdict.PERHAPS if samples else Verdict.DIFFERS
    waits = answer.result != "scheduled" and not nominated
    alike = waits and _head(answer.message) == decision.message
    return Verdict.CHANCE if alike else Verdict.DIFFERS


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
