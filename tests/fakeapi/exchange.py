"""Recorded exchanges: ordered requests in YAML, and what kube-apiserver v1.36.3 answered to them.

`exchanges/NAME.yaml` is written by hand: a list of

    name: shown when the exchange fails
    request: METHOD /path?query         ${ns} is a fresh namespace, ${VARIABLE} what was saved
    type: merge | strategic | json-patch | apply | yaml | another media type
    agent: user agent                   by default `probe/1`
    accept: media types                 by default JSON
    body: the body, a string as it is
    save: {variable: path.to.value}     of the answer
    quiet: true                         the answer is not compared
    until: text                         asked again until the answer has it, when recording
    differs: why ours is another        the answer is recorded and not compared

`exchanges/NAME.jsonl` is written by record_exchanges.py from a real server: one line for each
request that is not quiet, `{name, code, body, warning, retry-after}`, volatile values masked.
"""

import json
import re
from pathlib import Path
from typing import Any

import yaml

DIRECTORY = Path(__file__).with_name("exchanges")
MEDIA_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json-patch": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
    "yaml": "application/yaml",
}
AGENT = "probe/1"
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_VERSION = re.compile(r"(record \()\d+")
#: Where in the sources the binary's types are registered, which depends on how it was built.
_SCHEME = re.compile(r'in scheme "[^"]*"')
_GENERATED = re.compile(r"(gen-)[a-z0-9]{5}")
_VARIABLE = re.compile(r"\$\{(\w+)\}")

Exchange = dict[str, Any]


def read(name: str) -> list[Exchange]:
    """The requests of a file."""
    loaded = yaml.safe_load((DIRECTORY / f"{name}.yaml").read_text(encoding="utf-8"))
    assert isinstance(loaded, list)
    return loaded


def recorded(name: str) -> list[Exchange]:
    """The answers that belong to them."""
    lines = (DIRECTORY / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


class Script:
    """A file of requests on its way against one server: what was saved, and how to mask."""

    def __init__(self, namespace: str) -> None:
        self._values = {"ns": namespace}

    def filled(self, value: Any) -> Any:
        """The value with what was saved in place of variables."""
        if isinstance(value, str):
            return _VARIABLE.sub(lambda match: self._values.get(match[1], match[0]), value)
        if isinstance(value, dict):
            return {self.filled(key): self.filled(item) for key, item in value.items()}
        return [self.filled(item) for item in value] if isinstance(value, list) else value

    def save(self, exchange: Exchange, body: Any) -> None:
        """Remember the parts of an answer that later requests need."""
        for variable, path in exchange.get("save", {}).items():
            value = body
            for part in path.split("."):
                value = value[int(part)] if part.isdigit() else value[part]
            self._values[variable] = value if isinstance(value, str) else json.dumps(value)

    def masked(self, value: Any, key: str = "") -> Any:
        """The value without what differs from run to run."""
        if isinstance(value, dict):
            return {name: self.masked(item, name) for name, item in value.items()}
        if isinstance(value, list):
            items = [self.masked(item) for item in value]
            if key == "managedFields":
                return sorted(items, key=_by_manager)
            # Upstream lists the owners of conflicting fields in the order of a Go map.
            return sorted(items, key=str) if key == "causes" else items
        if not isinstance(value, str):
            return value
        if key == "resourceVersion" and value not in ("", "0"):
            return "<version>"
        if key == "continue":
            return "<continue>"
        value = _SCHEME.sub('in scheme "<place>"', value)
        shown = _GENERATED.sub(r"\1<gen>", _TIME.sub("<time>", _UID.sub("<uid>", value)))
        return _VERSION.sub(r"\1<version>", shown.replace(self._values["ns"], "<ns>"))


def _by_manager(entry: Any) -> list[str]:
    names = ("operation", "manager", "apiVersion", "subresource")
    return [str(entry.get(name, "")) for name in names]


def media_type(exchange: Exchange) -> str:
    """The Content-Type of a request."""
    given = exchange.get("type", "application/json")
    return MEDIA_TYPES.get(given, given)


def accept(exchange: Exchange) -> str:
    """The Accept header of a request."""
    return str(exchange.get("accept", "application/json"))


def raw_body(body: Any) -> bytes | None:
    """The bytes of a body."""
    if body is None:
        return None
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def parsed(text: str) -> Any:
    """The JSON of a body: one value, the events of a watch, or plain text."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines() if line]
    except ValueError:
        return text


def outcome(script: Script, exchange: Exchange, code: int, text: str, headers: Any) -> Exchange:
    """Return the parts of an answer that are compared."""
    body = parsed(text)
    script.save(exchange, body)
    found: Exchange = {"name": exchange["name"], "code": code, "body": script.masked(body)}
    for header in ("Warning", "Retry-After"):
        values = headers.getall(header, []) if hasattr(headers, "getall") else []
        values = values or headers.get_all(header) or [] if hasattr(headers, "get_all") else values
        if values:
            found[header.lower()] = sorted(values)
    return found
