"""Expected and earlier failures: known failures, known bugs, the cases that failed last time."""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..errors import InputError
from ..outcome import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..format.case import Case
    from ..format.version import Version
    from ..outcome import Outcome

_COMMENT: Final = "#"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFailures:
    """Cases that may fail and must not pass: the place in the list by id."""

    places: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_file(cls, path: Path | None, cases: Iterable[Case]) -> KnownFailures:
        """Read ids (`area/name`), one a line, with comments after `#`; no ids without a file.

        Raises InputError for a file that cannot be read, and for an id that no case has.
        """
        if path is None:
            return cls()
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"--known-failures: {path}: {reason}") from error
        ids = {case.id for case in cases}
        places: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            case_id = line.partition(_COMMENT)[0].strip()
            if case_id and case_id not in ids:
                raise InputError(f"--known-failures: {path}:{number}: no case {case_id!r}")
            if case_id:
                places[case_id] = f"{path}:{number}"
        return cls(places=places)

    def applied(self, outcome: Outcome) -> Outcome:
        """Return an outcome with the verdict by this list."""
        place = self.places.get(outcome.id)
        if place is None:
            return outcome
        return _expected_to_fail(
            outcome, passes=f"passes, and is a known failure in {place}: remove it there"
        )


def with_known_bug(
    outcome: Outcome, case: Case, version: Version, *, is_ours: bool = False
) -> Outcome:
    """Return an outcome with the verdict by the bug that a case shows in this version, if any."""
    bug = case.known_bug
    release = version._replace(patch=None)
    if bug is None or release not in bug.versions or (is_ours and not bug.ours):
        return outcome
    passes = f"passes, and its known bug is in {version} ({bug.name}): remove the version there"
    return _expected_to_fail(outcome, passes=passes)


def _expected_to_fail(outcome: Outcome, *, passes: str) -> Outcome:
    """Return the outcome of a case that is expected to fail; `passes` is the reason if it does."""
    if outcome.is_bad:
        return msgspec.structs.replace(outcome, verdict=Verdict.KNOWN)
    if outcome.verdict is Verdict.PASSED:
        return msgspec.structs.replace(outcome, verdict=Verdict.FAILED, reason=passes)
    return outcome


class LastFailed:
    """The ids of the cases that failed last, kept for each working directory in the user's cache.

    A case that was not run since keeps its place. Without a cache nothing is kept.
    """

    def __init__(self) -> None:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        here = hashlib.sha256(str(Path.cwd()).encode()).hexdigest()[:16]
        self._path = Path(base) / "kubesched-conformance" / f"last-failed-{here}"

    def read(self) -> frozenset[str]:
        """Return the ids; empty if nothing failed, or without a cache."""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return frozenset(self._path.read_text(encoding="utf-8").split())
        return frozenset()

    def update(self, outcomes: Iterable[Outcome]) -> None:
        """Replace the results of these cases."""
        failed = set(self.read())
        for outcome in outcomes:
            failed.discard(outcome.id)
            if outcome.is_bad:
                failed.add(outcome.id)
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text("".join(f"{name}\n" for name in sorted(failed)), encoding="utf-8")
