"""Read tables: CSV with a header, also compressed by gzip, with errors that name the place."""

from __future__ import annotations

import csv
import gzip
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.simulate.history.errors import InputFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from scheduler.client import ApiObject


class Row:
    """One line of a table."""

    def __init__(self, path: Path, line: int, values: Mapping[str, str]) -> None:
        self._path: Final = path
        self._line: Final = line
        self._values: Final = values

    def text(self, column: str) -> str:
        """Return a value; empty if the table does not have the column."""
        return self._values.get(column, "").strip()

    def integer(self, column: str, *, default: int | None = None) -> int:
        """Return a value as an integer that is not negative; `default` for an empty one."""
        return int(self.number(column, default=default))

    def number(self, column: str, *, default: float | None = None) -> float:
        """Return a value as a number that is not negative; `default` for an empty one."""
        text = self.text(column)
        if not text and default is not None:
            return default
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 <= number < float("inf"):
            raise self.error(column, f"expected a number that is not negative, got {text!r}")
        return number

    def others(self, *columns: str) -> dict[str, str]:
        """Return the values of all other columns, empty ones left out."""
        names = (name for name in self._values if name not in columns)
        return {name: text for name in names if (text := self.text(name))}

    def checked(self, kind: type[ApiObject], value: object) -> object:
        """Return JSON values of an object; raises `InputFileError` if it is no such object."""
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise InputFileError(self._path, str(error), line=self._line) from error
        return value

    def error(self, column: str, problem: str) -> InputFileError:
        """Return an error about a value."""
        return InputFileError(self._path, problem, line=self._line, field=column)


def read_table(path: Path, required: Sequence[str]) -> Iterator[Row]:
    """Read a table that has these columns, and maybe others. Raises `InputFileError`."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8-sig", newline="") as file
        ):
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            missing = [name for name in required if name not in header]
            if missing:
                raise InputFileError(path, f"no column {missing[0]!r}", line=1)
            for values in reader:
                if len(values) != len(header):
                    problem = f"expected {len(header)} values, got {len(values)}"
                    raise InputFileError(path, problem, line=reader.line_num)
                yield Row(path, reader.line_num, dict(zip(header, values, strict=True)))
    except (OSError, EOFError) as error:
        raise InputFileError(path, getattr(error, "strerror", None) or str(error)) from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputFileError(path, f"not a table: {error}") from error
