"""Upstream's own tests of merging and owners, as histories of writes and their results.

`apply_histories.json` was written by running the tests of structured-merge-diff v6.3.3 (package
merge) with a fixture that records, after each operation, the live object and its owners.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fakeapi.apply import paths, sets
from fakeapi.apply.types import ListType, MapType, Type
from fakeapi.apply.updater import Conflicts, Manager, Owned, Updater

_FILE = json.loads(Path(__file__).with_name("apply_histories.json").read_text(encoding="utf-8"))
HISTORIES = _FILE["histories"]


class Schema:
    """A schema in the form of structured-merge-diff, the same in all versions."""

    may_change = True

    def __init__(self, number: int, root: Any) -> None:
        self._declared = {item["name"]: item for item in _FILE["schemas"][number]["types"]}
        self._named: dict[tuple[str, str], Type] = {}
        self._root = self._type(root)

    def type_in(self, _: str) -> Type:
        return self._root

    def convert(self, value: object, _source: str, _target: str) -> object:
        return value

    def _type(self, reference: Any) -> Type:
        name, relation = reference.get("namedType"), reference.get("elementRelationship", "")
        if name is None:
            return self._filled(Type("inlined"), reference, relation)
        found = self._named.get((name, relation))
        if found is None:
            found = self._named[name, relation] = Type(name)
            self._filled(found, self._declared[name], relation)
        return found

    def _filled(self, made: Type, atom: Any, relation: str) -> Type:
        made.scalar = atom.get("scalar", "")
        if "list" in atom:
            made.list = self._list(atom["list"], relation)
        if "map" in atom:
            made.map = self._map(atom["map"], relation)
        return made

    def _list(self, atom: Any, relation: str) -> ListType:
        element = self._type(atom["elementType"])
        keys = tuple(atom.get("keys", ()))
        fields = self._declared.get(atom["elementType"].get("namedType"), {}).get("map", {})
        defaults = {
            field["name"]: field["default"]
            for field in fields.get("fields", ())
            if field["name"] in keys and field.get("default") is not None
        }
        is_atomic = (relation or atom["elementRelationship"]) == "atomic"
        return ListType(element, is_atomic=is_atomic, keys=keys, defaults=defaults)

    def _map(self, atom: Any, relation: str) -> MapType:
        fields = {field["name"]: self._type(field["type"]) for field in atom.get("fields", ())}
        given = atom.get("elementType")
        element = self._type(given) if given else None
        is_atomic = (relation or atom.get("elementRelationship")) == "atomic"
        return MapType(lambda: fields, element=element, is_atomic=is_atomic)


def run(updater: Updater, step: Any, live: object, owned: Any) -> tuple[object, Any]:
    manager = Manager(step["manager"], "", "", "")
    version, value = step["version"], step["object"]
    if step["op"] == "update":
        return value, updater.update(live, value, version, owned, manager)
    force = step["op"] == "force"
    return updater.apply(live, value, version, owned, manager, force=force)


def found_conflicts(conflicts: Conflicts) -> list[list[str]]:
    return sorted(
        [owner.name, paths.shown(path)]
        for owner, fields in conflicts.owners.items()
        for path in sets.members(fields)
    )


def shown(owned: Mapping[Manager, Owned]) -> Any:
    return {
        manager.name: {
            "set": sets.canonical(theirs.fields),
            "version": theirs.api_version,
            "applied": theirs.applied,
        }
        for manager, theirs in owned.items()
    }


@pytest.mark.parametrize("number", range(len(HISTORIES)))
def test_each_write_has_the_result_of_upstream(number: int) -> None:
    history = HISTORIES[number]
    resets = {version: sets.parse(value) for version, value in history.get("ignored", {}).items()}
    updater = Updater(Schema(history["schema"], history["type"]), resets)
    live: object = None
    owned: dict[Manager, Owned] = {}
    for step in history["steps"]:
        conflicts = []
        try:
            live, owned = run(updater, step, live, owned)
        except Conflicts as found:
            conflicts = found_conflicts(found)
        assert conflicts == sorted(step.get("conflicts", []))
        assert live == step["live"]
        assert shown(owned) == step["managers"]
