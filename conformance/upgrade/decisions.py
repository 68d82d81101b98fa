"""Get the decisions of two versions on the pods of a cluster from `kubesched-explain`.

Our scheduler's commands are processes: the suite imports no scheduler.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import msgspec

from ..errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_EXPLAIN: Final = ("scheduler.explain", "pods", "-o", "json")
_IMPORT: Final = ("scheduler.simulate", "import", "openb")


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

    Raises InputError if the process fails.
    """
    output = _run(*_EXPLAIN, "--compare-versions", f"{base},{version}", *arguments)
    return msgspec.json.decode(output, type=_Report).versions


def import_openb(nodes: Path, pods: Path, history: Path) -> None:
    """Write the history of an openb trace. Raises InputError for tables that cannot be read."""
    _run(*_IMPORT, "--nodes", str(nodes), "--pods", str(pods), "--output", str(history))


def _run(module: str, *arguments: str) -> bytes:
    """Return the output of one of our commands; its warnings go to the standard error."""
    command = (sys.executable, "-P", "-m", module, *arguments)
    done = subprocess.run(command, capture_output=True, check=False)
    errors = done.stderr.decode(errors="replace")
    if done.returncode != 0:
        last = (errors.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise InputError(re.sub("^kubesched-[a-z]+: ", "", last))
    sys.stderr.write(errors)
    return done.stdout
