"""A counterexample as a file of one case, and its replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InputError
from ..format.case import load_cases
from ..format.writing import write_case
from ..invariants import INVARIANTS
from ..run.runner import Settings, run_cases
from .bug_report import bug_report
from .search import AREA

if TYPE_CHECKING:
    from pathlib import Path

    from ..api import Json
    from ..targets.target import TargetOptions
    from .search import Found


def document_of(result: Found) -> Json:
    """Return the content of a counterexample's file: a case that the scheduler fails."""
    invariant = INVARIANTS.get(result.invariant)
    sentence = invariant.sentence if invariant else "The scheduler runs, and comes to rest."
    source = invariant.source if invariant else "kubesched-conformance fuzz"
    case: Json = {
        "name": result.invariant.replace("_", "-"),
        "source": source,
        "description": f"{sentence} Broken: {result.text}.",
        **{name: result.raw[name] for name in ("config", "cluster") if name in result.raw},
        "steps": result.raw["steps"],
    }
    return {"area": AREA, "cases": [case]}


def report_of(result: Found) -> str:
    """Return the text of a bug report for a counterexample."""
    invariant = INVARIANTS.get(result.invariant)
    title = invariant.sentence if invariant else "The scheduler runs, and comes to rest."
    return bug_report(result.raw, title=f"Broken: {title}", seen=f"{result.text}.")


def write(result: Found, directory: Path) -> Path:
    """Write a counterexample into a file of the invariant's name, and its report beside it.

    Raises InputError.
    """
    path = directory / f"{result.invariant}.yaml"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_case(path, document_of(result))
        path.with_suffix(".md").write_text(report_of(result), encoding="utf-8")
    except OSError as error:
        raise InputError(f"--output: {path}: {error.strerror or error}") from error
    return path


def fails(path: Path, target: TargetOptions, *, timeout_seconds: float) -> bool:
    """Replay a counterexample as `run --cases` does; return True if the target fails it again."""
    settings = Settings(target=target, timeout_seconds=timeout_seconds, workers=0)
    (outcome,) = run_cases(load_cases([path]), settings)
    return outcome.is_bad
