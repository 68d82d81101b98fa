"""Random requests for the resources in a server's own OpenAPI documents."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.fakeapi import protobuf_writer

from .texts import SEEDS, TEXTS
from .values import NAMES, NAMESPACES, Values

Json = dict[str, Any]

VERBS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO")
PATCHES: Final = {
    "application/merge-patch+json": 3,
    "application/strategic-merge-patch+json": 3,
    "application/json-patch+json": 3,
    "application/apply-patch+yaml": 4,
    "application/json": 1,
}
_DEEP: Final = ('{"a":' * 3000 + "1" + "}" * 3000, "[" * 9000)
#: A text of up to 40 letters, ten times or more.
_REPEATED: Final = re.compile(r"(.{1,40}?)\1{9,}", re.DOTALL)
_SHOWN_MAX: Final = 20_000


@dataclasses.dataclass(frozen=True)
class Resource:
    """A path of a document, its verbs and its schema."""

    path: str
    verbs: tuple[str, ...]
    group: str
    version: str
    kind: str
    schema: Json
    values: Values


@dataclasses.dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    target: str
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b""
    resource: Resource | None = None
    #: True if it may set a fault.
    administers: bool = False

    def replaced(self, **fields: Any) -> Asked:
        """Return the request with other values of some fields."""
        return dataclasses.replace(self, **fields)

    @property
    def raw(self) -> bytes:
        """The request in bytes."""
        sent = dict(self.headers)
        if self.body or self.method != "GET":
            sent["Content-Length"] = str(len(self.body))
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in sent.items()]
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass") + self.body

    def __str__(self) -> str:
        """Return the text for a report, with repetitions as their count."""
        parts = (f"{self.method} {self.target}", repr(dict(self.headers)), repr(self.body))
        return "\n    ".join(abbreviated(part) for part in parts)


def abbreviated(text: str) -> str:
    """Return a text with repetitions as "(ab){500}", and without the middle of a long one."""
    shown = _REPEATED.sub(
        lambda found: f"({found[1]}){{{len(found[0]) // len(found[1])}}}", text[:_SHOWN_MAX]
    )
    left_out = max(len(text) - _SHOWN_MAX, 0) + max(len(shown) - 1000, 0)
    return f"{shown[:1000]}...{text[-40:]} ({left_out} more)" if left_out else shown


def _resources_of(document: Json, chance: random.Random) -> list[Resource]:
    """The resources in an OpenAPI document."""
    schemas: Mapping[str, Json] = document.get("components", {}).get("schemas", {})
    values = Values(chance, schemas)
    found = []
    for path, item in document.get("paths", {}).items():
        operations = {verb: item[verb] for verb in item if verb not in ("parameters", "servers")}
        what: Json = {}
        for operation in operations.values():
            what = operation.get("x-kubernetes-group-version-kind") or what
        kind = what.get("kind", "")
        schema = next(
            (each for name, each in schemas.items() if name.endswith(f".{kind}") and kind), {}
        )
        verbs = tuple(verb.upper() for verb in operations)
        version = (what.get("group", ""), what.get("version", ""))
        found.append(Resource(path, verbs, *version, kind, schema, values))
    return found


class Asker:
    """Makes one request after another; `learn` adds objects from answers to the next requests."""

    def __init__(self, chance: random.Random, documents: Iterable[Json]) -> None:
        self._chance = chance
        self._resources = [
            resource for document in documents for resource in _resources_of(document, chance)
        ]
        self._by_plural: dict[str, list[Resource]] = {}
        self._seen: dict[str, Json] = {}

    def learn(self, asked: Asked, body: bytes) -> None:
        """Keep the object of an answer, to send it again with changes."""
        nests = body.count(b"{") + body.count(b"[")
        if asked.resource is None or len(body) > 20_000 or nests > 300:
            return
        try:
            value = json.loads(body)
        except ValueError:
            return
        if isinstance(value, dict) and value.get("kind") == asked.resource.kind:
            self._seen[asked.resource.path] = value

    def next(self, plural: str = "") -> Asked:
        """The next request, for any resource or one whose path contains `plural`."""
        chance = self._chance
        if plural not in self._by_plural:
            self._by_plural[plural] = [each for each in self._resources if plural in each.path]
        resource = chance.choice(self._by_plural[plural])
        method = (
            chance.choice(resource.verbs or VERBS)
            if chance.random() < 0.93
            else chance.choice(VERBS)
        )
        query = self._query(method, resource)
        namespace, name = self._place(resource)
        target = resource.path.replace("{namespace}", namespace).replace("{name}", name)
        target += f"?{query}" if query else ""
        if chance.random() < 0.03:
            target = self._odd(target)
        headers = {
            "Host": "localhost",
            "User-Agent": chance.choice(("fuzz/1", "kubectl/v1", "x\u00e9")),
        }
        if chance.random() < 0.4:
            headers["Accept"] = chance.choice(TEXTS["accepts"])
        if chance.random() < 0.1:
            headers["Accept-Encoding"] = chance.choice(("gzip", "gzip;q=0", "*", "br, gzip"))
        body = b""
        if method not in ("GET", "HEAD") and (method != "DELETE" or chance.random() < 0.4):
            body, headers["Content-Type"] = self._body(method, resource, name)
        if chance.random() < 0.02:
            headers["Content-Type"] = chance.choice(
                ("", "text/plain", "application/json; charset=x", "é")
            )
        if chance.random() < 0.02:
            headers["If-None-Match"] = chance.choice(("*", '"x"', "x"))
        return Asked(method, target, headers, body, resource)

    def _place(self, resource: Resource) -> tuple[str, str]:
        """Return the namespace and the name for a path."""
        chance = self._chance
        namespace, name = chance.choice(NAMESPACES), chance.choice(NAMES)
        if chance.random() < 0.4:
            namespace, name = "default", "a"
        if "customresourcedefinitions" in resource.path and chance.random() < 0.3:
            name = "widgets.example.com"
        elif chance.random() < 0.03:
            name = chance.choice(("%00", "%ff", "é", "..", "x" * 300, "A_b", "a:b", "a%2fb", "%25"))
        is_namespace = "{namespace}" not in resource.path and "/namespaces/{name}" in resource.path
        if is_namespace and chance.random() < 0.8:
            name = chance.choice(("other", "fuzzed"))
        return namespace, name

    def _odd(self, target: str) -> str:
        at = self._chance.randrange(1, len(target) + 1)
        oddity: str = self._chance.choice(TEXTS["oddities"])
        return target[:at] + oddity + target[at:]

    def _query(self, method: str, resource: Resource) -> str:
        chance = self._chance
        pairs = []
        if method == "GET" and "{name}" not in resource.path and chance.random() < 0.3:
            pairs.append(("watch", "true"))
        for _ in range(chance.choice((0, 0, 0, 0, 0, 1, 1, 2, 4))):
            name = chance.choice(tuple(TEXTS["values"]))
            pairs.append((name, chance.choice(TEXTS["values"][name])))
        if method == "PATCH" and chance.random() < 0.6:
            pairs.append(("fieldManager", chance.choice(("m", "other"))))
        return urllib.parse.urlencode(pairs)

    def _object(self, resource: Resource, name: str) -> Json:
        """Return an object for the resource: from an answer, a seed, or by the schema.

        It mostly fits the path, with its name.
        """
        chance = self._chance
        made: Any
        if chance.random() < 0.4 and resource.path in self._seen:
            made = self._seen[resource.path]
        elif chance.random() < 0.9 and resource.kind in SEEDS:
            made = {"metadata": {"labels": {"a": "b"}, "name": name}, **SEEDS[resource.kind]}
        else:
            made = resource.values.of(resource.schema)
        if chance.random() < 0.5:
            made = resource.values.mutated(made, resource.schema)
        whole: Json = made if isinstance(made, dict) else {"metadata": {}}
        metadata = whole.get("metadata")
        if isinstance(metadata, dict) and chance.random() < 0.85:
            stored = ("namespace", "uid", "resourceVersion", "managedFields")
            kept = {key: each for key, each in metadata.items() if key not in stored}
            whole = {**whole, "metadata": {**kept, "name": name}}
        if chance.random() < 0.5:
            group = f"{resource.group}/" if resource.group else ""
            whole = {"apiVersion": group + resource.version, "kind": resource.kind, **whole}
        return whole

    def _body(self, method: str, resource: Resource, name: str) -> tuple[bytes, str]:
        chance = self._chance
        if chance.random() < 0.04:
            kinds = ("application/json", "application/yaml", protobuf_writer.MEDIA_TYPE, *PATCHES)
            broken: str = chance.choice((*TEXTS["broken"], *_DEEP))
            return broken.encode("latin-1"), chance.choice(kinds)
        if method == "PATCH":
            return self._patch(resource, name)
        if method == "DELETE":
            options = resource.values.mutated(SEEDS["DeleteOptions"], {})
            if chance.random() < 0.7:
                options = {"gracePeriodSeconds": chance.choice((0, 1, 30, None))}
            return json_of(options), "application/json"
        made = self._object(resource, name)
        dice = chance.random()
        if dice < 0.05:
            return self._protobuf(resource), protobuf_writer.MEDIA_TYPE
        return json_of(made), "application/yaml" if dice < 0.15 else "application/json"

    def _patch(self, resource: Resource, name: str) -> tuple[bytes, str]:
        chance = self._chance
        kind = chance.choices(tuple(PATCHES), tuple(PATCHES.values()))[0]
        seen = self._seen.get(resource.path, {"metadata": {"labels": {"a": "b"}}, "spec": {}})
        if kind == "application/json-patch+json":
            return json_of(resource.values.patch_operations(seen)), kind
        made = self._object(resource, name)
        if kind == "application/apply-patch+yaml":
            group = f"{resource.group}/" if resource.group else ""
            made = {"apiVersion": group + resource.version, "kind": resource.kind, **made}
            if isinstance(made.get("metadata"), dict) and chance.random() < 0.9:
                made["metadata"] = {**made["metadata"]}
                made["metadata"].pop("managedFields", None)
        elif chance.random() < 0.5:
            keys = chance.sample(sorted(made, key=str), min(len(made), 2))
            made = {key: made[key] for key in keys}
        return json_of(made), kind

    def _protobuf(self, resource: Resource) -> bytes:
        chance = self._chance
        write = protobuf_writer
        meta = write.message(
            (1, chance.choice(NAMES)), (3, "default"), (11, write.message((1, "a")))
        )
        body = write.message((1, meta), (2, chance.randbytes(chance.randint(0, 30))))
        raw = bytearray(write.enveloped(resource.version, resource.kind, body))
        for _ in range(chance.randint(0, 2)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        return bytes(raw)


def json_of(value: Any) -> bytes:
    """Encode a value."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
