"""Random schemas, values and definitions, many of them wrong: questions for the oracle."""

import copy
import random
from typing import Any

Json = dict[str, Any]

_NAMES = "abcd"
_FORMATS = (
    "ipv4", "ipv6", "date-time", "uuid", "email", "byte", "date", "duration", "hostname", "uri",
    "cidr", "mac", "hexcolor", "k8s-short-name", "int32", "nope",
)  # fmt: skip
_TEXTS = (
    "", "a", "ab", "abcd", "xyz", "1.2.3.4", "::1", "10.0.0.0/8", "2020-01-01T00:00:00Z",
    "2020-01-01", "a@b.c", "YWJj", "5s", "3 weeks", "ex.am", "http://x/y", "aa:bb:cc:dd:ee:ff",
    "#fff", "f47ac10b-58cc-4372-8567-0e02b2c3d479", "é", "foo\n",
)  # fmt: skip
_FLAWS: tuple[tuple[str, Any], ...] = (
    ("uniqueItems", True), ("$ref", "#/a"), ("x-kubernetes-list-type", "map"),
    ("x-kubernetes-list-type", "bad"), ("x-kubernetes-map-type", "atomic"),
    ("x-kubernetes-embedded-resource", True), ("type", "null"), ("type", "foo"),
    ("nullable", True), ("x-kubernetes-preserve-unknown-fields", False),
    ("additionalProperties", {"type": "string"}), ("additionalProperties", False),
    ("pattern", "(?=a)"), ("title", "t"), ("description", "d"),
    ("x-kubernetes-list-map-keys", ["a"]), ("items", {"type": "string"}),
    ("properties", {"metadata": {"type": "object"}}), ("x-kubernetes-int-or-string", True),
    ("default", {"a": 1}), ("id", "x"), ("definitions", {"a": {}}),
    ("x-kubernetes-validations", [{"rule": "", "message": "a\nb"}]),
)  # fmt: skip


