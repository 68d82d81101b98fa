"""Read manifests: YAML and JSON, several in a file, Lists, directories, standard input.

LoadError        a file that cannot be read, or a manifest that is refused; `str()` is one line
                 with the file, the number of the document in it, and the field
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fakeapi.decoding.parsing import load_yaml_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fakeapi.types.objects import Json

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_STANDARD_INPUT: Final = "-"


class LoadError(Exception):
    """A manifest cannot be loaded; the message is one line."""


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """One object to load, and its origin for messages."""

    value: Json
    origin: str


def read_all(paths: Iterable[str | Path]) -> list[Manifest]:
    """Return the objects of several files and directories. Raises LoadError."""
    return [manifest for path in paths for manifest in read_manifests(Path(path))]


def read_manifests(path: Path) -> list[Manifest]:
    """Return the objects in a file, or in all manifests below a directory. Raises LoadError.

    "-" is the standard input, as for kubectl.
    """
    if str(path) == _STANDARD_INPUT:
        raw = sys.stdin.buffer.read()
        if not raw.strip():  # the command before the pipe has failed
            raise LoadError("standard input: expected manifests, found nothing")
        return _parsed(raw, "standard input", is_json=False)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)
        if not files:
            raise LoadError(f"{path}: expected files that end in {', '.join(sorted(_SUFFIXES))}")
        return [manifest for file in files for manifest in read_manifests(file)]
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror or error}") from error
    return _parsed(raw, str(path), is_json=path.suffix == ".json")


def _parsed(raw: bytes, origin: str, *, is_json: bool) -> list[Manifest]:
    try:
        documents = _json_documents(raw) if is_json or raw.lstrip().startswith(b"{") else None
    except ValueError as error:
        if is_json:
            raise LoadError(f"{origin}: {error}") from error
        documents = None  # YAML may begin with a brace
    try:
        if documents is None:
            documents = load_yaml_documents(raw)
    except ValueError as error:
        raise LoadError(f"{origin}: {error}") from error
    return [
        manifest
        for number, document in enumerate(documents, 1)
        if document is not None
        for manifest in _flattened(document, f"{origin}: document {number}")
    ]


def _json_documents(raw: bytes) -> list[object]:
    """Return the values of a stream of JSON, as kubectl and jq write it. Raises ValueError."""
    text = raw.decode()
    decoder = json.JSONDecoder(parse_constant=_refused)
    documents: list[object] = []
    position = 0
    try:
        while rest := text[position:].lstrip():
            position = len(text) - len(rest)
            document, position = decoder.raw_decode(text, position)
            documents.append(document)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return documents


def _refused(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON value")


def _flattened(document: object, origin: str) -> Iterator[Manifest]:
    """Yield the objects of a document; a List of any kind has several."""
    if not isinstance(document, dict):
        raise LoadError(f"{origin}: expected an object with kind and apiVersion")
    kind = document.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(document.get("items"), list):
        version = document.get("apiVersion")
        for index, item in enumerate(_items(document, origin)):
            # Items of a typed list have no kind of their own.
            typed = {"kind": kind.removesuffix("List"), "apiVersion": version, **item}
            yield from _flattened(item if kind == "List" else typed, f"{origin}: items[{index}]")
        return
    yield Manifest(document, origin)


def _items(document: Json, origin: str) -> list[Json]:
    """Return the items of a List. Raises LoadError if one is not an object."""
    items = document["items"]
    assert isinstance(items, list)
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise LoadError(f"{origin}: items[{index}]: expected an object")
    return items


def manifests_of(objects: Iterable[Json]) -> list[Manifest]:
    """Return objects from a program as manifests, named by their position."""
    return [
        manifest
        for index, value in enumerate(objects)
        for manifest in _flattened(value, f"object {index}")
    ]
