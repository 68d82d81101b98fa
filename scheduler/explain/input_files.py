"""Files that users give, plain or compressed by gzip: tables, and whatever has lines."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import sys
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from scheduler.explain.cluster import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")

#: Numbers of tables.
Count = Annotated[int, msgspec.Meta(ge=0)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]


class InputFileError(ClusterError):
    """A file has bad content. The text names the file, and where known line and field."""

    def __init__(self, path: Path, problem: str, *, line: int = 0) -> None:
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file; one that ends in `.gz` is decompressed. Raises `InputFileError`."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield file  # type: ignore[misc]
    except (OSError, EOFError) as error:
        raise InputFileError(path, getattr(error, "strerror", None) or str(error)) from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputFileError(path, f"not a table: {error}") from error


@contextlib.contextmanager
def line_of_errors(path: Path, line: int) -> Iterator[None]:
    """Raise errors about values as `InputFileError` with the line and the field."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError) as error:
        text, _, field = str(error).partition(" - at `$.")
        problem = f"{field.removesuffix('`')}: {text}" if field else text
        raise InputFileError(path, problem, line=line) from error


def read_table(path: Path, kind: type[R], make: Callable[[R], T]) -> Iterator[T]:
    """Yield what `make` returns for each row of a table: CSV with a header.

    The columns are the fields of the struct `kind`, and its field `amounts` has all other columns.
    Empty values are left out. Raises `InputFileError`, also for a ValueError of `make`.
    """
    fields = msgspec.structs.fields(kind)
    own = {field.encode_name for field in fields}
    with opened(path) as file:
        reader = csv.reader(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""))
        header = [name.strip() for name in next(reader, [])]
        for field in fields:
            if field.required and field.encode_name not in header:
                raise InputFileError(path, f"no column {field.encode_name!r}", line=1)
        for texts in reader:
            with line_of_errors(path, reader.line_num):
                if len(texts) != len(header):
                    raise ValueError(f"expected {len(header)} values, got {len(texts)}")
                row = {n: v for n, t in zip(header, texts, strict=True) if (v := t.strip())}
                amounts = {name: text for name, text in row.items() if name not in own}
                made = make(msgspec.convert({**row, "amounts": amounts}, kind, strict=False))
            yield made
