"""The pages /flagz and /statusz: the flags of the process, and its age, versions and paths.

As plain text, or as JSON or YAML for a client that accepts a kind, such as
`application/json;v=v1beta1;g=config.k8s.io;as=Flagz`.
Source: apiserver `pkg/server/{flagz,statusz}`, in 1.34 component-base `zpages`.
"""

from __future__ import annotations

import datetime
import platform
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.config.encode import go_yaml
from scheduler.config.versions import SchedulerVersion
from scheduler.serving.negotiation import WantedKind, clauses, negotiated
from scheduler.serving.replies import bytes_reply, error_reply, json_object_reply, status_reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aiohttp import web

    from scheduler.clock import Clock
    from scheduler.config import EffectiveVersion
    from scheduler.serving.negotiation import Choice, Clause

COMPONENT: Final = "kube-scheduler"
_GROUP: Final = "config.k8s.io"
_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_TEXT: Final = "text/plain"
_UTF8_TEXT: Final = "text/plain; charset=utf-8"


class _Forms(NamedTuple):
    """Media types and versions of an object. Of the accepted types, some are not written."""

    accepted: tuple[str, ...]
    written: tuple[str, ...]
    versions: tuple[str, ...]
    deprecated: str


_FORMS: Final = _Forms((_JSON, _YAML, _TEXT), (_JSON, _YAML), ("v1alpha1", "v1beta1"), "v1alpha1")
_FORMS_OF_1_35: Final = _Forms((_JSON, _YAML, _PROTOBUF, _TEXT), (_JSON,), ("v1alpha1",), "")


class _Page:
    """A page in all its forms. 1.34 has text alone."""

    kind: str

    def __init__(self, version: SchedulerVersion) -> None:
        self._forms: Final = _FORMS if version >= SchedulerVersion.V1_36 else _FORMS_OF_1_35
        negotiates = version >= SchedulerVersion.V1_35
        self.answer: Final = self._in_any_form if negotiates else self._as_text
        self._negotiated_text_type = _UTF8_TEXT
        self._heading = (
            f"\n{COMPONENT} {self.kind.lower()}\n"
            "Warning: This endpoint is not meant to be machine parseable, has no formatting "
            "compatibility guarantees and is for debugging purposes only.\n"
        )

    def _as_text(self, request: web.BaseRequest) -> web.Response:
        if any(map(_is_text, clauses(request.headers.get("Accept", "")))):
            return self._plain(_UTF8_TEXT)
        return error_reply(f"media type not acceptable, must be: {_TEXT}", status=406)

    def _in_any_form(self, request: web.BaseRequest) -> web.Response:
        header = request.headers.get("Accept", "")
        choice = negotiated(header, self._forms.accepted, allows=self._allows)
        if choice is None and header.strip():
            accepted = ", ".join(self._forms.accepted)
            message = f"only the following media types are accepted: {accepted}"
            return status_reply(request, code=406, reason="NotAcceptable", message=message)
        if choice is None or choice.kind is None:
            return self._plain(self._negotiated_text_type if choice is not None else _UTF8_TEXT)
        if choice.media_type not in self._forms.written:
            message = f"content negotiation failed: unsupported media type '{choice.media_type}'"
            return status_reply(request, code=500, message=message)
        return self._structured(request, choice, choice.kind)

    def _allows(self, media_type: str, kind: WantedKind | None) -> bool:
        if media_type == _TEXT:
            return kind is None
        return kind in {WantedKind(_GROUP, version, self.kind) for version in self._forms.versions}

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
        if kind.version == self._forms.deprecated:
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

    def _plain(self, content_type: str) -> web.Response:
        return bytes_reply((self._heading + self._text()).encode(), content_type=content_type)

    def _text(self) -> str:
        raise NotImplementedError

    def _fields(self) -> Mapping[str, object]:
        raise NotImplementedError


class Flagz(_Page):
    """The flags of the process with their values."""

    kind = "Flagz"

    def __init__(self, flags: Mapping[str, str], *, version: SchedulerVersion) -> None:
        super().__init__(version)
        self._flags: Final = flags
        if version < SchedulerVersion.V1_35:
            self._heading = self._heading.replace("flagz", "flags") + "\n"

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
        super().__init__(version.scheduler)
        if version.scheduler is SchedulerVersion.V1_35:
            self._negotiated_text_type = _TEXT
        self._emulation: Final = version.texts[0]
        self._binary: Final = version.scheduler.release.removeprefix("v")
        folders = {f"/{path.split('/')[1]}" for path in paths}
        self._paths: Final = sorted(folders) if version.scheduler >= SchedulerVersion.V1_35 else []
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
            f"{'Paths: ' if self._paths else ''}{' '.join(self._paths)}\n"
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


def _is_text(clause: Clause) -> bool:
    """Return True for text without parameters, or in UTF-8."""
    is_plain = clause.type in {"text", "*"} and clause.subtype in {"plain", "*"}
    is_utf_8 = clause.parameters.get("charset", "utf-8").lower() == "utf-8"
    return is_plain and is_utf_8 and not clause.parameters.keys() - {"charset"}


def _python() -> str:
    return f"python{platform.python_version()}"
