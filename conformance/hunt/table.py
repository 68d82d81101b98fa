"""The table of reasons to wait and remedies: files of YAML, written as cases are, with choices.

- `draw`: one of each list is drawn per world; later lists may name earlier ones.
- `$name`, `$name.key`: the drawn value, or a part of it; also as a key.
- `with: $name`: a drawn mapping, or some, whose keys are taken over; in a list, its items.
- `gone: db`: the remedies by which a pod stops using its node.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..api import Json
from ..errors import InputError
from ..format.validation import read_yaml

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator

_FOLDER: Final = Path(__file__).parent / "reasons"
_WITH: Final = "with"


class Sketch(msgspec.Struct, frozen=True, kw_only=True):
    """Objects in which a waiter has one reason to wait, and the steps of each remedy.

    `before` are steps before the waiter is created. `changed` are the fields of the waiter that a
    remedy changes, and `control` those in which its copy differs.
    """

    cluster: list[Json]
    before: list[Json]
    waiter: Json
    control: Json
    gone: str
    remedies: dict[str, list[Json]]
    changed: dict[str, Json]


class Reason(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reason to reject a pod, which `message` shows: a sketch with choices.

    `settles`: the first attempt is over before a remedy.
    """

    about: str
    message: str = ""
    settles: bool = True
    gates: dict[str, bool] = {}
    draw: dict[str, list[object]] = {}
    cluster: list[object] = []
    before: list[object] = []
    waiter: object = {}
    control: object = {}
    gone: str = ""
    remedies: dict[str, list[object]] = {}
    changed: dict[str, object] = {}

    @property
    def remedy_names(self) -> list[str]:
        """The names of all remedies."""
        return [*(_gone("") if self.gone else {}), *self.remedies]

    def sketch(self, rng: random.Random) -> Sketch:
        """Return the sketch with all choices made."""
        drawn: Json = {}
        for name, choices in self.draw.items():
            drawn[name] = _expanded(rng.choice(choices), drawn)
        fields = {name: _expanded(getattr(self, name), drawn) for name in Sketch.__struct_fields__}
        made = msgspec.convert(fields, Sketch)
        ends = _gone(made.gone) if made.gone else {}
        return msgspec.structs.replace(made, remedies=ends | made.remedies)


def _gone(name: str) -> dict[str, list[Json]]:
    """Return the remedies by which a pod stops using its node."""
    namespace, _, plain = name.rpartition("/")
    again = {"name": plain, "scheduler_name": "another"}
    again |= {"namespace": namespace} if namespace else {}
    pod = {"pod": name}
    slowly: Json = {"delete": {**pod, "grace_period_seconds": 30}}
    return {
        "pod is deleted": [{"delete": pod}],
        "pod ends slowly": [slowly, {"advance": "1s"}, {"delete": pod}],
        "pod succeeds": [{"update_status": {**pod, "status": {"phase": "Succeeded"}}}],
        "pod fails": [{"update_status": {**pod, "status": {"phase": "Failed"}}}],
        "pod is evicted": [{"evict": pod}],
        "pod is replaced under its name": [{"delete": pod}, {"create": [{"pod": again}]}],
        "pod ends and stays": [slowly, {"update_status": {**pod, "status": {"phase": "Failed"}}}],
    }


def _expanded(value: object, drawn: Json) -> object:
    """Return a copy of a value with the drawn values in place."""
    if isinstance(value, str) and value.startswith("$"):
        found: object = drawn
        for key in value[1:].split("."):
            found = msgspec.convert(found, Json)[key]
        return found
    if isinstance(value, list):
        return [*_items(value, drawn)]
    if not isinstance(value, dict):
        return value
    made: Json = {}
    for key, each in value.items():
        if key == _WITH:
            for more in each if isinstance(each, list) else [each]:
                made |= msgspec.convert(_expanded(more, drawn), Json)
        else:
            made[str(_expanded(key, drawn))] = _expanded(each, drawn)
    return made


def _items(values: Iterable[object], drawn: Json) -> Iterator[object]:
    for value in values:
        if isinstance(value, dict) and value.keys() == {_WITH}:
            yield from msgspec.convert(_expanded(value[_WITH], drawn), list[object])
        else:
            yield _expanded(value, drawn)


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of the table, by plugin and name; `definitions` are for YAML's anchors."""

    definitions: Json = {}
    reasons: dict[str, dict[str, Reason]]


def _read() -> Iterator[tuple[str, dict[str, Reason]]]:
    for path in sorted(_FOLDER.glob("*.yaml")):
        try:
            yield from msgspec.convert(read_yaml(path).content, _File).reasons.items()
        except msgspec.ValidationError as error:
            raise InputError(f"{path}: {error}") from error


_READ: Final = [*_read()]
#: The plugins that reject, and all reasons by name.
PLUGINS: Final = frozenset(plugin for plugin, _ in _READ)
REASONS: Final = {name: reason for _, some in _READ for name, reason in some.items()}
