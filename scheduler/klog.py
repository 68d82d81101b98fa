"""The log, as klog writes it: levels, the formats text and json, streams and buffers.

    _log.info("Starting Kubernetes Scheduler", {"version": "v1.36.3"})
    _log.log(V2, "Successfully bound pod to node", {"pod": pod.key, "node": host})
    _log.error("command failed", {"err": error})

    I1122 22:45:01.123456    2544 binding_cycle.py:67] "Successfully bound pod to node" pod="ns/a"
    {"ts":1795387472082.499,"caller":"cycle/binding_cycle.py:67","msg":"Successfully ...","v":2,...}

Modules log through Python's `logging`. A message with one mapping as its argument is structured,
any other is plain text. `-v N` shows the levels `V1` to `VN`.
Source: `k8s.io/klog/v2` (`internal/serialize`, `internal/buffer`), component-base `logs/json`,
`logs/internal/setverbositylevel`, `logs/api/v1/{options,text}.go`.
"""

from __future__ import annotations

import datetime
import fnmatch
import io
import json
import logging
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scheduler.api.field import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

V1: Final = logging.INFO - 1
V2: Final = logging.INFO - 2
V3: Final = logging.INFO - 3
V4: Final = logging.INFO - 4
V5: Final = logging.INFO - 5

