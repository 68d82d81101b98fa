"""The process that compiles and evaluates expressions in CEL, within limits of time and memory.

    server ── Job, Job, ... ──> parent ──fork──> child: one Outcome after another ──> server
                                   └── the child has died: None, and the next child

The interpreter, common-expression-language, can be neither interrupted nor limited, and a long
expression overflows its stack. So it runs in a child process. The system ends a child that exceeds
its time. The parent does nothing but fork, so the next child costs a millisecond.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import operator
import os
import re
import signal
import subprocess
import sys
import threading
import types
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from cachetools import LRUCache

from fakeapi.cel.library import FUNCTIONS
from fakeapi.cel.patterns import spend
from fakeapi.clock import processor_seconds
from fakeapi.types.client_text import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fakeapi.cel.patterns import Pattern

#: The limit of cel-go.
EXPRESSION_LENGTH_MAX: Final = 100_000
_COMPILED_SIZE_MAX: Final = 8 << 20
_OUTCOME_SIZE: Final = 1000
_COMPILE_SECONDS: Final = 0.1
#: A search of more steps, about 40 ms, is left to the worker.
_STEPS_MAX: Final = 10_000_000
_SEARCH_SECONDS: Final = 0.1
#: The price of a search by the worker that ends in time.
_LONG_SEARCH_SECONDS: Final = 0.01
_MEMORY_MAX_BYTES: Final = 1 << 30
_START: Final = """
import sys
sys.path[:] = {path!r}
from fakeapi.cel.worker import serve
serve({descriptor})
"""
_STANDARD: Final = frozenset({
    "size", "contains", "startsWith", "endsWith", "matches", "has", "int", "uint", "double",
    "string", "bytes", "bool", "type", "dyn", "duration", "timestamp", "getFullYear", "getMonth",
    "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes",
    "getSeconds", "getMilliseconds",
})  # fmt: skip

_ADVICE: Final = ". Check function arguments and their types."

#: An expression, and its variables; without variables it is only compiled.
Job: TypeAlias = "tuple[str, Mapping[str, object] | None]"


class Outcome(NamedTuple):
    """The value of an expression, its error, or the reason why it is not evaluated."""

    value: object = None
    error: str = ""
    not_evaluated: str = ""


@functools.cache
def is_available() -> bool:
    """True if the packages of `kubesched[cel]` are installed, and processes can fork."""
    return importlib.util.find_spec("cel") is not None and hasattr(os, "fork")


def has_match(pattern: Pattern, source: str, value: str) -> bool:
    """Return True if a pattern matches; False also for a search that takes too long.

    Raises TooExpensive.
    """
    if pattern.programsize * len(value) <= _STEPS_MAX or not is_available():
        began = processor_seconds()
        is_found = pattern.search(value) is not None
        spend(processor_seconds() - began)
        return is_found
    variables = {"self": value, "pattern": source}
    (found,) = run([("size(self.findAll(pattern, 1)) == 1", variables)], _SEARCH_SECONDS)
    spend(_SEARCH_SECONDS if found is None else _LONG_SEARCH_SECONDS)
    return found is not None and found.value is True


def compiled(expression: str) -> Outcome:
    """Compile an expression; the value is True if it uses `oldSelf`."""
    length = len(expression)
    if length > EXPRESSION_LENGTH_MAX:
        limit = f"size: {length}, limit {EXPRESSION_LENGTH_MAX}"
        return Outcome(error=f"expression code point size exceeds limit: {limit}")
    with _lock:
        if expression not in _compiled and not compile_all([expression]):
            _remember(expression, Outcome(error="expression is too complex"))
        return _compiled[expression][0]


def compile_all(expressions: Iterable[str]) -> bool:
    """Compile expressions in one go; return False if together they take too long."""
    with _lock:
        new = [
            each
            for each in dict.fromkeys(expressions)
            if each not in _compiled and len(each) <= EXPRESSION_LENGTH_MAX
        ]
        outcomes = run([(each, None) for each in new], _COMPILE_SECONDS) if new else []
        for expression, outcome in zip(new, outcomes, strict=False):
            if outcome is None:
                return False
            _remember(expression, outcome._replace(error=shortened(outcome.error)))
    return True


def _remember(expression: str, outcome: Outcome) -> None:
    _compiled[expression] = (outcome, len(expression) + _OUTCOME_SIZE)


#: Outcomes with their sizes. A definition of the largest size is to find all of its rules here.
_compiled: Final[LRUCache[str, tuple[Outcome, int]]] = LRUCache(
    _COMPILED_SIZE_MAX, getsizeof=operator.itemgetter(1)
)


def run(jobs: Sequence[Job], seconds: float) -> list[Outcome | None]:
    """Evaluate expressions one after another, in `seconds` of processor time.

    If the time ends, the last outcome is None.
    """
    global _worker  # one for all servers of this process
    with _lock:
        if _worker is None or _worker.owner != os.getpid():  # a fork has a worker of its own
            _worker = _Worker()
        outcomes = _worker.run(jobs, seconds)
        if _worker.has_ended:
            _worker = None
        return outcomes


_worker: _Worker | None = None
_lock: Final = threading.RLock()


class _Worker:
    """The server's end of the connection."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.has_ended = False
        self._connection, far = Pipe()
        command = _START.format(path=sys.path, descriptor=far.fileno())
        self._process = subprocess.Popen(
            [sys.executable, "-c", command],
            pass_fds=[far.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        far.close()
        atexit.register(self.close)

    def run(self, jobs: Sequence[Job], seconds: float) -> list[Outcome | None]:
        outcomes: list[Outcome | None] = []
        try:
            self._connection.send((jobs, seconds))
            while len(outcomes) < len(jobs) and (not outcomes or outcomes[-1] is not None):
                outcomes.append(self._connection.recv())
        except (EOFError, OSError):  # the parent of the children was killed
            self.close()
            outcomes.append(None)
        return outcomes

    def close(self) -> None:
        if self.owner == os.getpid() and not self.has_ended:
            self.has_ended = True
            atexit.unregister(self.close)
            self._connection.close()
            self._process.wait()


def serve(descriptor: int) -> None:
    """Answer requests until the server ends, in one child after another."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's, for the server
    sys.modules["cel.cli"] = types.ModuleType("cel.cli")  # takes a second to import, is not used
    import cel  # noqa: F401 - children have it

    with Connection(descriptor) as connection:
        while True:
            child = os.fork()
            if not child:
                with contextlib.suppress(EOFError, OSError):
                    _answer_all(connection)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            if not status:
                return
            connection.send(None)


def _answer_all(connection: Connection) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_MAX_BYTES, _MEMORY_MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        jobs, seconds = connection.recv()
        signal.setitimer(signal.ITIMER_PROF, seconds)  # its signal ends the process
        for expression, variables in jobs:
            outcome = _outcome(expression, variables)
            try:
                connection.send(outcome)
            except (TypeError, AttributeError) as error:
                connection.send(Outcome(error=str(error)))
        signal.setitimer(signal.ITIMER_PROF, 0)


def _outcome(expression: str, variables: Mapping[str, object] | None) -> Outcome:
    program = _program(expression)
    if isinstance(program, Outcome):
        return program
    if variables is None:
        return Outcome("oldSelf" in program.variables())
    import cel

    context: Any = cel.Context()
    for name, function in FUNCTIONS.items():
        context.add_function(name, function)
    context.update(dict(variables))
    try:
        return Outcome(program.execute(context))
    except KeyError as error:
        return Outcome(error=f"no such key: {error.args[0]}")
    except ZeroDivisionError:
        return Outcome(error="division by zero")
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        _, _, ours = str(error).partition(" failed: ValueError: ")  # of a function of the library
        return Outcome(error=ours.removesuffix(_ADVICE) or str(error))


@functools.lru_cache(maxsize=256)
def _program(expression: str) -> Any:
    """Compile an expression; return an outcome if it cannot be evaluated."""
    import cel

    try:
        program = cel.compile(expression)
    except ValueError as error:
        if "unsupported syntax" in str(error):
            return Outcome(not_evaluated="optional values are not known")
        return Outcome(error=str(error))
    named = {name for name in program.functions() if re.fullmatch(r"\w+", name) and name[0] != "_"}
    unknown = sorted(named - _STANDARD - FUNCTIONS.keys())
    return Outcome(not_evaluated=f"{', '.join(unknown)}: not known") if unknown else program
