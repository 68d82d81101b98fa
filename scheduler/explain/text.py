"""A report as text: the answer first, then the tables that support it.

On a terminal the tables fit its width; in a pipe no line is wrapped.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scheduler.explain.summary_text import SCREEN_WIDTH, summary_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.align import VerticalAlignMethod
    from rich.console import JustifyMethod

    from scheduler.reports.model import (
        NodeVerdict,
        PlacedPod,
        PodReport,
        PreemptionReport,
        Rejection,
        Story,
        StoryEntry,
        Summary,
    )

#: Plugin names are long, scores are short: names break between their words.
_WORD_BREAK: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
#: The number of pods placed before that are named.
_PLACED_SHOWN: Final = 3
#: Wider than any line.
_PIPE_WIDTH: Final = 1 << 20

_STYLES: Final = {
    "scheduled": "bold green",
    "unschedulable": "bold red",
    "error": "bold red",
    "gated": "bold yellow",
    "ignored": "dim",
}
_STORY_STYLES: Final = {
    "attempt": "bold",
    "bound": "bold green",
    "nominated": "magenta",
    "preempted": "bold red",
    "waiting": "yellow",
    "asked": "dim",
}


class TextPrinter:
    """Prints reports. `nodes_max` limits each list of nodes; None for no limit."""

    def __init__(self, out: TextIO | None = None, *, nodes_max: int | None) -> None:
        self._out: Final = out or sys.stdout
        self._nodes_max: Final = nodes_max
        console = Console(file=self._out)
        if not console.is_terminal:
            console = Console(file=self._out, width=_PIPE_WIDTH)
        self._console: Final = console

    def pod(self, report: PodReport) -> None:
        """Print a decision."""
        for part in (*_pod_parts(report, self._nodes_max), Text()):
            self.show(part)
        if report.story is not None:
            self.story(report.story)
            self.show(Text())

    def summary(self, summary: Summary) -> None:
        """Print the counts by result and the groups of pods."""
        width = self._console.width if self._console.is_terminal else SCREEN_WIDTH
        for line in (*summary_lines(summary, width=width), ""):
            self.show(Text(line, _STYLES.get(line, "")))

    def story(self, story: Story) -> None:
        for line in _story_lines(story):
            self.show(line)

    def show(self, part: Text | Table) -> None:
        """Print a line or a table."""
        if self._console.is_terminal:
            # Lines outside tables are left to the terminal to wrap: copied text stays one line.
            if isinstance(part, Text):
                self._console.print(part, soft_wrap=True)
                return
            _keep_names_whole(part)
            width = max(self._console.width, self._console.measure(part).minimum)
            self._console.print(part, width=width, crop=False)
            return
        with self._console.capture() as capture:
            self._console.print(part)
        self._out.writelines(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _pod_parts(report: PodReport, nodes_max: int | None) -> Iterator[Text | Table]:
    yield _headline(report)
    if report.placed_before:
        yield _placed_before(report.placed_before)
    for line in report.reserved:
        yield Text(f"reserved {line}" if report.result == "scheduled" else line)
    feasible = [node for node in report.nodes if node.is_feasible]
    if feasible:
        yield from _scores(report, feasible, nodes_max)
        yield Text()
    if any(rejection.nodes for rejection in report.rejections):
        yield _rejections(report, nodes_max)
    if report.preemption is not None:
        yield from _preemption(report.preemption, nodes_max)
    if report.nearest:
        yield from _nearest(report)


def _headline(report: PodReport) -> Text:
    text = Text.assemble((report.pod, "bold"), "  ", report.answer)
    style = _STYLES[report.result]
    if report.current is not None:
        text.highlight_words([report.current.name], "bold")
    text.highlight_regex(rf"(?<={re.escape(report.pod)}  ){report.result}\b", style)
    return text


def _placed_before(placed: Sequence[PlacedPod]) -> Text:
    """Return the pods that were placed before, the last three by name."""
    shown = ", ".join(f"{each.pod} on {each.node}" for each in placed[-_PLACED_SHOWN:])
    others = len(placed) - _PLACED_SHOWN
    return Text(f"after placing {shown}{f' and {others:,} others' if others > 0 else ''}", "dim")


def _scores(
    report: PodReport, feasible: Sequence[NodeVerdict], nodes_max: int | None
) -> Iterator[Text | Table]:
    plugins = report.score_plugins
    table = make_table("feasible node", "total", *plugins, right=range(1, len(plugins) + 2))
    chosen = "" if report.choice is None else report.choice.node
    current = "" if report.current is None else report.current.name
    shown = list(feasible[:nodes_max])
    shown += [node for node in feasible[len(shown) :] if node.name in (chosen, current)]
    for node in shown:
        marks = ["has the pod"] if node.name == current else []
        marks += ["winner"] if node.name == chosen else []
        table.add_row(
            f"{node.name} <- {', '.join(marks)}" if marks else node.name,
            str(node.total),
            *(str(node.scores[plugin]) for plugin in plugins),
            style="green" if node.name == chosen else None,
        )
    yield table
    yield from _rest(len(feasible) - len(shown))


def _rejections(report: PodReport, nodes_max: int | None) -> Text | Table:
    table = make_table("nodes", "rejected by", "reason", "preemption", "for example", right=(0,))
    for rejection in sorted(report.rejections, key=lambda rejection: -rejection.nodes):
        if rejection.nodes:
            table.add_row(
                f"{rejection.nodes:,}",
                rejection.plugin,
                ", ".join(rejection.reasons),
                "may help" if rejection.preemption_may_help else "cannot help",
                _examples(rejection, report, nodes_max),
            )
    return table


def _examples(rejection: Rejection, report: PodReport, nodes_max: int | None) -> str:
    names: Sequence[str] = rejection.examples
    if nodes_max is None or rejection.nodes <= nodes_max:
        index = report.rejections.index(rejection)
        names = [n.name for n in report.nodes if n.rejections and n.rejections[0] == index]
    more = rejection.nodes - len(names)
    return ", ".join(names) + (", ..." if more else "")


def _preemption(report: PreemptionReport, nodes_max: int | None) -> Iterator[Text | Table]:
    """Yield the candidates for preemption, their victims, and why one node was chosen."""
    if not report.candidates:
        if report.message:
            yield Text(report.message)
        return
    table = make_table("candidate node", "victims (priority)", "violated budgets", "because of")
    for candidate in report.candidates[:nodes_max]:
        won = not candidate.lost_by
        table.add_row(
            f"{candidate.node} <- nominated" if won else candidate.node,
            ", ".join(f"{victim.pod} ({victim.priority})" for victim in candidate.victims),
            str(candidate.violated_budgets or ""),
            "" if won else f"not the {candidate.lost_by}",
            style="green" if won else None,
        )
    yield table
    yield from _rest(len(report.candidates) - len(report.candidates[:nodes_max]))


def _nearest(report: PodReport) -> Iterator[Text | Table]:
    """Yield the distinct changes after which the pod would fit, the smallest first."""
    yield Text()
    rejection = report.pod_rejection
    if rejection is not None:
        yield Text(f"on every node: {', '.join(rejection.reasons)} ({rejection.plugin})")
    columns = ("nodes", "plugin", "would fit after: at the pod", "or at the nodes", "nearest node")
    table = make_table(*columns, right=(0,))
    for node in report.nearest:
        number, name = f"{node.nodes:,}", node.name
        for change in node.changes:
            on_nodes = change.on_nodes or ("" if change.on_pod else change.text)
            table.add_row(number, change.plugin, change.on_pod, on_nodes, name)
            number = name = ""
    yield table


def make_table(*headings: str, right: Sequence[int] = ()) -> Table:
    """Return a table with these columns; `right` are the indexes of right-aligned columns."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    words = [_WORD_BREAK.sub("\n", h) if i in right else h for i, h in enumerate(headings)]
    vertical: VerticalAlignMethod = "bottom" if any("\n" in word for word in words) else "top"
    for index, word in enumerate(words):
        justify: JustifyMethod = "right" if index in right else "left"
        table.add_column(word, justify=justify, vertical=vertical)
    return table


