"""The pages /flagz and /statusz: the flags of the process, and its age, versions and paths.

As plain text, or as JSON or YAML for a client that accepts a kind, such as
`application/json;v=v1beta1;g=config.k8s.io;as=Flagz`.
Source: apiserver `pkg/server/{flagz,statusz}`, `endpoints/handlers/negotiation/negotiate.go`.
"""

from __future__ import annotations

import datetime
import platform
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.config.encode import go_yaml
from scheduler.serving.replies import bytes_reply, json_object_reply, status_reply, text_reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from aiohttp import web

    from scheduler.clock import Clock
    from scheduler.config import EffectiveVersion

COMPONENT: Final = "kube-scheduler"
_GROUP: Final = "config.k8s.io"
_VERSIONS: Final = ("v1alpha1", "v1beta1")
_DEPRECATED: Final = "v1alpha1"
_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_TEXT: Final = "text/plain"


class _Wanted(NamedTuple):
    """A media type, and the version of the kind for one with structure."""

    media_type: str
    version: str


class _Page:
    """A page in all its forms."""

    kind: str

    def answer(self, request: web.BaseRequest) -> web.Response:
        wanted = _negotiated(request.headers.get("Accept", ""), self.kind)
        if wanted is None:
            return status_reply(
                request,
                code=406,
                reason="NotAcceptable",
                message=f"only the following media types are accepted: {_JSON}, {_YAML}, {_TEXT}",
            )
        if wanted.media_type == _TEXT:
            return text_reply(self._heading() + self._text(), nosniff=False)
        content = {
            "kind": self.kind,
            "apiVersion": f"{_GROUP}/{wanted.version}",
            "metadata": {"name": COMPONENT},
            **self._fields(),
        }
        full_type = f"{wanted.media_type};g={_GROUP};v={wanted.version};as={self.kind}"
        headers = {}
        if wanted.version == _DEPRECATED:
            headers["Warning"] = (
                f'299 - "This version of the {self.kind.lower()} endpoint is deprecated. '
                'Please use a newer version."'
            )
        if wanted.media_type == _YAML:
            return bytes_reply(go_yaml(content).encode(), content_type=full_type, headers=headers)
        return json_object_reply(request, content, content_type=full_type, headers=headers)

    def _heading(self) -> str:
        return (
            f"\n{COMPONENT} {self.kind.lower()}\n"
            "Warning: This endpoint is not meant to be machine parseable, has no formatting "
            "compatibility guarantees and is for debugging purposes only.\n"
        )

    def _text(self) -> str:
        raise NotImplementedError

    def _fields(self) -> Mapping[str, object]:
        raise NotImplementedError


class Flagz(_Page):
    """The flags of the process with their values."""

    kind = "Flagz"

    def __init__(self, flags: Mapping[str, str]) -> None:
        self._flags: Final = flags

    def _text(self) -> str:
        return "".join(f"{name} {value}\n" for name, value in self._flags.items())

    def _fields(self) -> Mapping[str, object]:
        return {"flags": dict(self._flags)}


class Statusz(_Page):
    """The start, the age and the versions of the process, and its paths.

    The start is the construction of this object. The version of Python takes the place of Go's.
    """

    kind = "Statusz"

    def __init__(self, paths: Iterable[str], *, clock: Clock, version: EffectiveVersion) -> None:
        self._emulation: Final = version.texts[0]
        self._binary: Final = version.scheduler.release.removeprefix("v")
        self._paths: Final = sorted({f"/{path.split('/')[1]}" for path in paths})
        self._clock: Final = clock
        self._started: Final = datetime.datetime.fromtimestamp(int(clock.now()), datetime.UTC)

    def _uptime_seconds(self) -> int:
        return max(0, int(self._clock.now() - self._started.timestamp()))

    def _text(self) -> str:
        up = self._uptime_seconds()
        started = self._started.strftime("%a %b %_d %H:%M:%S UTC %Y")
        return (
            f"\nStarted: {started}\n"
            f"Up: {up // 3600} hr {up // 60 % 60:02} min {up % 60:02} sec\n"
            f"Go version: {_python()}\n"
            f"Binary version: {self._binary}\n"
            f"Emulation version: {self._emulation}\n"
            f"Paths: {' '.join(self._paths)}\n"
        )

    def _fields(self) -> Mapping[str, object]:
        return {
            "startTime": self._started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "uptimeSeconds": self._uptime_seconds(),
            "goVersion": _python(),
            "binaryVersion": self._binary,
            "emulationVersion": self._emulation,
            "paths": self._paths,
        }


def _python() -> str:
    return f"python{platform.python_version()}"


def _negotiated(accept: str, kind: str) -> _Wanted | None:
    """Return what to send to a client with this Accept header; None if it accepts nothing."""
    if not accept.strip():
        return _Wanted(_TEXT, "")
    for media_type, parameters in _accepted(accept):
        group, version = parameters.get("g"), parameters.get("v")
        if "as" in parameters or group or version:
            is_known = parameters.get("as") == kind and group == _GROUP and version in _VERSIONS
            if is_known and version is not None and media_type in (_JSON, _YAML):
                return _Wanted(media_type, version)
        elif media_type in (_TEXT, "text/*", "*/*"):
            return _Wanted(_TEXT, "")
    return None


def _accepted(accept: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield media types with their parameters, the preferred first."""
    clauses = []
    for clause in accept.split(","):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 1.0
        clauses.append((quality, media_type, parameters))
    for quality, media_type, parameters in sorted(clauses, key=lambda clause: -clause[0]):
        if quality > 0:
            yield media_type, parameters
