"""The openb trace: a production GPU cluster as two CSV files, its nodes and its pods.

    nodes   sn,cpu_milli,memory_mib,gpu,model
    pods    name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,...
            with times also creation_time,deletion_time, in seconds

Columns may stand in any order, and others are ignored. The only error is `TraceError`; its text is
one line that names the file, the line and the column.
Source: alibaba/clusterdata, cluster-trace-gpu-v2023.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from ..errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = [
    "GAP_SECONDS_MAX",
    "Change",
    "Trace",
    "TraceError",
    "TraceNode",
    "TracePod",
    "changes_of",
    "read_nodes",
    "read_pods",
    "read_trace",
]

NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS: Final = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
)
TIME_COLUMNS: Final = ("creation_time", "deletion_time")
#: A longer gap of the trace is cut: nothing happens after the longest backoff of a pod (10 s).
GAP_SECONDS_MAX: Final = 30.0
#: The API server's grammar of the name of a node or a pod (a DNS subdomain).
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_LENGTH_MAX: Final = 253
#: The API server's grammar of a label value.
_LABEL: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
#: A larger number is a mistake, and would not fit into a quantity.
_NUMBER_MAX: Final = 10**12


class TraceError(InputError):
    """A trace that cannot be read: the place, and the expected value."""

    def __init__(self, path: Path, problem: str, *, line: int = 0, column: str = "") -> None:
        place = f"{path}:{line}" if line else str(path)
        super().__init__(
            f"{place}: column {column!r}: {problem}" if column else f"{place}: {problem}"
        )


class TraceNode(NamedTuple):
    """A machine: its resources, and the model of its GPUs (empty without GPUs)."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


class TracePod(NamedTuple):
    """A task: its requests, among them `gpus` times `gpu_milli` thousandths of a GPU.

    `models` are the GPU models it can use; empty means any. `qos` is a label of the trace. The
    times are seconds since the start of the trace, or 0 if the trace is read without them.
    """

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...]
    qos: str
    created_seconds: int = 0
    deleted_seconds: int = 0

    @property
    def gpu_milli_total(self) -> int:
        """Thousandths of a GPU over all GPUs of the task."""
        return self.gpus * self.gpu_milli


class Trace(NamedTuple):
    """A cluster and its pods, both in the order of the files."""

    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]


class Change(NamedTuple):
    """The creation or deletion of a pod, in seconds since the start of the trace."""

    seconds: int
    is_creation: bool
    pod: TracePod


def changes_of(trace: Trace) -> list[Change]:
    """Return the changes of a trace with times, up to the last creation.

    Deletions of a moment come first, except for a pod that is created and deleted in one moment.
    """
    created = [Change(pod.created_seconds, True, pod) for pod in trace.pods]
    deleted = [Change(pod.deleted_seconds, False, pod) for pod in trace.pods]
    last = max(change.seconds for change in created)
    brief = {pod.name for pod in trace.pods if pod.created_seconds == pod.deleted_seconds}
    return sorted(
        (change for change in created + deleted if change.seconds <= last),
        key=lambda change: (
            change.seconds,
            change.is_creation or change.pod.name in brief,
            not change.is_creation,
        ),
    )


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


class _Row:
    """One line of a table, read column by column."""

    def __init__(self, path: Path, line: int, values: dict[str, str]) -> None:
        self._path = path
        self.line = line
        self._values = values

    def error(self, column: str, expected: str) -> TraceError:
        """Return the error for a value of this line."""
        value = self._values[column]
        problem = f"expected {expected}, found {value!r}"
        return TraceError(self._path, problem, line=self.line, column=column)

    def number(self, column: str) -> int:
        """Return an integer of at least 0."""
        text = self._values[column].strip()
        if not (text.isascii() and text.isdecimal()) or int(text) > _NUMBER_MAX:
            raise self.error(column, f"a whole number from 0 to {_NUMBER_MAX}")
        return int(text)

    def name(self, column: str) -> str:
        """Return a name that the API server accepts."""
        text = self._values[column].strip()
        if len(text) > _NAME_LENGTH_MAX or not _NAME.fullmatch(text):
            raise self.error(column, "a name of lower case letters, digits, '-' and '.'")
        return text

    def label(self, column: str) -> str:
        """Return a label value, possibly empty."""
        return self.labels(column, separator="\n")[0]

    def labels(self, column: str, *, separator: str = "|") -> list[str]:
        """Return label values without duplicates, in their order."""
        texts = [text.strip() for text in self._values[column].split(separator)]
        if not all(_LABEL.fullmatch(text) for text in texts):
            raise self.error(column, "label values: letters, digits, '-', '_' and '.', at most 63")
        return list(dict.fromkeys(texts))


