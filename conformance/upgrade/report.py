"""The report of an upgrade: as tables on a terminal, as JSON, and as one page of HTML."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.table import Table

from .settings import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from .decisions import PodVersions

_FILES: Final = Path(__file__).parent
#: What differs between two decisions, by the kinds of `kubesched-explain`.
_KINDS: Final = {
    "result": "with another result",
    "node": "on another node",
    "preemption": "with other victims",
    "message": "with another message only",
}
#: Pods of one owner that change for the same reason are one row; so many are named.
_PODS_SHOWN: Final = 3


class Change(msgspec.Struct, frozen=True):
    """Pods of one owner that are decided otherwise for the same reason."""

    kind: str
    pods: tuple[str, ...]
    owner: str
    before: str
    after: str
    reasons: tuple[str, ...]
    rows: tuple[str, ...]

    @property
    def who(self) -> str:
        """The pods in a few words."""
        number = len(self.pods)
        if number == 1:
            return self.pods[0]
        shown = ", ".join(self.pods[:_PODS_SHOWN]) + (", ..." if number > _PODS_SHOWN else "")
        return f"{number:,} pods" + (f" of {self.owner}" if self.owner else "") + f": {shown}"


class UpgradeReport(msgspec.Struct, frozen=True):
    """Changes between two versions: decisions on the pods of a cluster, and settings that fail.

    `pods` is the number of pods that were decided; None without a cluster.
    """

    base: str
    version: str
    pods: int | None
    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]

    @classmethod
    def of(
        cls,
        base: str,
        version: str,
        pods: tuple[PodVersions, ...] | None,
        refusals: list[Refusal],
    ) -> UpgradeReport:
        """Make the report; pods with equal changes become one entry."""
        return cls(
            base=base,
            version=version,
            pods=None if pods is None else len(pods),
            changes=_changes(pods or ()),
            refusals=tuple(refusals),
        )

    @property
    def is_without_changes(self) -> bool:
        """True if every pod is decided alike and every setting works."""
        return not self.changes and not self.refusals

    @property
    def counts(self) -> str:
        """A sentence on the pods; empty without a cluster."""
        if self.pods is None:
            return ""
        numbers: Counter[str] = Counter()
        for change in self.changes:
            numbers[change.kind] += len(change.pods)
        parts = [f"{numbers[kind]:,} {text}" for kind, text in _KINDS.items() if numbers[kind]]
        pods = "1 pod" if self.pods == 1 else f"{self.pods:,} pods"
        return f"{pods}: {', '.join(parts) or 'decided as before'}"

    def print_to(self, console: Console) -> None:
        """Print the tables."""
        console.print(f"from kube-scheduler {self.base} to {self.version}", highlight=False)
        if self.pods is not None:
            console.print(self.counts, highlight=False)
        if self.changes:
            table = _table("pods", self.base, self.version, "why", "versions.md")
            for change in self.changes:
                cells = (change.who, change.before, change.after)
                table.add_row(*cells, "\n".join(change.reasons), "\n".join(change.rows))
            console.print(table)
        if self.refusals:
            table = _table("setting", "stops in", "message")
            for refusal in self.refusals:
                table.add_row(refusal.setting, refusal.version, refusal.text)
            console.print(table)
        elif self.pods is None:
            console.print("all settings work in all versions", highlight=False)

    def html(self) -> str:
        """Return the report as one page that loads nothing."""
        environment = Environment(
            loader=FileSystemLoader(_FILES), autoescape=True, undefined=StrictUndefined
        )
        return environment.get_template("page.html").render(report=self)


def _changes(pods: tuple[PodVersions, ...]) -> tuple[Change, ...]:
    grouped: dict[tuple[str, ...], list[PodVersions]] = {}
    for pod in pods:
        if pod.differences:
            grouped.setdefault(tuple(_key(pod)), []).append(pod)
    changes = [_change(members) for members in grouped.values()]
    order = list(_KINDS)
    return tuple(sorted(changes, key=lambda each: (order.index(each.kind), -len(each.pods))))


def _key(pod: PodVersions) -> Iterator[str]:
    """Yield what pods of one entry have in common."""
    yield from (pod.owner or pod.pod, pod.differences[0].kind)
    yield from (each.plugin for each in pod.differences)


def _change(members: list[PodVersions]) -> Change:
    first = members[0]
    before, after = first.outcomes[0], first.outcomes[-1]
    return Change(
        kind=first.differences[0].kind,
        pods=tuple(pod.pod for pod in members),
        owner=first.owner,
        before=before.text,
        after=after.text,
        reasons=tuple(
            ": ".join(filter(None, (" on ".join(filter(None, (d.plugin, d.node))), d.text)))
            for d in first.differences
        ),
        rows=tuple(dict.fromkeys(row for d in first.differences for row in d.rows)),
    )


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
