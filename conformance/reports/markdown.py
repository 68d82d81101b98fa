"""Reports in Markdown, for the comment on a pull request and for a job's summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..outcome import Verdict, skip_reasons

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..outcome import Outcome
    from .report import Change, Comparison, Report

#: Failures shown with their details; a comment on GitHub has at most 65,536 characters.
_DETAILED_MAX: Final = 20
_LISTED_MAX: Final = 200
_DETAIL_LINES_MAX: Final = 25


def report_in_markdown(report: Report) -> str:
    """Return the counts, the failures and the reasons of skipped cases."""
    counts = report.by_verdict
    summary = ", ".join(f"{number} {verdict}" for verdict, number in counts.items()) or "no case"
    lines = [
        f"## Scheduler conformance: {_text(report.implementation.title)}",
        "",
        f"**{summary}** in {report.seconds:.0f} s",
        "",
        *_table("level", report.by_level),
        *_table("feature", report.by_feature),
        *_table("aspect", report.by_aspect),
    ]
    bad = [outcome for outcome in report.outcomes if outcome.is_bad]
    if bad:
        lines += ["### Failures", ""]
        for outcome in bad[:_DETAILED_MAX]:
            lines += _failure(outcome)
        lines += _list(
            f"`{outcome.id}`: {_text(outcome.reason)}" for outcome in bad[_DETAILED_MAX:]
        )
    lines += _skipped(report.outcomes)
    return "\n".join(lines).rstrip() + "\n"


def comparison_in_markdown(comparison: Comparison) -> str:
    """Return the cases whose verdicts differ."""
    parts = (
        ("Passed before, and not now", comparison.worse),
        ("Passes now, and did not before", comparison.better),
        ("Other differences", comparison.others),
    )
    lines = [
        f"## Scheduler conformance: {_text(comparison.before)} and {_text(comparison.after)}",
        "",
        f"**{len(comparison.worse)} worse, {len(comparison.better)} better**, "
        f"{len(comparison.others)} different, {comparison.same} the same, "
        f"{len(comparison.missing)} missing, {comparison.new} new",
        "",
    ]
    for title, changes in parts:
        if changes:
            lines += [f"### {title}", "", *_list(map(_change, changes))]
    if comparison.missing:
        names = (f"`{case_id}`" for case_id in comparison.missing)
        lines += ["### Missing in the second report", "", *_list(names)]
    return "\n".join(lines).rstrip() + "\n"


def _change(change: Change) -> str:
    reason = f": {_text(change.reason)}" if change.reason else ""
    return f"`{change.id}` {change.before.value} → {change.after.value}{reason}"


def _table(title: str, groups: Mapping[str, Mapping[str, int]]) -> list[str]:
    if not groups:
        return []
    verdicts = [verdict.value for verdict in Verdict]
    lines = [f"| {title} | {' | '.join(verdicts)} |", "|---" + "|--:" * len(verdicts) + "|"]
    for name, counts in groups.items():
        cells = " | ".join(str(counts.get(verdict, 0)) for verdict in verdicts)
        lines.append(f"| {_text(name)} | {cells} |")
    return [*lines, ""]


def _failure(outcome: Outcome) -> list[str]:
    details = [line.replace("```", "'''") for line in outcome.details[:_DETAIL_LINES_MAX]]
    return [
        f"<details><summary><code>{outcome.id}</code> {_text(outcome.reason)}</summary>",
        "",
        *([_text(outcome.description), ""] if outcome.description else []),
        "```text",
        *details,
        f"source: {outcome.source}",
        f"case: {outcome.place}",
        "```",
        "</details>",
        "",
    ]


def _skipped(outcomes: Sequence[Outcome]) -> list[str]:
    reasons = skip_reasons(outcomes)
    if not reasons:
        return []
    items = (f"{number}: {_text(reason)}" for reason, number in reasons.items())
    return ["### Skipped", "", *_list(items)]


def _list(items: Iterable[str]) -> list[str]:
    every = list(items)
    shown = [f"- {item}" for item in every[:_LISTED_MAX]]
    if len(every) > _LISTED_MAX:
        shown.append(f"- and {len(every) - _LISTED_MAX} more")
    return [*shown, ""] if shown else []


def _text(text: str) -> str:
    """Escape what Markdown and HTML in it would read."""
    for character in "\\`*_|":
        text = text.replace(character, f"\\{character}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")
