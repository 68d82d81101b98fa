"""Profiles of the process at /debug/pprof/, and the level of its log at /debug/flags/v.

    /debug/pprof/profile?seconds=N    the functions of the event loop's thread, by cumulative time
    /debug/pprof/goroutine            the stacks of all tasks and threads

Profiles are Python's own, as text: Go's tools cannot read them.
Source: apiserver `server/routes/{profiling,flags}.go`, Go `net/http/pprof/pprof.go`,
component-base `logs/logs.go` (`GlogSetter`).
"""

from __future__ import annotations

import asyncio
import cProfile
import io
import pstats
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Final

from aiohttp import web

from scheduler.klog import parse_verbosity, set_verbosity
from scheduler.serving.replies import bytes_reply, error_reply, text_reply

if TYPE_CHECKING:
    from scheduler.clock import Clock

_PPROF: Final = "/debug/pprof/"
_FLAGS: Final = "/debug/flags"
_HTML: Final = "text/html; charset=utf-8"
_TEXT: Final = "text/plain"
_DEFAULT_SECONDS: Final = 30.0
_FUNCTIONS_MAX: Final = 200


class Profiling:
    """Answers requests below /debug/pprof and /debug/flags."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._is_busy = False

    def handles(self, path: str) -> bool:
        """Return True for a path that this class answers."""
        return path == _PPROF.rstrip("/") or path.startswith((_PPROF, _FLAGS))

    async def answer(self, request: web.BaseRequest) -> web.Response:
        path = request.path
        if path == f"{_FLAGS}/v":
            return await self._set_level(request)
        if path in (_FLAGS, f"{_FLAGS}/"):
            return _html(f"{_FLAGS}/", "flags:<br>\n<table>\n<tr>v<br>\n</table>")
        if path == _PPROF.rstrip("/"):
            return web.Response(status=302, headers={"Location": _PPROF})
        name = path.removeprefix(_PPROF)
        if not name:
            links = "".join(
                f'<a href="{name}">{name}</a><br>\n' for name in ("goroutine", "profile")
            )
            return _html(_PPROF, f"<p>Profiles of Python, as text</p>\n{links}")
        if name == "profile":
            return await self._profile(request)
        if name == "goroutine":
            return text_reply(_stacks())
        reply = error_reply("Unknown profile", status=404)
        reply.headers["X-Go-Pprof"] = "1"
        return reply

    async def _profile(self, request: web.BaseRequest) -> web.Response:
        try:
            seconds = float(request.query.get("seconds", ""))
        except ValueError:
            seconds = _DEFAULT_SECONDS
        profile = cProfile.Profile()
        if self._is_busy:
            text = "Could not enable CPU profiling: cpu profiling already in use"
            return error_reply(text, status=500)
        self._is_busy = True
        try:
            profile.enable()
            await self._clock.sleep(seconds if seconds > 0 else _DEFAULT_SECONDS)
        finally:
            profile.disable()
            self._is_busy = False
        lines = io.StringIO()
        pstats.Stats(profile, stream=lines).sort_stats("cumulative").print_stats(_FUNCTIONS_MAX)
        return text_reply(lines.getvalue())

    async def _set_level(self, request: web.BaseRequest) -> web.Response:
        if request.method != "PUT":
            return _plain("unsupported http method\n", status=406)
        text = (await request.read()).decode("utf-8", "replace")
        try:
            level = parse_verbosity(text)
        except ValueError as error:
            return _plain(f"{error}\n", status=400)
        set_verbosity(level)
        return _plain(f"successfully set klog.logging.verbosity to {level}\n", status=200)


def _plain(text: str, *, status: int) -> web.Response:
    headers = {"X-Content-Type-Options": "nosniff"}
    return bytes_reply(text.encode(), content_type=_TEXT, status=status, headers=headers)


def _html(title: str, content: str) -> web.Response:
    page = (
        f"<html>\n<head>\n<title>{title}</title>\n</head>\n<body>\n{title}<br>\n<br>\n{content}\n"
    )
    return bytes_reply(f"{page}</body>\n</html>\n".encode(), content_type=_HTML)


def _stacks() -> str:
    text = io.StringIO()
    tasks = asyncio.all_tasks()
    text.write(f"tasks: total {len(tasks)}\n\n")
    for task in sorted(tasks, key=lambda task: task.get_name()):
        task.print_stack(file=text)
        text.write("\n")
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        text.write(f"thread {names.get(ident, ident)}\n")
        text.writelines(traceback.format_stack(frame))
        text.write("\n")
    return text.getvalue()
