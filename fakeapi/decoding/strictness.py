"""Field validation: findings about duplicate and unknown fields of a body.

`fieldValidation=Warn` (the default) turns each finding into a warning, Strict into an error, Ignore
drops it. Decoders keep the last of duplicate fields and drop unknown ones, so both are searched
separately.

Source: sigs.k8s.io/json internal/golang/encoding/json and apiserver pkg/endpoints/handlers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import msgspec
import yaml

from fakeapi.decoding.parsing import SAFE_LOADER
from fakeapi.types.errors import unhandled
from fakeapi.types.objects import mappings, metadata_of, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeapi.decoding.bodies import Body
    from fakeapi.types.objects import Json

_UNKNOWN: Final = 'unknown field "'
_PATCH_FIELDS: Final = ("op", "path", "from", "value")


class _Pairs(list[tuple[str, object]]):
    """The entries of a JSON object, duplicates included."""


class _Repeated(Exception):
    """A JSON object has a key twice."""


def _unrepeated(pairs: list[tuple[str, object]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise _Repeated


def duplicates(body: Body) -> list[str]:
    """Return the findings about keys that occur twice in a JSON text, none if it is not JSON.

    Findings name fields by paths: those below a key that is too long for a path are left out.
    """
    try:
        return _duplicates(body)
    except (ValueError, RecursionError):
        return []


def _duplicates(body: Body) -> list[str]:
    """Return the findings about a JSON text. Raises ValueError if it is not JSON."""
    try:
        json.loads(body.raw, object_pairs_hook=_unrepeated)
    except _Repeated:
        pairs = json.loads(body.raw, object_pairs_hook=_Pairs)
        paths = _paths(pairs, "", body.limits.max_path_length)
        return list(dict.fromkeys(_duplicate(path) for path, is_repeated in paths if is_repeated))
    return []


def known(repeated: list[str], unknown: list[str]) -> list[str]:
    """Return the findings on duplicate fields that are not unknown, nor inside unknown ones.

    Go's decoder skips a field that the type does not have.
    """
    names = [finding.removeprefix(_UNKNOWN).removesuffix('"') for finding in unknown]
    within = tuple(_duplicate(name).removesuffix('"') + end for name in names for end in '".[')
    return [finding for finding in repeated if not finding.startswith(within)]


def report(kind: str, found: list[str], field_validation: str, warnings: list[str]) -> None:
    """Append the findings to `warnings` (Warn), or refuse the body of a kind in v1 (Strict).

    Raises BadRequest.
    """
    if found and field_validation == "Strict":
        raise unhandled(kind, "v1", f"strict decoding error: {', '.join(found)}")
    if field_validation == "Warn":
        warnings += found


def _duplicate(path: str) -> str:
    return f'duplicate field "{path}"'


def in_order(body: Body, repeated: list[str], unknown: list[str]) -> list[str]:
    """Return both kinds of findings in the order of their fields in the JSON text."""
    if not repeated or not unknown:
        return repeated + unknown
    positions: dict[str, int] = {}
    pairs = json.loads(body.raw, object_pairs_hook=_Pairs)
    paths = _paths(pairs, "", body.limits.max_path_length)
    for index, (path, is_repeated) in enumerate(paths):
        finding = _duplicate(path) if is_repeated else f'{_UNKNOWN}{path}"'
        positions.setdefault(finding, index)
    return sorted(repeated + unknown, key=lambda finding: positions.get(finding, 0))


def _paths(value: object, path: str, length_max: int) -> Iterator[tuple[str, bool]]:
    """Yield the path of each key in order, and whether its object had the key before."""
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            inner = f"{path}.{key}" if path else key
            if len(inner) > length_max:
                continue
            yield inner, key in seen
            seen.add(key)
            yield from _paths(item, inner, length_max)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, f"{path}[{index}]", length_max)


def duplicates_in_patch(body: Body, operations: object) -> list[str]:
    """Return the findings about the operations of a JSON patch: duplicate and unknown keys."""
    found = duplicates(body)
    if isinstance(operations, list):
        for index, operation in enumerate(operations):
            if isinstance(operation, dict):
                found += [
                    f'unknown field "[{index}].{name}"'
                    for name in operation
                    if name not in _PATCH_FIELDS
                ]
    return [f"json patch {finding}" for finding in found]


def without_repeated_owners(obj: Json, *, is_patch: bool = False) -> list[str]:
    """Drop duplicate owner references; return the warning."""
    metadata = metadata_of(obj)
    owners = mappings(metadata.get("ownerReferences"))
    if len(owners) < 2:
        return []
    kept: dict[bytes, Json] = {}
    dropped = [
        text(owner.get("uid"))
        for owner in owners
        if kept.setdefault(msgspec.json.encode(owner, order="sorted"), owner) is not owner
    ]
    if not dropped:
        return []
    metadata["ownerReferences"] = list(kept.values())
    when = " after mutating admission happens" if is_patch else ""
    return [
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner "
        "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
        f"requests; duplicate UID(s) observed: {', '.join(dropped)}"
    ]


def duplicates_in_yaml(body: Body, value: Json) -> list[str]:
    """Return the findings about keys that occur twice in a YAML text, of which JSON is a part."""
    if not body.may_repeat_keys:
        return []
    try:
        if not _duplicates(body):
            return []
    except (ValueError, RecursionError):
        pass  # it is not JSON
    node = next(yaml.compose_all(body.raw, SAFE_LOADER), None) if value else None
    return [] if node is None else list(_repeated_nodes(node))


def _repeated_nodes(node: yaml.Node) -> Iterator[str]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, item in node.value:
            if key.value in seen:
                yield f'line {key.start_mark.line + 1}: key "{key.value}" already set in map'
            seen.add(key.value)
            yield from _repeated_nodes(item)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _repeated_nodes(item)
