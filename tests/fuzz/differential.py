"""Send the same random requests to `kubesched-fakeapi` and a kube-apiserver; compare the answers.

    python -m tests.fuzz.differential --requests 3000 --seed 1 [--dump FILE]

The kube-apiserver is that of tests/realcluster, which finds or builds it. Compared are code, reason
and the fields of the causes; messages are compared too, but only counted. Values that only one
server has (uids, versions) are translated on the way. Where one server has stored what the other
refused, the object is deleted from both, so that one disagreement stays one.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import random
import re
import tempfile
import time
import urllib.parse
from pathlib import Path
from typing import Any, Final

import yaml

from fakeapi import BackgroundServer
from tests.realcluster.cluster import RealCluster

from .asking import Asked, Asker, json_of
from .connections import Connection, Hang
from .failures import status_in
from .served import OBJECTS
from .wire import Answer

_PATIENCE_SECONDS: Final = 20.0
#: A real server serves a new custom resource a little later.
_SETTLING_SECONDS: Final = 3.0
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_VOLATILE: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\d+|in scheme \"[^\"]*\"|0x[0-9a-f]+")
_LEVELS: Final = ("code", "reason", "fields", "message")
_SHOWN: Final = 220


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The parts of an answer that are compared."""

    code: int
    reason: str
    fields: tuple[str, ...]
    message: str

    def differs_from(self, other: Outcome) -> str:
        """Return the first level at which the outcomes differ, or nothing."""
        comparable = _LEVELS if self.code < 400 or (self.message and other.message) else _LEVELS[:1]
        for level in comparable:
            if level and getattr(self, level) != getattr(other, level):
                return level
        return ""

    def __str__(self) -> str:
        """A line for people."""
        return f"{self.code} {self.reason} {' '.join(self.fields)} {self.message}"[:_SHOWN]


def outcome(answer: Answer) -> Outcome:
    """Return the parts to compare, without values that differ by run; of protobuf the code."""
    if answer.code < 400 or b"k8s\0" in answer.body[:4]:
        return Outcome(answer.code, "", (), "")
    try:
        body = yaml.load(answer.body, yaml.CSafeLoader)
    except (ValueError, yaml.YAMLError):
        body = None
    if not isinstance(body, dict) or "kind" not in body:
        body = {"message": answer.body.decode(errors="replace")}
    causes = (body.get("details") or {}).get("causes") or []
    fields = tuple(sorted(str(cause.get("field", "")) for cause in causes))
    message = _UID.sub("<uid>", str(body.get("message")))
    return Outcome(answer.code, body.get("reason", ""), fields, _VOLATILE.sub("#", message))


class Pair:
    """Both servers, and the names by which they differ (uids, generated names)."""

    def __init__(self, ours: Connection, real: Connection) -> None:
        self._ours = ours
        self._real = real
        self._names: dict[bytes, bytes] = {}

    def ask(self, asked: Asked) -> tuple[Answer, Answer]:
        """Send the request to both; return their answers."""
        ours = self._ours.exchange(asked.method, asked.raw)
        real = self._real.exchange(asked.method, self._translated(asked.raw))
        if max(ours.code, real.code) < 300 and not ours.is_stream:
            self._learn(ours.body, real.body)
        return ours, real

    def forget(self, asked: Asked, ours: Answer, real: Answer) -> None:
        """Delete the object of the request from both."""
        path = asked.target.partition("?")[0]
        if asked.resource is None or asked.method in ("GET", "HEAD"):
            return
        if "/namespaces/{name}" in asked.resource.path:
            return
        if "{name}" not in asked.resource.path:
            stored = ours if ours.code < 300 else real
            name = _metadata(_parsed(stored.body)).get("name", "")
            path += f"/{urllib.parse.quote(name)}"
        elif not asked.resource.path.endswith("{name}"):
            path = path.rpartition("/")[0]
        for method, kind, body in (
            ("PATCH", "application/merge-patch+json", b'{"metadata":{"finalizers":null}}'),
            ("DELETE", "application/json", b'{"gracePeriodSeconds":0}'),
        ):
            head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n"
            raw = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
            self._ours.exchange(method, raw)
            self._real.exchange(method, self._translated(raw))

    def _translated(self, raw: bytes) -> bytes:
        head, _, body = raw.partition(b"\r\n\r\n")
        for known, other in self._names.items():
            body = body.replace(known, other) if known in body else body
        length = b"Content-Length: %d" % len(body)
        return re.sub(rb"Content-Length: \d+", length, head) + b"\r\n\r\n" + body

    def _learn(self, ours: bytes, real: bytes) -> None:
        found = [_metadata(_parsed(each)) for each in (ours, real)]
        for key in ("uid", "resourceVersion"):
            known, other = (str(each.get(key, "")) for each in found)
            if len(known) > 5 and other:
                self._names[known.encode()] = other.encode()
        while len(self._names) > 400:
            del self._names[next(iter(self._names))]