class Chance:
    """Schemas, values and definitions, by chance."""

    def __init__(self, random: random.Random) -> None:
        self._random = random
        self.choice = random.choice

    def is_so(self, probability: float) -> bool:
        return self._random.random() < probability

    def some(self, most: int, fewest: int = 0) -> list[str]:
        return self._random.sample(_NAMES, self._random.randint(fewest, most))

    def number(self, most: int) -> int:
        return self._random.randint(0, most)

    def schema(self, depth: int) -> Json:
        """A schema that may be judged; it need not make sense."""
        scalars = ["string", "integer", "number", "boolean", "either"]
        node = self._typed(self.choice([*scalars, *["object", "array"] * 3, "any"]
                                       if depth else scalars), depth)  # fmt: skip
        if self.is_so(0.15):
            node["nullable"] = True
        if self.is_so(0.12):
            junctor = self.choice(["anyOf", "oneOf", "allOf"])
            node[junctor] = [self._judgement(node) for _ in range(1 + self.number(2))]
        if self.is_so(0.05):
            node["not"] = self._judgement(node)
        if self.is_so(0.2) and (default := self.value(node, 1)) is not None:
            node["default"] = default
        return node

    def _typed(self, kind: str, depth: int) -> Json:
        if kind == "any":
            return {"x-kubernetes-preserve-unknown-fields": True}
        if kind == "either":
            return {"x-kubernetes-int-or-string": True}
        make = {"string": self._text, "object": self._object, "array": self._array}.get(kind)
        if make is not None:
            return {"type": kind, **make(depth)}
        return {"type": kind, **({} if kind == "boolean" else self._number())}

    def _text(self, _: int) -> Json:
        rules = {
            "maxLength": self.number(3),
            "minLength": self.number(3),
            "pattern": self.choice(["^a", "b$", "^[a-c]+$"]),
            "format": self.choice(_FORMATS),
            "enum": self._random.sample(["a", "b", "ab", "c"], 2),
        }
        return {name: rule for name, rule in rules.items() if self.is_so(0.25)}

    def _number(self) -> Json:
        rules = {
            "minimum": self.choice([0, 1, 2, 1.5]),
            "maximum": self.choice([1, 2, 3, 2.5]),
            "exclusiveMinimum": True,
            "exclusiveMaximum": True,
            "multipleOf": self.choice([2, 0.5, 3]),
            "format": self.choice(["int32", "int64", "double", "float"]),
            "enum": [1, 2],
        }
        return {name: rule for name, rule in rules.items() if self.is_so(0.2)}

    def _object(self, depth: int) -> Json:
        node: Json = {}
        if self.is_so(0.75):
            node["properties"] = {name: self.schema(depth - 1) for name in self.some(3)}
            if self.is_so(0.4):
                node["required"] = self.some(2, 1)
            if self.is_so(0.2):
                node["x-kubernetes-preserve-unknown-fields"] = True
        elif self.is_so(0.8):
            node["additionalProperties"] = self.schema(depth - 1) if self.is_so(0.8) else True
        for name in ("maxProperties", "minProperties"):
            if self.is_so(0.15):
                node[name] = self.number(2)
        return node

    def _array(self, depth: int) -> Json:
        node: Json = {"items": self.schema(depth - 1)}
        for name in ("maxItems", "minItems"):
            if self.is_so(0.2):
                node[name] = self.number(2)
        if self.is_so(0.2):
            node["x-kubernetes-list-type"] = "set"
        elif node["items"].get("type") == "object" and self.is_so(0.5):
            node["x-kubernetes-list-type"] = "map"
            node["x-kubernetes-list-map-keys"] = self.some(2, 1)
        return node

    def _judgement(self, node: Json) -> Json:
        kind = node.get("type")
        if kind in ("integer", "number"):
            return {self.choice(["minimum", "maximum"]): self.number(2)}
        if kind == "string":
            rules = [{"maxLength": self.number(3)}, {"pattern": "a"}, {"enum": ["a", "b"]}]
            return self.choice(rules)
        if kind == "object" and node.get("properties"):
            return {"required": [self.choice(_NAMES)]}
        if node.get("x-kubernetes-int-or-string"):
            return {"type": self.choice(["integer", "string"])}
        return {}

    def value(self, node: Json | None, depth: int) -> Any:
        """A value that mostly fits the schema."""
        anything: list[Any] = [None, 1, "a", True, [], {}, 1.5, {"a": 1}, ["b"], -3]
        if node is None or self.is_so(0.15):
            return self.choice(anything)
        kind = node.get("type")
        if node.get("enum") and self.is_so(0.5):
            return self.choice(node["enum"])
        if kind == "array":
            return [self.value(node.get("items"), depth - 1) for _ in range(self.number(3))]
        if kind == "object":
            return self._fields(node, depth)
        fitting: dict[Any, list[Any]] = {
            "string": list(_TEXTS),
            "integer": [0, 1, 2, 3, 4, -1, 2**31, 2**40, 1.0, 2.5],
            "number": [0, 1, 2, 1.5, 2.5, 3.0, -1, 1e30],
            "boolean": [True, False],
        }
        return self.choice(fitting.get(kind, [1, "a", {"x": {"y": 1}}, [1], True, None]))

    def _fields(self, node: Json, depth: int) -> Json:
        made = {
            name: self.value(inner, depth - 1)
            for name, inner in node.get("properties", {}).items()
            if self.is_so(0.7)
        }
        if self.is_so(0.4):
            additional = node.get("additionalProperties")
            inner = additional if isinstance(additional, dict) else None
            made[self.choice("abcdxyz")] = self.value(inner, depth - 1)
        return made

    def changed(self, value: Any) -> Any:
        """The value with a change here and there."""
        if isinstance(value, dict):
            return {name: self._maybe_changed(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._maybe_changed(item) for item in value]
        return value

    def _maybe_changed(self, value: Any) -> Any:
        if self.is_so(0.2):
            return self.choice([0, 1, "a", "zz", None, {}, []])
        return self.changed(value)

    def question(self) -> Json:
        """A schema and a value, sometimes with the value that was there before."""
        root: Json = {
            "type": "object",
            "properties": {name: self.schema(3) for name in self.some(3, 1)},
        }
        if self.is_so(0.3):
            root["required"] = [self.choice(_NAMES)]
        old = self._fields(root, 4)
        if self.is_so(0.4):
            return {"Schema": root, "Value": self.changed(old), "Old": old}
        return {"Schema": root, "Value": old}

    def definition(self) -> Json:
        """A definition with a flaw or two."""
        root: Json = {
            "type": "object",
            "properties": {name: self.schema(3) for name in self.some(3, 1)},
        }
        places = list(_nodes(root))
        for _ in range(self.number(2)):
            name, flaw = self.choice(_FLAWS)
            self.choice(places)[name] = copy.deepcopy(flaw)
        if self.is_so(0.3):
            self.choice(places).pop("type", None)
        version: Json = {
            "name": self.choice(["v1"] * 4 + ["V1"]),
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": root},
        }
        if self.is_so(0.4):
            version["subresources"] = copy.deepcopy(self.choice(_SUBRESOURCES))
        if self.is_so(0.2):
            version["additionalPrinterColumns"] = [dict(self.choice(_COLUMNS))]
        if self.is_so(0.1):
            version["deprecationWarning"] = "x"
        names: Json = {
            "plural": self.choice(["widgets"] * 3 + ["Widgets", ""]),
            "kind": self.choice(["Widget"] * 3 + ["w_x", ""]),
        }
        group = self.choice(["example.com"] * 3 + ["x", "", "a.k8s.io", "Ex.com"])
        spec = {"group": group, "scope": self.choice(["Cluster"] * 4 + ["X", ""]), "names": names}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{names['plural']}.{group}"},
            "spec": {**spec, "versions": [version]},
            "status": {
                "conditions": [],
                "acceptedNames": {"plural": "", "kind": ""},
                "storedVersions": [version["name"]],
            },
        }


_SUBRESOURCES: tuple[Json, ...] = (
    {"status": {}},
    {"scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": "x"}},
    {
        "status": {},
        "scale": {
            "specReplicasPath": "",
            "statusReplicasPath": ".status.b",
            "labelSelectorPath": "y",
        },
    },
)
_COLUMNS: tuple[Json, ...] = (
    {"name": "", "type": "date", "jsonPath": ".a"},
    {"name": "a", "type": "str", "jsonPath": "b", "format": "q"},
    {"name": "b", "type": "string", "jsonPath": ""},
)


def _nodes(node: Json) -> list[Json]:
    """The schema and all schemas in it."""
    inner = list(node.get("properties", {}).values())
    inner += [node[name] for name in ("items", "not") if isinstance(node.get(name), dict)]
    for name in ("anyOf", "allOf", "oneOf"):
        inner += node.get(name, [])
    return [node, *(found for part in inner for found in _nodes(part))]
