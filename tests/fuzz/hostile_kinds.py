"""Definitions with hard schemas, patterns, rules and columns, and the objects of their kinds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from tests.fakeapi import custom_resources

from .asking import Asked, json_of
from .texts import TEXTS

_GROUP: Final = "fuzz.example.com"
#: Few, so that objects find their definition.
_PLURALS: Final = ("things", "items")
#: Too long for a file.
_LONG_JSON_PATHS: Final = (
    *(".x[?(@" + "[a]" * 16 + "!x", ".x[?(@" + "[a]" * 25 + "!x"),
    *("." * 3000, ".a" * 3000, ".[" * 2000),
)
_SIZES: Final = (1, 5, 50, 500, 5000)


class Definitions:
    """Makes requests about custom kinds: their definitions, their objects."""

    def __init__(self, chance: random.Random, text: Callable[[], str]) -> None:
        self._chance = chance
        self._text = text

    def next(self) -> Asked:
        """A request that writes a definition or an object."""
        chance = self._chance
        plural = chance.choice(_PLURALS)
        headers = {"Host": "x", "Content-Type": "application/json"}
        if chance.random() < 0.3:
            return self._definition(plural, headers)
        path = f"/apis/{_GROUP}/v1/namespaces/default/{plural}"
        accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
        if chance.random() < 0.1:
            return Asked("GET", path, {**headers, "Accept": accept})
        name = chance.choice("abcdefgh")
        body = {"apiVersion": f"{_GROUP}/v1", "kind": plural.title()[:-1], **self._object(name)}
        dice = chance.random()
        if dice < 0.6:
            return Asked("POST", path, headers, json_of(body))
        path = f"{path}/{name}"
        if dice < 0.7:
            return Asked("PUT", path, headers, json_of(body))
        if dice < 0.8:
            headers["Content-Type"] = "application/apply-patch+yaml"
            return Asked("PATCH", f"{path}?fieldManager=m&force=true", headers, json_of(body))
        headers["Content-Type"] = "application/merge-patch+json"
        return Asked("PATCH", path, headers, json_of({"spec": body["spec"]}))

    def _definition(self, plural: str, headers: dict[str, str]) -> Asked:
        chance = self._chance
        kind = plural.title()[:-1]
        schema = {"type": "object", "properties": {"spec": self._schema()}}
        columns = [
            {
                "name": f"c{n}",
                "type": chance.choice(("string", "integer", "date", "x")),
                "jsonPath": self._json_path(),
            }
            for n in range(chance.choice((0, 1, 1, 3, 40)))
        ]
        version = custom_resources.version(node=schema, additionalPrinterColumns=columns)
        if chance.random() < 0.2:
            version["selectableFields"] = [{"jsonPath": self._json_path()}]
        if chance.random() < 0.2:
            paths = {"specReplicasPath": self._json_path(), "statusReplicasPath": ".status.n"}
            version["subresources"] = {"status": {}, "scale": paths}
        made = custom_resources.definition(
            version, group=_GROUP, names={"plural": plural, "kind": kind}
        )
        made["metadata"] = {"name": f"{plural}.{_GROUP}"}
        path = custom_resources.DEFINITIONS
        if chance.random() < 0.6:
            return Asked("POST", path, headers, json_of(made))
        target = f"{path}/{plural}.{_GROUP}"
        if chance.random() < 0.3:
            return Asked("DELETE", target, headers)
        headers["Content-Type"] = "application/merge-patch+json"
        return Asked("PATCH", target, headers, json_of({"spec": made["spec"]}))

    def _json_path(self) -> str:
        chance = self._chance
        if chance.random() < 0.3:
            return ".x" + self._text()
        path: str = chance.choice((*TEXTS["json_paths"], *_LONG_JSON_PATHS))
        return path

    def _schema(self) -> Any:
        """A schema of a spec; mostly valid, so that objects meet its rules."""
        chance = self._chance
        text: dict[str, Any] = {"type": "string"}
        if chance.random() < 0.5:
            text["pattern"] = (
                chance.choice(TEXTS["patterns"]) if chance.random() < 0.8 else self._text()
            )
        if chance.random() < 0.6:
            text["format"] = chance.choice(TEXTS["formats"])
        if chance.random() < 0.2:
            text["default"] = self._text()
        items: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
        if chance.random() < 0.4:
            items["x-kubernetes-list-type"] = chance.choice(("set", "atomic", "map", "x"))
        if chance.random() < 0.1:
            items["items"] |= self._alternatives()
        if chance.random() < 0.5:
            items |= {"maxItems": 50}
            text["maxLength"] = 100
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {"text": text, "items": items, "parts": self._parts()},
        }
        if chance.random() < 0.5:
            schema["x-kubernetes-validations"] = [
                {"rule": chance.choice(TEXTS["rules"]) if chance.random() < 0.85 else self._text()}
                for _ in range(chance.choice((1, 1, 2, 20)))
            ]
        if chance.random() < 0.15:
            schema["properties"]["deep"] = self._deep()
        if chance.random() < 0.05:
            pattern = text.get("pattern", "")
            schema["properties"] |= {
                f"p{n}": {**text, "pattern": f"{pattern}{n}"}
                for n in range(chance.choice((100, 1000)))
            }
        if chance.random() < 0.05:
            schema["x-kubernetes-validations"] = [
                {"rule": f"{n} == {'+'.join('1' * chance.choice((10, 1000, 4000)))}"}
                for n in range(chance.choice((10, 100)))
            ]
        return schema

    def _alternatives(self) -> dict[str, Any]:
        count = self._chance.choice((50, 1000))
        made: dict[str, Any] = self._chance.choice(
            (
                {"anyOf": [{"minLength": 9}] * count},
                {"allOf": [{"maxLength": 9}] * count},
                {"enum": [f"a{n}" for n in range(count)]},
                {"default": "a" * count},
            )
        )
        return made

    def _parts(self) -> Any:
        parts: dict[str, Any] = {**custom_resources.SPEC["properties"]["parts"]}
        if self._chance.random() < 0.2:
            parts["x-kubernetes-list-map-keys"] = ["name", "weight"]
        return parts

    def _deep(self) -> Any:
        schema: Any = {"type": "string"}
        for _ in range(self._chance.choice((3, 20, 100))):
            if self._chance.random() < 0.3:
                schema = {"type": "array", "items": schema}
            else:
                schema = {"type": "object", "properties": {"a": schema}, "default": {}}
        wrap = self._chance.choice(("allOf", "anyOf", "oneOf", "not", ""))
        if wrap:
            schema = {**schema, wrap: {"required": ["a"]} if wrap == "not" else [{}] * 50}
        return schema

    def _object(self, name: str) -> dict[str, Any]:
        chance = self._chance
        count = chance.choices(_SIZES, (20, 20, 10, 3, 1))[0]
        spec: dict[str, Any] = {"text": self._text()}
        if chance.random() < 0.4:
            spec["items"] = [f"i{n}" for n in range(count)]
        if chance.random() < 0.2:
            spec["items"] = ["same"] * count
        if chance.random() < 0.3:
            spec["parts"] = [{"name": f"p{n}"} for n in range(count)]
        if chance.random() < 0.1:
            spec["deep"] = {"a": {"a": [{"a": {}}]}}
        return {"metadata": {"name": name}, "spec": spec}
