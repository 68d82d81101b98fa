"""Requests that try to hold the server, to make it fail, or to get past its authorizer.

Long and repetitive texts, every form of path, deep and wide bodies, patches that copy.
"""

from __future__ import annotations

import json
import random
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any, Final

import yaml

from tests.fakeapi import protobuf_writer

from .asking import PATCHES, VERBS, Asked, Resource, json_of
from .hostile_kinds import Definitions
from .texts import SEEDS, TEXTS
from .values import NAMES

#: Mostly short, so that many requests are made in little time.
_LENGTHS: Final = ((10, 30), (60, 10), (300, 10), (5_000, 12), (40_000, 2.5), (400_000, 0.25))
_ADMIN: Final = "/_fakeapi/faults"
_FAULTS: Final[tuple[Any, ...]] = (
    {"match": {"resource": "nothing"}, "answer": {"code": 503}},
    {"match": {"verb": "none", "name": "x"}, "delay": {"seconds": 1}},
    {"name": "a", "match": {"path": "/nowhere"}, "answer": {"code": 500}},
    {"faults": []},
    [],
    {},
)


class Hostile:
    """Makes hostile requests from ordinary ones."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.kinds = Definitions(chance, self.text)

    def text(self, length: int = 0, units: Sequence[str] = ()) -> str:
        """Return a repetitive text of about that length, by default a random one."""
        chance = self._chance
        if not length:
            lengths, weights = zip(*_LENGTHS, strict=True)
            length = chance.choices(lengths, weights)[0]
        units = units or chance.choice((TEXTS["units"], TEXTS["units"], TEXTS["numbers"]))
        unit = "".join(chance.choice(units) for _ in range(chance.choice((1, 1, 1, 2, 3))))
        begin = "".join(chance.choice(TEXTS["units"]) for _ in range(chance.choice((0, 0, 0, 1))))
        end: str = chance.choice(TEXTS["ends"])
        return begin + unit * (length // len(unit) or 1) + end

    def changed(self, asked: Asked) -> Asked:
        """Return a hostile form of an ordinary request."""
        change: Callable[[Asked], Asked] = self._chance.choices(
            (self._with_path, self._with_query, self._with_header, self._with_body, self._plain),
            (30, 20, 12, 25, 13),
        )[0]
        return change(asked)

    def _plain(self, asked: Asked) -> Asked:
        """A request that has little to do with the one it replaces."""
        chance = self._chance
        dice = chance.random()
        if dice < 0.3:
            return self.kinds.next()
        if dice < 0.5:
            method = chance.choice(("GET", "GET", "GET", "POST", "DELETE", "HEAD", "OPTIONS"))
            target = chance.choice(TEXTS["roots"])
            if chance.random() < 0.3:
                target += self._quoted(self.text())
            return asked.replaced(method=method, target=target, body=b"")
        if dice < 0.8:
            return self._administering(asked)
        return self._with_header(self._with_query(self._with_path(asked)))

    def _administering(self, asked: Asked) -> Asked:
        """A request to the admin endpoint of faults; a fault that it sets matches nothing."""
        chance = self._chance
        tail = chance.choice(("", "", "", "/", "/log", "/script", "/a", "x", "/%2e%2e", "?a=b"))
        if chance.random() < 0.1:
            tail = "/" + self._quoted(self.text())
        body = json_of(chance.choice(_FAULTS))
        if chance.random() < 0.5:
            body = self._nested(300_000 if chance.random() < 0.05 else 2000)
        kinds = ("application/json", "application/yaml", "text/plain", "")
        headers = {**asked.headers, "Content-Type": chance.choice(kinds)}
        method = chance.choice(("POST", "POST", "POST", "GET", "DELETE", "PUT", "HEAD"))
        target = _ADMIN + tail
        return asked.replaced(
            method=method, target=target, body=body, headers=headers, administers=True
        )

    def _quoted(self, text: str) -> str:
        """Return a text for a request line: quoted, or with only what HTTP forbids quoted."""
        if self._chance.random() < 0.5:
            return urllib.parse.quote(text, safe="")
        return urllib.parse.quote(text, safe="/%:@!$&'()*+,;=[]{}|\\^\"<>~`é")

    def _with_path(self, asked: Asked) -> Asked:
        chance = self._chance
        path, question, query = asked.target.partition("?")
        for _ in range(chance.choice((1, 1, 2))):
            path = chance.choice(self._FORMS)(self, path)
        method = chance.choice(VERBS) if chance.random() < 0.25 else asked.method
        return asked.replaced(method=method, target=path + question + query)

    def _watched(self, path: str) -> str:
        parts = path.split("/")
        at = 3 if parts[1:2] == ["api"] else 4
        parts.insert(at, self._chance.choice(("watch", "watch", "watch", "proxy", "redirect")))
        return "/".join(parts)

    def _below(self, path: str) -> str:
        return f"{path}/{self._chance.choice(TEXTS['subresources'])}"

    def _slashes(self, path: str) -> str:
        if self._chance.random() < 0.4:
            return path + "/" * self._chance.choice((1, 2, 3, 5000))
        parts = path.split("/")
        at = self._chance.randrange(len(parts))
        parts.insert(at, self._chance.choice(("", "", ".", "..", "%2e%2e", "%2F", "%00", "%0A")))
        return "/".join(parts)

    def _escaped(self, path: str) -> str:
        """Escape some letters; a server sees the same path, but texts are not equal."""
        return "".join(
            f"%{ord(letter):02{self._chance.choice('xX')}}"
            if letter.isascii() and self._chance.random() < 0.15
            else letter
            for letter in path
        )

    def _long(self, path: str) -> str:
        parts = path.split("/")
        at = self._chance.randrange(1, len(parts)) if len(parts) > 1 else 0
        parts[at] = self._quoted(self.text()) or "a"
        return "/".join(parts)

    def _deep(self, path: str) -> str:
        part = self._chance.choice(("/a", "/watch", "/namespaces", "/..", "/%2e", "/namespaces/a"))
        return path + part * self._chance.choice((1, 3, 100, 10_000))

    def _moved(self, path: str) -> str:
        """The path in another group or version, or from another root."""
        prefix: str = self._chance.choice(TEXTS["roots"])
        return prefix + "/" + "/".join(path.split("/")[self._chance.choice((2, 3, 4)) :])

    def _absolute(self, path: str) -> str:
        host = self._chance.choice(("http://x", "http://localhost:1", "//x", "https://[::1]", "x:"))
        return host + path

    def _cased(self, path: str) -> str:
        return self._chance.choice((path.upper(), path.title(), path.swapcase()))

    _FORMS: Final[tuple[Callable[[Hostile, str], str], ...]] = (
        *(_watched, _watched, _watched, _below, _slashes, _slashes, _escaped, _escaped),
        *(_long, _deep, _moved, _absolute, _cased),
    )

    def _with_query(self, asked: Asked) -> Asked:
        chance = self._chance
        path = asked.target.partition("?")[0]
        pairs = []
        for _ in range(chance.choice((1, 1, 2, 3))):
            name = chance.choice((*TEXTS["values"], *TEXTS["parameters"]))
            units = TEXTS["parameters"].get(name, ()) if chance.random() < 0.7 else ()
            value = self.text(60_000 if chance.random() < 0.1 else 0, units)
            if name in TEXTS["values"] and chance.random() < 0.2:
                value = chance.choice(TEXTS["values"][name]) + value
            pairs.append(f"{name}={self._quoted(value)}")
        if chance.random() < 0.05:
            pairs = [f"{chance.choice(('a', 'fieldSelector', 'limit'))}=1"] * 5000
        return asked.replaced(target=f"{path}?{'&'.join(pairs)}")

    def _with_header(self, asked: Asked) -> Asked:
        chance = self._chance
        headers = dict(asked.headers)
        for _ in range(chance.choice((1, 1, 2))):
            value = self.text() if chance.random() < 0.7 else chance.choice(TEXTS["accepts"])
            name = chance.choice(TEXTS["headers"])
            headers[name] = value.replace("\r", "").replace("\n", "").replace("\x00", "")
        if chance.random() < 0.03:
            headers |= {f"X-{number}": "a" for number in range(chance.choice((100, 900, 1100)))}
        return asked.replaced(headers=headers)

    def _with_body(self, asked: Asked) -> Asked:
        chance = self._chance
        if asked.resource is None:
            return asked
        makers: Sequence[Callable[[Asked, Resource], Asked]]
        makers = (self._json_patch, self._patch, self._wide_object, self._raw, self._managed)
        return chance.choice(makers)(asked, asked.resource)

    def _size(self) -> int:
        """The number of items of a wide value; mostly small, so that a run is quick."""
        return self._chance.choices((3, 30, 300, 3000, 30_000), (20, 20, 10, 3, 0.5))[0]

    def _nested(self, size: int) -> bytes:
        """Return something deep, wide or long in the syntax of JSON or YAML."""
        begin, middle, end = self._chance.choice(TEXTS["nests"])
        kind = self._chance.choice(("", '{"kind":', '{"metadata":{"name":"a"},"spec":', "a: "))
        text: str = kind + begin * size + middle + end * size
        return text.encode()

    def _raw(self, asked: Asked, resource: Resource) -> Asked:
        chance = self._chance
        kinds = ("application/json", "application/yaml", protobuf_writer.MEDIA_TYPE, *PATCHES)
        kind = chance.choice(kinds)
        body = self._nested(self._size())
        if kind == protobuf_writer.MEDIA_TYPE:
            body = self._protobuf(resource)
        elif chance.random() < 0.1:
            laughs = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
            body = "\n".join(["a0: &a0 [x, x, x]", *laughs]).encode()
        headers = {**asked.headers, "Content-Type": kind}
        return asked.replaced(method=self._writing(kind), headers=headers, body=body)

    def _writing(self, content_type: str) -> str:
        """Return a method that takes such a body."""
        if content_type in PATCHES and content_type != "application/json":
            return "PATCH"
        return self._chance.choice(("POST", "PUT", "DELETE"))

    def _protobuf(self, resource: Resource) -> bytes:
        """A message that nests, repeats fields, or ends too soon."""
        chance, write = self._chance, protobuf_writer
        body = write.message((1, "a"))
        for _ in range(chance.choice((1, 10, 100, 1000))):
            body = write.message((chance.choice((1, 2, 3, 14, 15)), body))
        body += write.message((chance.choice((1, 2, 3)), self.text(100))) * self._size()
        raw = write.enveloped(resource.version, resource.kind, body)
        return raw[: chance.randrange(len(raw))] if chance.random() < 0.2 else raw

    def _json_patch(self, asked: Asked, resource: Resource) -> Asked:
        """A JSON patch that copies in powers of two, or has long pointers and wide values."""
        chance = self._chance
        operations: list[Any] = []
        place = chance.choice(("/metadata/annotations", "/z", "/spec", "/data", "/metadata/labels"))
        operations.append({"op": "add", "path": place, "value": {}})
        dice = chance.random()
        if dice < 0.3:
            operations += [
                {"op": "copy", "from": place, "path": f"{place}/b{n}"}
                for n in range(chance.choice((3, 12, 17, 19)))
            ]
        elif dice < 0.5:
            operations.append({"op": "add", "path": f"{place}/a", "value": self.text()})
            operations += [
                {"op": "copy", "from": f"{place}/a", "path": f"{place}/b{n}"}
                for n in range(chance.choice((3, 30, 400)))
            ]
        elif dice < 0.7:
            digits = chance.choice(("0", "9", "-", "1", "-1")) * chance.choice((1, 20, 5000))
            operations.append({"op": "add", "path": place, "value": [1, 2]})
            verb = chance.choice(("add", "remove", "test"))
            operations.append({"op": verb, "path": f"{place}/{digits}", "value": 1})
        elif dice < 0.8:
            operations.append({"op": "add", "path": place, "value": [0] * self._size()})
            operations += [{"op": "remove", "path": f"{place}/0"}] * self._size()
        else:
            verb = chance.choice(("add", "test", "move", "copy"))
            pointers = {"from": self.text(), "path": self.text()}
            operations.append({"op": verb, **pointers, "value": self.wide()})
        headers = {**asked.headers, "Content-Type": "application/json-patch+json"}
        target = self._existing(asked, resource)
        return asked.replaced(
            method="PATCH", target=target, headers=headers, body=json_of(operations)
        )

    def _existing(self, asked: Asked, resource: Resource) -> str:
        """Mostly the path of an object that is there, so that a patch is carried out."""
        if self._chance.random() < 0.3 or "{name}" in resource.path:
            return asked.target
        return "/api/v1/namespaces/default/configmaps/a"

    def wide(self) -> Any:
        """Return a wide, deep or long value."""
        chance, size = self._chance, self._size()
        dice = chance.random()
        if dice < 0.25:
            return {f"k{n}": "v" for n in range(size)}
        if dice < 0.4:
            return [{"name": f"n{n}"} for n in range(size)]
        if dice < 0.5:
            return [{"name": "n"}] * size
        if dice < 0.7:
            return self.text()
        value: Any = {}
        for _ in range(min(size, 190)):
            value = {"a": value} if dice < 0.85 else [value]
        return value

    def _patch(self, asked: Asked, resource: Resource) -> Asked:
        """A merge, strategic or apply patch with wide lists and directives."""
        chance = self._chance
        kind = chance.choice(tuple(PATCHES))
        items: list[Any] = [{"name": f"n{n}", "value": "x"} for n in range(self._size())]
        spec = {
            chance.choice(("containers", "volumes", "ports", "tolerations", "x")): items,
            "$setElementOrder/containers": [{"name": f"n{n}"} for n in range(self._size())],
            "$deleteFromPrimitiveList/x": [str(n) for n in range(self._size())],
            "$retainKeys": [f"k{n}" for n in range(self._size())],
        }
        for name in chance.sample(sorted(spec), chance.randint(0, 3)):
            del spec[name]
        value: dict[str, Any] = {
            "spec": spec if chance.random() < 0.5 else {"template": {"spec": spec}}
        }
        if chance.random() < 0.4:
            field = chance.choice(("labels", "annotations", "finalizers", "ownerReferences"))
            value["metadata"] = {field: self.wide()}
        if "apply" in kind:
            group = f"{resource.group}/" if resource.group else ""
            value |= {"apiVersion": group + resource.version, "kind": resource.kind}
            for name in list(spec):
                if name[0] == "$":
                    del spec[name]
        headers = {**asked.headers, "Content-Type": kind}
        return asked.replaced(method="PATCH", headers=headers, body=json_of(value))

    def _wide_object(self, asked: Asked, resource: Resource) -> Asked:
        """An object of the kind with one place wide, deep or long."""
        chance = self._chance
        made = json.loads(json.dumps(SEEDS.get(resource.kind, {"spec": {}})))
        made["metadata"] = {"name": chance.choice(NAMES)}
        places: list[tuple[Any, Any]] = list(_places(made))
        holder, key = chance.choice(places)
        if isinstance(holder[key], list) and holder[key] and chance.random() < 0.5:
            holder[key] = [
                {**holder[key][0], "name": f"n{n}"} if isinstance(holder[key][0], dict) else f"n{n}"
                for n in range(self._size())
            ]
        else:
            holder[key] = self.wide()
        kind = chance.choice(("application/json", "application/json", "application/yaml"))
        headers = {**asked.headers, "Content-Type": kind}
        method = chance.choice(("POST", "PUT"))
        body = json_of(made)
        if "yaml" in kind and len(body) < 20_000:
            body = yaml.dump(made, Dumper=yaml.CSafeDumper, allow_unicode=True).encode()
        return asked.replaced(method=method, headers=headers, body=body)

    def _managed(self, asked: Asked, resource: Resource) -> Asked:
        """An object with managedFields that are deep, wide, or no fields at all."""
        chance = self._chance
        group = f"{resource.group}/" if resource.group else ""
        keys = ("f:spec", "f:metadata", ".", 'k:{"name":"c"}', "v:1", "i:0", "x", self.text(300))
        fields: Any = {}
        for _ in range(chance.choice((1, 3, 50, 150))):
            fields = {chance.choice(keys): fields}
        wide: Any = {f"f:{n}": {} for n in range(self._size())}
        entry = {
            "manager": self.text(60),
            "operation": chance.choice(("Apply", "Update", "x")),
            "apiVersion": group + resource.version,
            "fieldsType": "FieldsV1",
            "fieldsV1": chance.choice((fields, wide, self.wide())),
        }
        made = dict(SEEDS.get(resource.kind, {}))
        managed = [{**entry, "manager": f"m{n}"} for n in range(min(self._size(), 300))]
        if len(json_of(managed)) > 200_000:
            managed = managed[:2]
        made["metadata"] = {"name": chance.choice(NAMES), "managedFields": managed}
        headers = {**asked.headers, "Content-Type": "application/json"}
        method = chance.choice(("POST", "PUT"))
        return asked.replaced(method=method, headers=headers, body=json_of(made))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return what holds each part of a value, and its key."""
    items: Any = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    found = []
    for key, item in items:
        found += [(value, key), *_places(item)]
    return found