def _parsed(body: bytes) -> Any:
    try:
        return status_in(body)
    except ValueError:
        return {}


def _metadata(value: Any) -> dict[str, Any]:
    found = value.get("metadata") if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def is_comparable(asked: Asked) -> bool:
    """True if the answer depends on the request only, and both servers stay usable."""
    if asked.method == "FOO" or asked.resource is None:  # aiohttp's parser refuses FOO
        return False
    if asked.method in ("GET", "HEAD", "OPTIONS"):
        return True
    path = asked.resource.path
    if asked.method == "DELETE" and "/namespaces/{name}" in path:
        return False  # the real server has no controller that finishes it
    return "customresourcedefinitions" not in path or "dryRun=All" in asked.target


def compare(pair: Pair, asker: Asker, *, requests: int) -> list[dict[str, Any]]:
    """Each disagreement: the level, the request, both answers."""
    found: list[dict[str, Any]] = []
    sent = 0
    while sent < requests:
        asked = asker.next()
        if not is_comparable(asked):
            continue
        sent += 1
        try:
            ours, real = pair.ask(asked)
        except Hang as error:
            found.append({"level": "hang", "asked": str(asked), "ours": str(error), "real": ""})
            continue
        if max(ours.code, real.code) < 300:
            asker.learn(asked, ours.body)
        seen = outcome(ours), outcome(real)
        level = seen[0].differs_from(seen[1])
        if level:
            what = {
                "asked": asked.raw.decode("latin-1"),
                "ours": ours.body.decode(errors="replace"),
            }
            what |= {"real": real.body.decode(errors="replace"), "level": level}
            kind = asked.resource.kind if asked.resource else ""
            found.append({**what, "kind": kind, "seen": [str(each) for each in seen]})
        if (ours.code < 300) != (real.code < 300):
            pair.forget(asked, ours, real)
    return found


def prepare(connection: Connection) -> None:
    """Store objects that requests can find; existing ones stay."""
    for path, value in OBJECTS[:3]:
        headers = {"Host": "x", "Content-Type": "application/json"}
        answer = connection.exchange("POST", Asked("POST", path, headers, json_of(value)).raw)
        assert answer.code in (201, 409), (path, answer)


def asker_for(connection: Connection, chance: random.Random) -> Asker:
    """Read the served resources, and return an asker for them."""
    paths = _document(connection, "/openapi/v3")["paths"]
    return Asker(chance, [_document(connection, f"/openapi/v3/{path}") for path in paths])


def _document(connection: Connection, path: str) -> Any:
    headers = {"Host": "x", "Accept": "application/json"}
    return json.loads(connection.exchange("GET", Asked("GET", path, headers).raw).body)


def report(found: list[dict[str, Any]]) -> str:
    """Return the differences as text, the most frequent first."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    for each in found:
        ours, real = each.get("seen", (each["ours"], each["real"]))
        counts[each["level"], f"{ours}\n        real: {real}"] += 1
    levels = collections.Counter(each["level"] for each in found)
    lines = [f"{level}: {count}" for level, count in levels.items()]
    for (level, text), count in counts.most_common():
        if level != "message":
            lines.append(f"{count:5} {level}\n        ours: {text}")
    return "\n".join(lines)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dump", type=Path)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with (
        tempfile.TemporaryDirectory() as directory,
        RealCluster(Path(directory)) as cluster,
        BackgroundServer() as server,
    ):
        ours = Connection(int(server.url.rpartition(":")[2]), patience_seconds=_PATIENCE_SECONDS)
        real = Connection(
            int(cluster.url.rpartition(":")[2]),
            patience_seconds=_PATIENCE_SECONDS,
            tls=cluster.tls(),
            token=cluster.token,
        )
        for connection in (ours, real):
            prepare(connection)
        time.sleep(_SETTLING_SECONDS)
        asker = asker_for(ours, chance)
        found = compare(Pair(ours, real), asker, requests=options.requests)
    if options.dump:
        lines = [json.dumps(each) for each in found]
        options.dump.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(report(found))


if __name__ == "__main__":
    main()
