"""/healthz, /livez and /readyz, which succeed as soon as the server answers.

Each check is a path of its own. Upstream's checks of parts that this server does not have are left
out.

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
    """Return the paths of the probes and of their checks."""
    return [
        path
        for probe, checks in _PROBES.items()
        for path in (f"/{probe}", *(f"/{probe}/{check}" for check in checks))
    ]


def answer(path: str, query: Query) -> Answer | None:
    """Return the answer to a probe or to one of its checks, None for other paths."""
    probe, slash, check = path[1:].partition("/")
    checks = _PROBES.get(probe)
    if checks is None or (slash and check not in checks):
        return None
    text = "ok"
    if not slash and "verbose" in query:
        text = _verbose_text(probe, checks, query.texts("exclude"))
    return answers.Answer(200, text.encode(), "text/plain; charset=utf-8")


def _verbose_text(probe: str, checks: tuple[str, ...], excluded: list[str]) -> str:
    lines = [f"[+]{check} {'excluded: ' if check in excluded else ''}ok" for check in checks]
    unknown = sorted({name for name in excluded if name and name not in checks})
    if unknown:
        names = ", ".join(gotext.quoted(name) for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    return "\n".join([*lines, f"{probe} check passed", ""])
