"""Get the decisions of two versions on the pods of a cluster from `kubesched-explain`."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

import msgspec

from ..errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Difference", "Outcome", "PodVersions", "decisions"]

_EXPLAIN: Final = (sys.executable, "-P", "-m", "scheduler.explain", "pods", "-o", "json")


class Outcome(msgspec.Struct, frozen=True, rename="camel"):
    """The decision of one version."""

    version: str
    result: str
    best: tuple[str, ...] = ()
    nominated_node: str = ""
    victims: tuple[str, ...] = ()
    message: str = ""

    @property
    def text(self) -> str:
        """The decision in a few words."""
        if self.best:
            others = len(self.best) - 1
            return self.best[0] + (f" or {others:,} equal" if others else "")
        if self.nominated_node:
            return f"{self.result}, nominated to {self.nominated_node}"
        return self.result


class Difference(msgspec.Struct, frozen=True):
    """A reason for another decision; `rows` name rows of versions.md."""

    kind: str
    plugin: str
    node: str
    text: str
    rows: tuple[str, ...] = ()


class PodVersions(msgspec.Struct, frozen=True):
    """The decisions on one pod (`PodVersions` in `docs/explain.md`)."""

    pod: str
    owner: str
    outcomes: tuple[Outcome, ...]
    differences: tuple[Difference, ...]


class _Report(msgspec.Struct, frozen=True):
    versions: tuple[PodVersions, ...] = ()


def decisions(arguments: Sequence[str], *, base: str, version: str) -> tuple[PodVersions, ...]:
    """Return the decisions on all pods; `arguments` name the cluster and its configuration.

    Warnings of the process go to the standard error. Raises InputError if the process fails.
    """
    command = (*_EXPLAIN, "--compare-versions", f"{base},{version}", *arguments)
    done = subprocess.run(command, capture_output=True, check=False)
    errors = done.stderr.decode(errors="replace")
    if done.returncode != 0:
        last = (errors.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise InputError(last.removeprefix("kubesched-explain: "))
    sys.stderr.write(errors)
    return msgspec.json.decode(done.stdout, type=_Report).versions
