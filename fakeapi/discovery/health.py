"""/healthz, /livez and /readyz: a server that answers is well, in all of its parts.

Of upstream's checks those are here whose parts are; each is a path of its own.

Source: apiserver pkg/server/healthz/healthz.go of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.http import answers
from fakeapi.types import gotext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeapi.decoding.options import Query
    from fakeapi.http.answers import Answer

_CHECKS: Final = (
    "ping",
    "log",
    "etcd",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
)
_PROBES: Final[Mapping[str, tuple[str, ...]]] = {
    "healthz": _CHECKS,
    "livez": _CHECKS,
    "readyz": (*_CHECKS[:3], "etcd-readiness", "informer-sync", *_CHECKS[3:], "shutdown"),
}


def paths() -> list[str]:
    """The probes, and each of their checks."""
    return [
        path
        for probe, checks in _PROBES.items()
        for path in (f"/{probe}", *(f"/{probe}/{check}" for check in checks))
    ]


def answer(path: str, query: Query) -> Answer | None:
    """The answer to a probe or to one of its checks, None if the path is neither."""
    probe, slash, check = path[1:].partition("/")
    checks = _PROBES.get(probe)
    if checks is None or (slash and check not in checks):
        return None
    text = "ok"
    if not slash and "verbose" in query:
        text = _told(probe, checks, query.texts("exclude"))
    return answers.Answer(200, text.encode(), "text/plain; charset=utf-8")


def _told(probe: str, checks: tuple[str, ...], excluded: list[str]) -> str:
    lines = [f"[+]{check} {'excluded: ' if check in excluded else ''}ok" for check in checks]
    strangers = sorted({name for name in excluded if name and name not in checks})
    if strangers:
        names = ", ".join(gotext.quoted(name) for name in strangers)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    return "\n".join([*lines, f"{probe} check passed", ""])