#: Python has no levels below this.
_LEVEL_MIN: Final = 1
#: Upstream's limit of a buffer.
_BUFFER_BYTES_MAX: Final = 2 << 30
#: Keys whose values are `namespace/name`, which json shows as an object.
_OBJECTS: Final = frozenset({"pod", "podGroup", "preemptor", "victim"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The options of the log. `module_levels` are patterns of file names with their levels.

    With `split_stream` errors go to stderr, and all else to stdout through a buffer of
    `buffer_bytes`, which is written every `flush_seconds`.
    """

    format: str = "text"
    verbosity: int = 0
    module_levels: tuple[tuple[str, int], ...] = ()
    split_stream: bool = False
    buffer_bytes: int = 0
    flush_seconds: float = 5.0


def parse_verbosity(text: str) -> int:
    """Parse a level of the log: an integer from 0 on, of 31 bits. Raises ValueError."""
    if not text.isdecimal() or not text.isascii():
        raise ValueError(f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax")
    if int(text) >= 2**31:
        raise ValueError(f"strconv.ParseUint: parsing {quoted(text)}: value out of range")
    return int(text)


def configure(options: LogOptions) -> None:
    """Send the log of the whole process to its streams; replace an earlier configuration."""
    formatter = JsonFormatter() if options.format == "json" else TextFormatter()
    # Like klog, text counts a warning as an error; zap's json does not.
    errors_from = logging.ERROR if options.format == "json" else logging.WARNING
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old, logging.StreamHandler):
            root.removeHandler(old)
    streams = [(sys.stderr, _LEVEL_MIN, logging.CRITICAL)]
    if options.split_stream:
        stdout = _buffered(options)
        streams = [
            (stdout, _LEVEL_MIN, errors_from - 1),
            (sys.stderr, errors_from, logging.CRITICAL),
        ]
    for stream, lowest, highest in streams:
        handler = _Handler(
            stream, is_buffered=stream is not sys.stderr and options.buffer_bytes > 0
        )
        handler.setFormatter(formatter)
        handler.addFilter(_LevelRange(lowest, highest))
        if options.module_levels:
            handler.addFilter(_ModuleLevels(options.module_levels))
        root.addHandler(handler)
    set_verbosity(options.verbosity)


def set_verbosity(verbosity: int) -> None:
    """Show the levels up to this one from now on."""
    filters = [entry for handler in logging.getLogger().handlers for entry in handler.filters]
    modules = [entry for entry in filters if isinstance(entry, _ModuleLevels)]
    highest = max([verbosity, *(level for entry in modules for _, level in entry.levels)])
    logging.getLogger().setLevel(max(logging.INFO - highest, _LEVEL_MIN))
    for entry in modules:
        entry.verbosity = verbosity


def _buffered(options: LogOptions) -> TextIO:
    if not options.buffer_bytes:
        return sys.stdout
    raw = io.FileIO(sys.stdout.fileno(), "w", closefd=False)
    size = min(options.buffer_bytes, _BUFFER_BYTES_MAX)
    stream = io.TextIOWrapper(io.BufferedWriter(raw, size), encoding="utf-8")

    stopped = threading.Event()

    def flush() -> None:
        while not stopped.wait(options.flush_seconds):
            stream.flush()

    threading.Thread(target=flush, name="log flush", daemon=True).start()
    return stream


class _Handler(logging.StreamHandler["TextIO"]):
    """Writes records to a stream, which is flushed after each one unless it is buffered."""

    def __init__(self, stream: TextIO, *, is_buffered: bool) -> None:
        super().__init__(stream)
        self._is_buffered = is_buffered

    def flush(self) -> None:
        if not self._is_buffered:
            super().flush()

    def close(self) -> None:
        self._is_buffered = False
        self.flush()
        super().close()


class _LevelRange(logging.Filter):
    def __init__(self, lowest: int, highest: int) -> None:
        super().__init__()
        self._lowest: Final = lowest
        self._highest: Final = highest

    def filter(self, record: logging.LogRecord) -> bool:
        return self._lowest <= record.levelno <= self._highest


class _ModuleLevels(logging.Filter):
    """Shows a record if the verbosity, or the level of a pattern of its file, is high enough."""

    def __init__(self, levels: tuple[tuple[str, int], ...]) -> None:
        super().__init__()
        self.levels: Final = levels
        self.verbosity = 0

    def filter(self, record: logging.LogRecord) -> bool:
        verbosity = logging.INFO - record.levelno
        return verbosity <= self.verbosity or any(
            verbosity <= level and fnmatch.fnmatchcase(record.module, pattern)
            for pattern, level in self.levels
        )


class TextFormatter(logging.Formatter):
    """Formats a record as klog's text: a header, the message, and keys with values."""

    def __init__(self) -> None:
        super().__init__()
        self._second = 0
        self._second_as_text = ""

    def format(self, record: logging.LogRecord) -> str:
        second, microseconds = divmod(round(record.created * 1e6), 1_000_000)
        if second != self._second:
            self._second = second
            moment = datetime.datetime.fromtimestamp(second)
            self._second_as_text = moment.strftime("%m%d %H:%M:%S")
        when = f"{self._second_as_text}.{microseconds:06}"
        letter = "I" if record.levelno < logging.WARNING else record.levelname[0].replace("C", "F")
        header = f"{letter}{when} {record.process:7} {record.filename}:{record.lineno}] "
        if isinstance(record.args, Mapping):
            pairs = "".join(f" {key}={_text(value)}" for key, value in _pairs(record))
            line = f"{header}{quoted(record.getMessage())}{pairs}"
        else:
            line = header + record.getMessage()
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON, with upstream's keys."""

    def format(self, record: logging.LogRecord) -> str:
        folder, name = os.path.split(record.pathname)
        fields: dict[str, object] = {
            "ts": round(record.created * 1000, 4),
            "caller": f"{os.path.basename(folder)}/{name}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.levelno < logging.ERROR:
            fields["v"] = max(logging.INFO - record.levelno, 0)
        pairs = dict(_pairs(record)) if isinstance(record.args, Mapping) else {}
        error = pairs.pop("err", None)
        fields |= {key: _json_value(key, value) for key, value in pairs.items()}
        if error is not None:
            fields["err"] = str(error)
        if record.exc_info:
            fields["stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"), default=str)


def _pairs(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    """Yield the keys and values of a structured record; the error of an error comes first."""
    assert isinstance(record.args, Mapping)
    pairs = {str(key): value for key, value in record.args.items()}
    if record.levelno >= logging.ERROR and "err" in pairs:
        yield "err", pairs.pop("err")
    yield from pairs.items()


def _text(value: object) -> str:
    if isinstance(value, bool | int | float | list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    text = str(value)
    if "\n" in text:
        lines = "".join(f"\t{line}\n" for line in text.removesuffix("\n").split("\n"))
        return f"<\n{lines} >"
    return quoted(text)


def _json_value(key: str, value: object) -> object:
    if key in _OBJECTS and isinstance(value, str):
        namespace, _, name = value.rpartition("/")
        return {"name": name, "namespace": namespace} if namespace else {"name": name}
    return value
