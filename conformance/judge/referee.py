"""Get decisions on pods from `kubesched-explain`, over a cluster as of a moment.

All questions go to one process, one per line; the process calls no API server. Its answer has the
equally best nodes, the scores of each node by plugin, the rejections, and the preemption.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..format.reading import text_in
from ..format.resources import part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..api import Json

_EXPLAIN: Final = (sys.executable, "-P", "-m", "scheduler.explain", "batch", "-")
_API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
_ALL_NODES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A pod that has no node yet, and all objects at that moment, with a configuration.

    `version` is the version of kube-scheduler that decides; empty for the default.
    """

    objects: Sequence[Json]
    pod: Json
    config: Json | None
    gates: Mapping[str, bool]
    plugins: tuple[str, ...]
    version: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the process that answers the question."""
        plugins = [word for plugin in self.plugins for word in ("--plugin", plugin)]
        version = ("--scheduler-version", self.version) if self.version else ()
        return (*plugins, *version)

    @property
    def searches_all_nodes(self) -> bool:
        """True if the scheduler considers every node: only ties are left to chance."""
        nodes = sum(1 for obj in self.objects if obj["kind"] == "Node")
        percentage = (self.config or {}).get("percentageOfNodesToScore")
        return nodes <= _ALL_NODES or percentage == _ALL_NODES

    def line(self) -> bytes:
        """Return the question as a line for `kubesched-explain batch`."""
        config: Json = {"apiVersion": _API_VERSION, "kind": "KubeSchedulerConfiguration"}
        # All nodes are scored: a sampled node can then be seen to fit.
        config |= {**(self.config or {}), "percentageOfNodesToScore": _ALL_NODES}
        config.pop("extenders", None)
        question = {
            "name": text_in(part(self.pod, "metadata"), "name"),
            "config": config,
            "objects": self.objects,
            "pods": [self.pod],
            "features": dict(self.gates),
        }
        return msgspec.json.encode(question) + b"\n"


class _Status(msgspec.Struct, frozen=True):
    plugin: str = ""
    reasons: tuple[str, ...] = ()


class _PostFilter(msgspec.Struct, frozen=True):
    victims: tuple[str, ...] = ()
    nominated_node: str = ""


class Answer(msgspec.Struct, frozen=True):
    """The decision: the equally best nodes, or a message; scores and rejections by node."""

    result: str = "error"
    message: str = ""
    best: tuple[str, ...] = ()
    total: dict[str, int] = {}
    scores: dict[str, dict[str, int]] = {}
    filter: dict[str, _Status] = {}
    pre_filter: _Status | None = None
    post_filter: _PostFilter | None = None

    def about(self, node: str) -> str:
        """Return the verdict on a node as one line."""
        if node in self.total:
            scores = ", ".join(f"{plugin} {score}" for plugin, score in self.scores[node].items())
            rank = "the best" if self.best == (node,) else f"one of {len(self.best)} best"
            rank = rank if node in self.best else f"the best have {max(self.total.values())}"
            return f"{node}: {self.total[node]}, {rank} ({scores})"
        status = self.filter.get(node, self.pre_filter)
        if status is not None:
            return f"{node}: rejected by {status.plugin}: {', '.join(status.reasons)}"
        return f"{node}: {self.message or self.result}"


class _Node(msgspec.Struct, frozen=True):
    name: str
    rejections: tuple[int, ...] = ()
    total: int | None = None
    scores: dict[str, int] = {}


class _Victim(msgspec.Struct, frozen=True):
    pod: str


class _Candidate(msgspec.Struct, frozen=True):
    victims: tuple[_Victim, ...] = ()


class _Preemption(msgspec.Struct, frozen=True, rename="camel"):
    nominated_node: str = ""
    candidates: tuple[_Candidate, ...] = ()


class _Pod(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a pod's report (`docs/explain.md`) that an answer has."""

    result: str
    message: str
    nodes: tuple[_Node, ...]
    rejections: tuple[_Status, ...]
    pod_rejection: _Status | None
    preemption: _Preemption | None

    def answer(self) -> Answer:
        total = {node.name: node.total for node in self.nodes if node.total is not None}
        highest = max(total.values(), default=0)
        post_filter = None
        if self.preemption is not None:
            victims = [v.pod for entry in self.preemption.candidates[:1] for v in entry.victims]
            post_filter = _PostFilter(tuple(victims), self.preemption.nominated_node)
        return Answer(
            result=self.result,
            message=self.message,
            best=tuple(sorted(name for name, value in total.items() if value == highest)),
            total=total,
            scores={node.name: node.scores for node in self.nodes if node.name in total},
            filter={n.name: self.rejections[n.rejections[0]] for n in self.nodes if n.rejections},
            pre_filter=self.pod_rejection,
            post_filter=post_filter,
        )


class _Report(msgspec.Struct, frozen=True):
    pods: tuple[_Pod, ...] = ()


@dataclass(slots=True)
class Answers:
    """The answers in the order of the questions; None for a missing answer, with a reason."""

    answers: list[Answer | None] = field(default_factory=list)
    problem: str = ""


async def answers_to(questions: Sequence[Question | None]) -> Answers:
    """Return an answer to each question; None for a question that breaks the process."""
    result = Answers([None] * len(questions))
    places = [index for index, question in enumerate(questions) if question is not None]
    groups: dict[tuple[str, ...], list[int]] = {}
    for index in places:
        question = questions[index]
        assert question is not None, "None is left out"
        groups.setdefault(question.options, []).append(index)
    for options, numbers in groups.items():
        await _ask([questions[number] for number in numbers], numbers, options, result)
    return result


async def _ask(
    questions: Sequence[Question | None],
    numbers: list[int],
    options: tuple[str, ...],
    result: Answers,
) -> None:
    """Answer questions with the same options; after a failure go on behind the failed question."""
    while questions:
        lines, problem = await _run([item for item in questions if item is not None], options)
        for number, line in zip(numbers, lines, strict=False):
            report = msgspec.json.decode(line, type=_Report)
            result.answers[number] = report.pods[0].answer() if report.pods else None
        if not problem:
            return
        result.problem = result.problem or problem
        questions, numbers = questions[len(lines) + 1 :], numbers[len(lines) + 1 :]


async def _run(questions: Sequence[Question], options: tuple[str, ...]) -> tuple[list[bytes], str]:
    """Return the lines of answers, and the error that ended the process early, if any."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        asked = Path(folder) / "questions.jsonl"
        with asked.open("wb") as file:
            file.writelines(question.line() for question in questions)
        with asked.open("rb") as standard_input:
            process = await asyncio.create_subprocess_exec(
                *(*_EXPLAIN, *options),
                stdin=standard_input,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            output, errors = await process.communicate()
    lines = output.splitlines()
    if len(lines) >= len(questions):
        return lines, ""
    last = errors.decode(errors="replace").strip().splitlines() or [f"status {process.returncode}"]
    return lines, last[-1]
