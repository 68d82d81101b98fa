"""Faults as files: YAML or JSON; an error is one line that names the field.

    faults:
    - name: lost-answers
      match: {verb: create, resource: pods/binding}
      when: {probability: 0.1}
      reset: {after_write: true}

`schema.json` beside this file is the format's JSON schema; it is made from the types of `model`.
"""

from __future__ import annotations

import difflib
import inspect
import re
from typing import TYPE_CHECKING, Final, TypeVar, get_args, get_type_hints

import msgspec

from fakeapi.decoding.parsing import load_yaml_documents
from fakeapi.faults.model import Fault, FaultError, Match, When

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from fakeapi.types.objects import Json

_T = TypeVar("_T")

_PATH: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<field>[^`]*)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<field>[^`]*)`")
_TYPES: Final = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "a mapping",
    "str": "a text",
}


_FIELDS: Final = sorted(
    {
        *Fault.__struct_fields__,
        *Match.__struct_fields__,
        *When.__struct_fields__,
        *("after_event", "after_write", "changes", "code", "compact", "how", "lost_versions"),
        *("message", "reason", "retry_after_seconds", "seconds"),
    }
)


class FaultFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a file of faults, or of the body of a POST. `seed` is for random faults."""

    faults: list[Fault]
    seed: int | None = None


def fault_of(value: object, where: str = "") -> Fault:
    """Return a fault from plain values. Raises FaultError."""
    return _converted(value, Fault, where)


def faults_of(value: object, where: str = "") -> FaultFile:
    """Return faults from plain values: one fault, a list, or a whole file. Raises FaultError."""
    if isinstance(value, list):
        value = {"faults": value}
    elif isinstance(value, dict) and value and not value.keys() & {"faults", "seed"}:
        value = {"faults": [value]}
    file = _converted(value, FaultFile, where)
    names = [fault.name for fault in file.faults if fault.name]
    for name in names:
        if names.count(name) > 1:
            raise FaultError(f"{_prefix(where)}faults: two faults are called {name}")
    return file


def read_faults(path: Path) -> FaultFile:
    """Return the faults in a YAML or JSON file. Raises FaultError."""
    try:
        documents = load_yaml_documents(path.read_bytes())
    except OSError as error:
        raise FaultError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise FaultError(f"{path}: {error}") from error
    return faults_of(documents[0] if documents else None, str(path))


def to_builtins(faults: Iterable[Fault]) -> list[Json]:
    """Return faults as plain values, which `faults_of` reads."""
    return [msgspec.to_builtins(fault) for fault in faults]


def schema() -> Json:
    """Return the JSON schema (2020-12) of a file of faults."""
    (whole,), parts = msgspec.json.schema_components([FaultFile], ref_template="#/$defs/{name}")
    del whole
    # Python has taken the indentation from docstrings since 3.13.
    for part in parts.values():
        part["description"] = inspect.cleandoc(str(part["description"]))
    top = parts.pop("FaultFile")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://kubesched.example/fakeapi/faults/schema.json",
        **top,
        "$defs": dict(sorted(parts.items())),
    }


def _converted(value: object, kind: type[_T], where: str) -> _T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise FaultError(f"{_prefix(where)}{_explained(str(error), kind)}") from error


def _prefix(where: str) -> str:
    return f"{where}: " if where else ""


def _explained(text: str, kind: object) -> str:
    """Return msgspec's error in our form: the field, then the expected value."""
    match = _PATH.match(text)
    assert match is not None
    problem, path = match["what"], match["path"] or ""
    if unknown := _UNKNOWN.match(problem):
        fields = ", ".join(_fields_at(path, kind))
        problem = f"unknown field {unknown['field']}{_hint(unknown['field'])}; expected {fields}"
    elif missing := _MISSING.match(problem):
        problem = f"{missing['field']} is missing"
    else:
        problem = re.sub(r"`([^`]*)`", lambda name: _in_words(name[1]), problem)
        problem = problem[:1].lower() + problem[1:]
    return f"{path}: {problem}" if path else problem


def _in_words(types: str) -> str:
    return " or ".join(_TYPES.get(name, name) for name in types.split(" | "))


def _hint(field: str) -> str:
    if field in _FIELDS:
        return " here"  # it is one of another mapping
    close = difflib.get_close_matches(field, _FIELDS, 1)
    return f"; did you mean {close[0]}?" if close else ""


def _fields_at(path: str, kind: object) -> tuple[str, ...]:
    """Return the fields of the struct at a path such as `faults[0].match`."""
    for step in filter(None, path.split(".")):
        hint = get_type_hints(kind).get(step.partition("[")[0])
        kind = next(each for each in (hint, *get_args(hint)) if hasattr(each, "__struct_fields__"))
    fields: tuple[str, ...] = getattr(kind, "__struct_fields__", ())
    return fields
