"""Random JSON values: allowed by a schema of an OpenAPI document, and slightly wrong ones."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from .texts import TEXTS

Schema = dict[str, Any]

#: Few, so that what one request creates another finds.
NAMES: Final = ("a", "b", "c", "n1", "web-0")
NAMESPACES: Final = ("default", "default", "default", "kube-system", "other", "none")
_DEPTH_MAX: Final = 5


class Values:
    """Values for the schemas of one document after another."""

    def __init__(self, chance: random.Random, schemas: Mapping[str, Schema]) -> None:
        self._chance = chance
        self._schemas = schemas

    def of(self, schema: Schema, depth: int = 0) -> Any:
        """A value that the schema allows, more or less."""
        name, schema = self._resolved(schema)
        chance = self._chance
        if name.endswith(".Quantity"):
            return chance.choice(TEXTS["quantities"])
        if name.endswith((".Time", ".MicroTime")):
            return chance.choice(TEXTS["times"])
        if "oneOf" in schema and "type" not in schema:
            return self.of(chance.choice(schema["oneOf"]), depth)
        if schema.get("format") == "int-or-string":
            return chance.choice((80, "10%", "http", -1, "101%"))
        if "enum" in schema and chance.random() < 0.9:
            return chance.choice(schema["enum"])
        makers: dict[str, Callable[[], Any]] = {
            "string": lambda: chance.choice(TEXTS["strings"]),
            "integer": lambda: chance.choice(TEXTS["integers"]),
            "number": lambda: chance.choice((0.5, 1e300, -1)),
            "boolean": lambda: chance.random() < 0.5,
            "array": lambda: self._array(schema, depth),
            "object": lambda: self._object(schema, depth),
        }
        make = makers.get(schema.get("type", ""))
        return make() if make else self.junk()

    def mutated(self, value: Any, schema: Schema) -> Any:
        """Return the value with a few places replaced, wrong, missing or added."""
        changed = copy.deepcopy(value)
        for _ in range(self._chance.choice((1, 1, 1, 2, 4))):
            places = list(self._places(changed, schema))
            if not places:
                return self.of(schema)
            container, key, below = self._chance.choice(places)
            self._change(container, key, below)
        return changed

    def junk(self) -> Any:
        """Return a value that does not fit any schema."""
        return copy.deepcopy(self._chance.choice(TEXTS["junk"]))

    def patch_operations(self, value: Any) -> list[Any]:
        """Return a JSON patch whose paths are mostly in the value."""
        places = [path for path, _ in _pointers(value)] or [""]
        odd = (
            "",
            "/",
            "/metadata/labels/a~1b",
            "/spec/containers/-",
            "/spec/containers/9" + "9" * 30,
        )
        found = []
        for _ in range(self._chance.randint(0, 3)):
            verb = self._chance.choice(("add", "remove", "replace", "move", "copy", "test", "x"))
            operation = {"op": verb, "path": self._chance.choice((*places, *odd))}
            if self._chance.random() < 0.8:
                operation["value"] = self.junk()
            if verb in ("move", "copy") and self._chance.random() < 0.9:
                operation["from"] = self._chance.choice((*places, *odd))
            found.append(operation if self._chance.random() < 0.95 else self.junk())
        return found

    def _resolved(self, schema: Schema) -> tuple[str, Schema]:
        name = ""
        for _ in range(4):
            reference = schema.get("$ref")
            if not reference and len(schema.get("allOf", [])) == 1:
                schema = schema["allOf"][0]
                reference = schema.get("$ref")
            if not reference:
                break
            name = reference.rpartition("/")[2]
            schema = self._schemas.get(name, {})
        return name, schema

    def _array(self, schema: Schema, depth: int) -> list[Any]:
        count = 0 if depth >= _DEPTH_MAX else self._chance.choice((0, 1, 1, 2, 3))
        return [self.of(schema.get("items", {}), depth + 1) for _ in range(count)]

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        fields = schema.get("properties", {})
        if not fields:
            inner = schema.get("additionalProperties")
            count = self._chance.randint(0, 2) if isinstance(inner, dict) else 0
            return {
                self._chance.choice(TEXTS["strings"]): self.of(inner or {}, depth + 1)
                for _ in range(count)
            }
        wanted = set(schema.get("required", ()))
        if depth < _DEPTH_MAX:
            wanted.update(self._chance.sample(sorted(fields), min(len(fields), 4 - depth // 2)))
        return {name: self.of(fields[name], depth + 1) for name in sorted(wanted & set(fields))}

    def _places(self, value: Any, schema: Schema) -> Iterator[tuple[Any, Any, Schema]]:
        """Places in a value: what holds it, its key, its schema; also fields that are not set."""
        _, schema = self._resolved(schema)
        if isinstance(value, dict):
            fields = schema.get("properties", {})
            other = schema.get("additionalProperties") or {}
            for name in {**fields, **value}:
                below = fields.get(name, other if isinstance(other, dict) else {})
                yield value, name, below
                if name in value:
                    yield from self._places(value[name], below)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield value, index, schema.get("items", {})
                yield from self._places(item, schema.get("items", {}))

    def _change(self, container: Any, key: Any, schema: Schema) -> None:
        dice = self._chance.random()
        if dice < 0.6:
            container[key] = self.of(schema)
        elif dice < 0.75:
            container[key] = self.junk()
        elif dice < 0.85:
            if isinstance(container, list) or key in container:
                del container[key]
        elif isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
        else:
            container[self._chance.choice(TEXTS["strings"])] = self.junk()


def _pointers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The JSON pointers into a value."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        below = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
        yield below, item
        yield from _pointers(item, below)
