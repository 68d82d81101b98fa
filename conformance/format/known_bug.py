"""A bug of kube-scheduler that a case shows: its expectation is the right behaviour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..errors import InputError
from .version import Version

if TYPE_CHECKING:
    from ..api import Json


class KnownBug(msgspec.Struct, frozen=True, kw_only=True):
    """A bug: the versions that have it, measured on stock binaries, and what happens.

    `link` is the report in a tracker. A bug without one has a `report`, a text that could be filed.
    `ours` is false if our scheduler does not copy the bug.
    """

    sentence: str
    versions: tuple[Version, ...]
    link: str = ""
    report: str = ""
    ours: bool = True

    @property
    def name(self) -> str:
        """The words for the bug in a reason."""
        return self.link or "not reported yet"


def known_bug_of(raw: Json) -> KnownBug | None:
    """Return the bug that a case of a file names. Raises InputError."""
    given = raw.get("known_bug")
    if not isinstance(given, dict):
        return None
    bug = KnownBug(
        sentence=str(given["sentence"]),
        versions=tuple(Version.parse(text) for text in msgspec.convert(given["versions"], list)),
        link=str(given.get("link", "")),
        report=str(given.get("report", "")),
        ours=given.get("ours") is not False,
    )
    if bool(bug.link) == bool(bug.report):
        raise InputError("known_bug: expected either a link, or a report that could be filed")
    return bug
