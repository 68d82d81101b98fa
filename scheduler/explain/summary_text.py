"""The summary of many decisions as lines that fit on a screen."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from scheduler.reports.counts import counted
from scheduler.reports.summary import without_owners

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.reports.model import PodGroup, Summary

#: The size of a screen, without the two lines that follow a summary.
SCREEN_WIDTH: Final = 100
_LINES_MAX: Final = 48
#: Of a longer cause only the beginning is shown.
_CAUSE_MAX: Final = 300


def summary_lines(summary: Summary, *, width: int = SCREEN_WIDTH) -> list[str]:
    """Return the counts, and the groups below the name of their result.

    If there are too many groups for a screen, the groups with one cause are put together, and then
    the last ones are only counted. No name is cut.
    """
    number = sum(summary.results.values())
    counts = ", ".join(f"{number:,} {result}" for result, number in summary.results.items())
    head = _wrapped(f"{counted(number, 'pod')}: {counts}", "", width)
    for groups in (summary.groups, without_owners(summary.groups)):
        body = _groups(groups, width)
        if len(head) + len(body) <= _LINES_MAX:
            return head + body
    shown = list(groups)
    while len(head) + len(body) + 1 > _LINES_MAX:
        shown.pop()
        body = _groups(shown, width)
    rest = groups[len(shown) :]
    pods = sum(len(group.pods) for group in rest)
    more = f"and {counted(pods, 'pod')} in {len(rest):,} more groups (--details, -o json)"
    return [*head, *body, more]


def _groups(groups: Sequence[PodGroup], width: int) -> list[str]:
    digits = max((len(f"{len(group.pods):,}") for group in groups), default=1)
    lines, result = [], ""
    for group in groups:
        if group.result != result:
            result = group.result
            lines += ["", result]
        start = f"  {len(group.pods):>{digits},}  "
        lines += _wrapped(_sentence(group), start, width)
    return lines


def _sentence(group: PodGroup) -> str:
    """Return the owner and the cause, with one pod as the example."""
    cause = " ".join(group.cause.split())
    if len(cause) > _CAUSE_MAX:
        begin = cause[:_CAUSE_MAX]
        cause = f"{begin.rpartition('; ')[0] or begin.rpartition(' ')[0]}; ..."
    pod = group.pods[0]
    if not group.owner and len(group.pods) == 1:
        return f"{pod}: {cause}{f' on {group.node}' if group.node else ''}"
    of = group.owner or (
        f"namespace {group.namespace}" if group.namespace else "several namespaces"
    )
    at = f" on {group.node}" if group.node else ""
    return f"{of}: {cause} (for example {pod}{at})"


def _wrapped(text: str, start: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
