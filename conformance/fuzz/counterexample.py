"""A counterexample as a file of one case, and its replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import yaml

from ..errors import InputError
from ..format.case import load_cases
from ..format.validation import problem_in
from ..invariants import INVARIANTS
from ..run.runner import Settings, run_cases
from .search import AREA

if TYPE_CHECKING:
    from pathlib import Path

    from ..api import Json
    from ..targets.target import TargetOptions
    from .search import Found


def document_of(found: Found) -> Json:
    """Return the content of a counterexample's file: a case that the scheduler fails."""
    invariant = INVARIANTS.get(found.invariant)
    sentence = invariant.sentence if invariant else "The scheduler runs, and comes to rest."
    source = invariant.source if invariant else "kubesched-conformance fuzz"
    case: Json = {
        "name": found.invariant.replace("_", "-"),
        "source": source,
        "description": f"{sentence} Broken: {found.text}.",
        **{name: found.raw[name] for name in ("config", "cluster") if name in found.raw},
        "steps": found.raw["steps"],
    }
    return {"area": AREA, "cases": [case]}


def write(found: Found, directory: Path) -> Path:
    """Write a counterexample into a file of the invariant's name. Raises InputError."""
    document = document_of(found)
    problem = problem_in(document)
    assert problem is None, problem
    path = directory / f"{found.invariant}.yaml"
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--output: {path}: {error.strerror or error}") from error
    return path


class _Dumper(yaml.SafeDumper):
    """Writes small mappings and lists on one line, as people do, and repeats instead of anchors."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True

    def represent_mapping(self, tag, mapping, flow_style=None):  # type: ignore[no-untyped-def]
        node = super().represent_mapping(tag, mapping, flow_style)
        node.flow_style = _is_short(mapping)
        return node

    def represent_sequence(self, tag, sequence, flow_style=None):  # type: ignore[no-untyped-def]
        node = super().represent_sequence(tag, sequence, flow_style)
        # Objects and steps have a line each.
        node.flow_style = _is_short(sequence) and not (
            len(sequence) > 1 and isinstance(sequence[0], dict)
        )
        return node


_LINE_MAX = 80


def _is_short(value: object) -> bool:
    return len(msgspec.json.encode(value)) <= _LINE_MAX


def fails(path: Path, target: TargetOptions, *, timeout_seconds: float) -> bool:
    """Replay a counterexample as `run --cases` does; return True if the target fails it again."""
    settings = Settings(target=target, timeout_seconds=timeout_seconds, workers=0)
    (outcome,) = run_cases(load_cases([path]), settings)
    return outcome.is_bad