def read_trace(
    nodes: Path, pods: Path, *, limit: int | None = None, with_times: bool = False
) -> Trace:
    """Read both files, with the first `limit` pods. Raises TraceError."""
    return Trace(read_nodes(nodes), read_pods(pods, limit=limit, with_times=with_times))


def read_nodes(path: Path) -> tuple[TraceNode, ...]:
    """Read the list of nodes, at least one. Raises TraceError."""
    return _read(path, NODE_COLUMNS, _node, subject="nodes", column="sn", limit=None)


def read_pods(
    path: Path, *, limit: int | None = None, with_times: bool = False
) -> tuple[TracePod, ...]:
    """Read the list of pods, at least one, up to the first `limit`. Raises TraceError."""
    columns = POD_COLUMNS + TIME_COLUMNS if with_times else POD_COLUMNS
    parse = _pod_with_times if with_times else _pod
    return _read(path, columns, parse, subject="pods", column="name", limit=limit)


def _node(row: _Row) -> TraceNode:
    return TraceNode(
        name=row.name("sn"),
        cpu_milli=row.number("cpu_milli"),
        memory_mib=row.number("memory_mib"),
        gpus=row.number("gpu"),
        model=row.label("model"),
    )


def _pod(row: _Row) -> TracePod:
    return TracePod(
        name=row.name("name"),
        cpu_milli=row.number("cpu_milli"),
        memory_mib=row.number("memory_mib"),
        gpus=row.number("num_gpu"),
        gpu_milli=row.number("gpu_milli"),
        models=tuple(model for model in row.labels("gpu_spec") if model),
        qos=row.label("qos"),
    )


def _pod_with_times(row: _Row) -> TracePod:
    created, deleted = (row.number(column) for column in TIME_COLUMNS)
    if deleted < created:
        raise row.error("deletion_time", "a time that is not before creation_time")
    return _pod(row)._replace(created_seconds=created, deleted_seconds=deleted)


def _read(
    path: Path,
    columns: tuple[str, ...],
    parse: Callable[[_Row], T],
    *,
    subject: str,
    column: str,
    limit: int | None,
) -> tuple[T, ...]:
    """Read the rows of a table. `column` holds its column names, which must be unique."""
    rows: dict[str, T] = {}
    for row in _rows(path, columns):
        if limit is not None and len(rows) >= limit:
            break
        item = parse(row)
        if item.name in rows:
            raise row.error(column, "a name that no line before has")
        rows[item.name] = item
    if not rows:
        raise TraceError(path, f"no {subject} after the line of column names", line=1)
    return tuple(rows.values())


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[_Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            try:
                yield from _table(path, reader, columns)
            except csv.Error as error:
                raise TraceError(path, f"not CSV: {error}", line=reader.line_num) from error
    except OSError as error:
        raise TraceError(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise TraceError(path, f"not UTF-8 text: {error.reason}") from error


class _Reader(Protocol):
    @property
    def line_num(self) -> int: ...

    def __iter__(self) -> Iterator[list[str]]: ...


def _table(path: Path, reader: _Reader, columns: tuple[str, ...]) -> Iterator[_Row]:
    lines = iter(reader)
    header = [name.strip() for name in next(lines, [])]
    if not header:
        raise TraceError(path, "the file is empty, expected " + ",".join(columns), line=1)
    for column in columns:
        if header.count(column) != 1:
            problem = "missing" if column not in header else "there twice"
            raise TraceError(path, f"{problem}; found {','.join(header)}", line=1, column=column)
    for values in lines:
        if not values:
            continue
        if len(values) != len(header):
            problem = f"expected {len(header)} columns, found {len(values)}"
            at = header[min(len(values), len(header) - 1)]
            raise TraceError(path, problem, line=reader.line_num, column=at)
        yield _Row(path, reader.line_num, dict(zip(header, values, strict=True)))
