"""The pages /flagz and /statusz: the flags of the process, and its age, versions and paths.

As plain text, or as JSON or YAML for a client that accepts a kind, such as
`application/json;v=v1beta1;g=config.k8s.io;as=Flagz`.
Source: apiserver `pkg/server/{flagz,statusz}`.
"""

from __future__ import annotations

import datetime
import platform
from typing import TYPE_CHECKING, Final

from scheduler.config.encode import go_yaml
from scheduler.serving.negotiation import WantedKind, negotiated
from scheduler.serving.replies import bytes_reply, json_object_reply, status_reply, text_reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aiohttp import web

    from scheduler.clock import Clock
    from scheduler.config import EffectiveVersion
    from scheduler.serving.negotiation import Choice

COMPONENT: Final = "kube-scheduler"
_GROUP: Final = "config.k8s.io"
_VERSIONS: Final = ("v1alpha1", "v1beta1")
_DEPRECATED: Final = "v1alpha1"
_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_TEXT: Final = "text/plain"
_MEDIA_TYPES: Final = (_JSON, _YAML, _TEXT)


class _Page:
    """A page in all its forms."""

    kind: str

    def answer(self, request: web.BaseRequest) -> web.Response:
        header = request.headers.get("Accept", "")
        choice = negotiated(header, _MEDIA_TYPES, allows=self._allows)
        if choice is None and header.strip():
            accepted = ", ".join(_MEDIA_TYPES)
            message = f"only the following media types are accepted: {accepted}"
            return status_reply(request, code=406, reason="NotAcceptable", message=message)
        if choice is None or choice.kind is None:
            return text_reply(self._heading() + self._text(), nosniff=False)
        return self._structured(request, choice, choice.kind)

    def _allows(self, media_type: str, kind: WantedKind | None) -> bool:
        if media_type == _TEXT:
            return kind is None
        return kind in {WantedKind(_GROUP, version, self.kind) for version in _VERSIONS}

    def _structured(
        self, request: web.BaseRequest, choice: Choice, kind: WantedKind
    ) -> web.Response:
        content = {
            "kind": self.kind,
            "apiVersion": f"{_GROUP}/{kind.version}",
            "metadata": {"name": COMPONENT},
            **self._fields(),
        }
        full_type = f"{choice.media_type};g={_GROUP};v={kind.version};as={self.kind}"
        headers = {}
        if kind.version == _DEPRECATED:
            headers["Warning"] = (
                f'299 - "This version of the {self.kind.lower()} endpoint is deprecated. '
                'Please use a newer version."'
            )
        if choice.media_type == _YAML:
            return bytes_reply(go_yaml(content).encode(), content_type=full_type, headers=headers)
        return json_object_reply(
            request,
            content,
            content_type=full_type,
            headers=headers,
            is_pretty=choice.is_pretty,
        )

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
