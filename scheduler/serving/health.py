"""`/healthz`, `/livez`, `/readyz`: named checks, asked together or one by one.

Whoever asks for all of them is told names only; what exactly is wrong is in the log, and at the
path of the single check, which needs permission. Source: apiserver `pkg/server/healthz/healthz.go`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.field import quoted
from scheduler.serving.replies import error_reply, text_reply

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aiohttp import web

_log: Final = logging.getLogger("kubesched")


@dataclass(frozen=True)
class HealthCheck:
    """One thing that can be wrong; `check` says what, or nothing if all is well."""

    name: str
    check: Callable[[], str]


#: Passes as long as there is somebody to answer.
PING: Final = HealthCheck("ping", lambda: "")


def shutdown(is_shutting_down: Callable[[], bool]) -> HealthCheck:
    """Fails from the signal to stop on, so that nobody is sent here any more."""
    return HealthCheck("shutdown", lambda: "process is shutting down" if is_shutting_down() else "")


def handler_sync(has_synced: Callable[[], bool]) -> HealthCheck:
    """Fails until the first lists of all that is watched have been taken in."""
    return HealthCheck(
        "sched-handler-sync",
        lambda: "" if has_synced() else "handlers are not fully synchronized",
    )


class HealthCounts(NamedTuple):
    """How often a check has passed and failed, and how it went last time."""

    passed: int = 0
    failed: int = 0
    passes: bool = True


class HealthEndpoint:
    """One of the three paths, with a path for each of its checks below it."""

    def __init__(self, name: str, checks: Sequence[HealthCheck]) -> None:
        self.name: Final = name
        self._checks: Final = tuple(checks)
        self._counts: Final[dict[str, HealthCounts]] = {}

    @property
    def counts(self) -> Mapping[str, HealthCounts]:
        """What came of the checks asked together, by name; for `/metrics/slis`."""
        return self._counts

    def paths(self) -> dict[str, Callable[[web.BaseRequest], web.Response]]:
        """Who answers on which path."""
        root = f"/{self.name}"
        return {root: self._answer} | {
            f"{root}/{check.name}": _single(check) for check in self._checks
        }

    def _answer(self, request: web.BaseRequest) -> web.Response:
        """All checks: `ok`, or what each has come to if that is asked for or one has failed."""
        excluded = set(request.query.getall("exclude", []))
        lines, failures = [], []
        for check in self._checks:
            if check.name in excluded:
                lines.append(f"[+]{check.name} excluded: ok\n")
                continue
            problem = check.check()
            self._count(check.name, passes=not problem)
            if problem:
                lines.append(f"[-]{check.name} failed: reason withheld\n")
                failures.append(f"[-]{check.name} failed: {problem}")
            else:
                lines.append(f"[+]{check.name} ok\n")
        if unknown := sorted(excluded - {check.name for check in self._checks}):
            names = ",".join(map(quoted, unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        if failures:
            _log.info("%s check failed: %s", self.name, "; ".join(failures))
            return error_reply(f"{''.join(lines)}{self.name} check failed", status=500)
        if "verbose" not in request.query:
            return text_reply("ok")
        return text_reply(f"{''.join(lines)}{self.name} check passed\n")

    def _count(self, name: str, *, passes: bool) -> None:
        before = self._counts.get(name, HealthCounts())
        self._counts[name] = HealthCounts(
            before.passed + passes, before.failed + (not passes), passes
        )


def _single(check: HealthCheck) -> Callable[[web.BaseRequest], web.Response]:
    def answer(_: web.BaseRequest) -> web.Response:
        if problem := check.check():
            return error_reply(f"internal server error: {problem}", status=500)
        return text_reply("ok", nosniff=False)

    return answer
