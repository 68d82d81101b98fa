"""Annotations of pods and nodes that configure the fake kubelet, and reports of invalid ones.

An invalid value is reported once, by an event of the object, and the default is used. If events are
switched off, the report is a warning in the log.
"""

from __future__ import annotations

import difflib
import logging
import math
from typing import TYPE_CHECKING, Final

from fakeapi.actors.events import EventRecorder
from fakeapi.types.objects import mapping, text

if TYPE_CHECKING:
    from fakeapi.actors.controller import Context
    from fakeapi.actors.objects import Object
    from fakeapi.actors.resources import Resource

_PREFIX: Final = "fakeapi.kubesched.io/"
_EXIT_CODES: Final = {str(code): code for code in range(256)}
_QUOTED_MAX: Final = 80
_log = logging.getLogger(__name__)


class KubeletAnnotations:
    """The annotations of one object that have our prefix; reading them fills `errors`."""

    def __init__(self, obj: Object, names: tuple[str, ...]) -> None:
        annotations = mapping(obj.metadata.get("annotations"))
        self._values = {
            name.removeprefix(_PREFIX): text(value)
            for name, value in annotations.items()
            if name.startswith(_PREFIX)
        }
        self.errors: Final[list[str]] = []
        for name in self._values.keys() - names:
            close = difflib.get_close_matches(name, names, 1)
            meant = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(names)}"
            self._add_error(name, f"unknown annotation; {meant}")

    def seconds(self, name: str, default: float | None) -> float | None:
        """Return a number of seconds, 0 or more."""
        value = self._values.get(name)
        if value is None:
            return default
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if 0 <= seconds < math.inf:
            return seconds
        self._add_error(name, "expected a number of seconds, 0 or more; the default is used")
        return default

    def exit_codes(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """Return exit codes, which are separated by commas."""
        value = self._values.get(name)
        if value is None:
            return default
        parts = value.replace(" ", "").split(",")
        if all(part in _EXIT_CODES for part in parts):
            return tuple(_EXIT_CODES[part] for part in parts)
        self._add_error(name, "expected numbers from 0 to 255 and commas; the default is used")
        return default

    def flag(self, name: str) -> bool:
        """True if the annotation is "true"; "false" is the same as no annotation."""
        value = self._values.get(name, "false")
        if value not in ("true", "false"):
            self._add_error(name, 'expected "true" or "false"; "false" is used')
        return value == "true"

    def _add_error(self, name: str, expected: str) -> None:
        value = self._values[name]
        if len(value) > _QUOTED_MAX:
            value = f"{value[:_QUOTED_MAX]}..."
        self.errors.append(f'annotation {_PREFIX}{name}: "{value}": {expected}')


class AnnotationReports:
    """Reports each error of an object's annotations once."""

    def __init__(self, context: Context) -> None:
        self._recorder = EventRecorder(context, "kubelet")
        self._records_events = context.records_events
        self._reported: dict[str, list[str]] = {}  # by uid

    async def report(
        self, resource: Resource, obj: Object, annotations: KubeletAnnotations, node: str
    ) -> None:
        """Write an event, or a line of the log, for each error that is new."""
        reported = self._reported.get(obj.uid, [])
        if annotations.errors:
            self._reported[obj.uid] = annotations.errors
        else:
            self.forget(obj.uid)
        for error in sorted(set(annotations.errors) - set(reported)):
            if not self._records_events:
                _log.warning("%s %s: %s", resource.kind, obj.key, error)
            await self._recorder.record(
                resource, obj, "InvalidAnnotation", error, kind="Warning", host=node
            )

    def forget(self, uid: str) -> None:
        """Forget an object that was deleted."""
        self._reported.pop(uid, None)
