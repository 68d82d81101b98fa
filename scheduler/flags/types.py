"""What flags may hold, read as Go's flag library reads it and complained about in its words.

Source: `github.com/spf13/pflag` (`ip.go`, `string_slice.go`, `duration.go`, `bool.go`).
"""

from __future__ import annotations

import csv
import ipaddress
from typing import TYPE_CHECKING, Final

import click

from scheduler.api.field import quoted
from scheduler.config.duration import Duration

if TYPE_CHECKING:
    from collections.abc import Callable


if TYPE_CHECKING:
    _ParamType = click.ParamType[object]
else:
    # Generic for the type checker alone in older versions of the library.
    _ParamType = click.ParamType


class FlagType(_ParamType):
    """A flag's type by the function that reads it, which raises ValueError for what it cannot."""

    def __init__(self, name: str, read: Callable[[str], object]) -> None:
        self.name = name
        self._read = read

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """A text is read; a default is what it is."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _ip_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        raise ValueError(f"failed to parse IP: {quoted(text)}") from None


def _port(text: str) -> int | None:
    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"strconv.ParseInt: parsing {quoted(text)}: invalid syntax") from None


def _verbosity(text: str) -> int:
    # Go's flags may be written -v=2 even where the name is one letter.
    digits = text.removeprefix("=")
    if not digits.isdecimal():
        raise ValueError(f"strconv.ParseUint: parsing {quoted(digits)}: invalid syntax")
    return int(digits)


def _words(text: str) -> tuple[str, ...]:
    return tuple(next(csv.reader([text]))) if text else ()


#: `300ms`, `1h30m`; a `scheduler.config.duration.Duration`.
DURATION: Final = FlagType("duration", Duration.parse)
#: An address of either family, as a text.
IP_ADDRESS: Final = FlagType("ip", _ip_address)
#: A number; `auto`, which is ours, becomes None: whichever port is free.
PORT: Final = FlagType("int", _port)
#: How much to log: a number, not below 0.
VERBOSITY: Final = FlagType("level", _verbosity)
#: Words with commas between them, as a tuple.
WORDS: Final = FlagType("strings", _words)
