"""What users ask of the kubelet by annotations, and what they are told if it makes no sense.

What cannot be read is told once for each value, by an event of the object, and the default holds.
Without events it is a warning in the log.
"""

from __future__ import annotations

import difflib
import logging
import math
from typing import TYPE_CHECKING, Final

from fakeapi.actors.events import EventRecorder
from fakeapi.actors.objects import uid_of
from fakeapi.types.objects import Json, mapping, metadata_of, name_of, namespace_of, text

if TYPE_CHECKING:
    from fakeapi.actors.controller import Context
    from fakeapi.actors.resources import Resource

_PREFIX: Final = "fakeapi.kubesched.io/"
_CODES: Final = {str(code): code for code in range(256)}
#: Longer than any sensible value; events have an end.
_QUOTED_MAX: Final = 80
_log = logging.getLogger("fakeapi.actors")


class Wishes:
    """The annotations of one object. `complaints` are what is wrong with those that were read."""

    def __init__(self, obj: Json, known: tuple[str, ...]) -> None:
        """Begin with those that are not among the known ones, which are likely misspelt."""
        annotations = mapping(metadata_of(obj).get("annotations"))
        self._values = {
            name.removeprefix(_PREFIX): text(value)
            for name, value in annotations.items()
            if name.startswith(_PREFIX)
        }
        self.complaints: Final[list[str]] = []
        for name in self._values.keys() - known:
            close = difflib.get_close_matches(name, known, 1)
            meant = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(known)}"
            self._complain(name, f"no such annotation here; {meant}")

    def seconds(self, name: str, default: float | None) -> float | None:
        """A number of seconds."""
        value = self._values.get(name)
        if value is None:
            return default
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if 0 <= seconds < math.inf:
            return seconds
        self._complain(name, "expected a number of seconds, 0 or more; the default holds")
        return default

    def codes(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """Exit codes, separated by commas."""
        value = self._values.get(name)
        if value is None:
            return default
        parts = value.replace(" ", "").split(",")
        if all(part in _CODES for part in parts):
            return tuple(_CODES[part] for part in parts)
        self._complain(name, "expected numbers from 0 to 255 and commas; the default holds")
        return default

    def flag(self, name: str) -> bool:
        """Whether it says "true"; an annotation is taken away by saying "false", too."""
        value = self._values.get(name, "false")
        if value not in ("true", "false"):
            self._complain(name, 'expected "true" or "false"; the latter holds')
        return value == "true"

    def _complain(self, name: str, words: str) -> None:
        value = self._values[name]
        if len(value) > _QUOTED_MAX:
            value = f"{value[:_QUOTED_MAX]}..."
        self.complaints.append(f'annotation {_PREFIX}{name}: "{value}": {words}')


class Complaints:
    """Tells of each complaint once."""

    def __init__(self, context: Context) -> None:
        self._recorder = EventRecorder(context, "kubelet")
        self._records = context.records_events
        self._told: dict[str, list[str]] = {}  # by uid

    async def tell(self, resource: Resource, obj: Json, wishes: Wishes, host: str) -> None:
        """Say what is wrong with an object's annotations, where `kubectl describe` shows it."""
        uid = uid_of(obj)
        told, self._told[uid] = self._told.get(uid, []), wishes.complaints
        for complaint in sorted(wishes.complaints):
            if complaint in told:
                continue
            if not self._records:
                where = "/".join(filter(None, (namespace_of(obj), name_of(obj))))
                _log.warning("%s %s: %s", resource.kind, where, complaint)
            await self._recorder.record(
                resource, obj, "InvalidAnnotation", complaint, kind="Warning", host=host
            )
        if not wishes.complaints:
            self.forget(uid)

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._told.pop(uid, None)