def _keep_names_whole(table: Table) -> None:
    """Make columns wide enough for their longest word: the name of a node is never cut."""
    for column in table.columns:
        words = (word for cell in (column.header, *column.cells) for word in str(cell).split())
        column.min_width = max(map(len, words), default=0)


def _rest(nodes: int) -> Iterator[Text | Table]:
    if nodes > 0:
        yield Text(f"and {nodes:,} more (--nodes-max N|all)", style="dim")


def _story_lines(story: Story) -> list[Text]:
    """Return one line per entry, with the plugins' verdicts and hints below it."""
    head = Text.assemble((f"{story.namespace}/{story.name}", "bold"))
    if story.uid:
        head.append(f"  {story.uid}", "dim")
    lines = [head]
    if story.dropped:
        lines.append(Text(f"({story.dropped} older entries are forgotten)", "dim"))
    width = max((len(entry.kind) for entry in story.entries), default=0)
    for entry in story.entries:
        since_seconds = entry.time - story.entries[0].time
        start = f"{_utc(entry.time)}  {f'+{since_seconds:.3f}s':>12}  "
        line = Text(start, "dim")
        line.append(f"{entry.kind:<{width}}  ", "cyan")
        line.append(entry.text, _STORY_STYLES.get(entry.kind, ""))
        lines.append(line)
        indent = " " * (len(start) + width + 4)
        lines += [Text(indent + detail, "dim") for detail in _details(entry)]
    return lines


def _details(entry: StoryEntry) -> Iterator[str]:
    for verdict in entry.verdicts:
        nodes = f"{verdict.nodes} node{'' if verdict.nodes == 1 else 's'}"
        yield f"{verdict.plugin} on {nodes}: {verdict.code}: {', '.join(verdict.reasons)}"
    if (failure := entry.failure) is not None:
        node = f" on node {failure.node}" if failure.node else ""
        yield f"{failure.plugin} failed at {failure.point}{node}:"
        yield from failure.traceback.rstrip().splitlines()
    # Events one after another that do not help are one line.
    for hint in entry.hints if entry.until is None else ():
        yield f"{hint.plugin} on {hint.event}: {hint.answer}"


def _utc(seconds: float) -> str:
    # Rounded first: the format would truncate to milliseconds.
    moment = datetime.fromtimestamp(round(seconds, 3), UTC)
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00") + "Z"
