"""Write a file of one case that a program has made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import yaml

from ..errors import InputError
from .case import case_of
from .validation import problem_in

if TYPE_CHECKING:
    from pathlib import Path

    from ..api import Json
    from .case import Case

_LINE_MAX: Final = 80


def write_case(path: Path, document: Json) -> Case:
    """Write a file of one case, and return the case.

    Raises InputError if the case would not be valid, OSError if the file cannot be written.
    """
    problem = problem_in(document)
    if problem is not None:
        raise InputError(f"the case would not be valid: {problem}")
    (raw,) = msgspec.convert(document["cases"], list[dict[str, object]])
    case = case_of(raw, area=str(document["area"]), origin=str(path))
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
    path.write_text(text, encoding="utf-8")
    return case


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


def _is_short(value: object) -> bool:
    return len(msgspec.json.encode(value)) <= _LINE_MAX
