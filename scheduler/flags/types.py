"""Types and groups of flags. Values are parsed as Go's flag library does, with its error texts.

Source: `github.com/spf13/pflag` (`ip.go`, `string_slice.go`, `duration.go`, `bool.go`).
"""

from __future__ import annotations

import csv
import functools
import ipaddress
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from scheduler.api.field import quoted
from scheduler.config.duration import Duration

#: A function that click makes a command of, and a decorator that adds a flag to it.
Command: TypeAlias = Callable[..., None]
Flag: TypeAlias = Callable[[Command], Command]

if TYPE_CHECKING:
    _ParamType = click.ParamType[object]
else:
    # Generic for the type checker alone in older versions of the library.
    _ParamType = click.ParamType


class FlagType(_ParamType):
    """A type of flags; `parse` raises ValueError for an invalid text."""

    def __init__(self, name: str, parse: Callable[[str], object]) -> None:
        self.name = name
        self._parse = parse

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Parse a text; pass a default through."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
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
#: An IPv4 or IPv6 address, as a text.
IP_ADDRESS: Final = FlagType("ip", _ip_address)
#: A port; `auto`, which is ours, becomes None: any free port.
PORT: Final = FlagType("int", _port)
#: The log level: a number, not below 0.
VERBOSITY: Final = FlagType("level", _verbosity)
#: Words separated by commas, as a tuple.
WORDS: Final = FlagType("strings", _words)


def flag_group(flags: Sequence[Flag], argument: str, build: Callable[..., object]) -> Flag:
    """Return a decorator that adds flags to a command, which gets all of them as one `argument`.

    `build` makes the argument from the values of the flags, passed by their names.
    """

    def add_flags(command: Command) -> Command:
        for flag in reversed(flags):
            command = flag(command)
        return command

    parameters = click.command("flags")(add_flags(lambda: None)).params
    names = [str(parameter.name) for parameter in parameters]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def gathered(*arguments: object, **values: object) -> None:
            own = {name: values.pop(name) for name in names}
            command(*arguments, **{argument: build(**own)}, **values)

        return add_flags(gathered)

    return decorate


class _TrueOrFalse(click.types.BoolParamType):
    """A truth value. The error does not list click's empty value."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a valid boolean: expected true or false", param, ctx)


def true_or_false(flag: str, words: str, *, default: bool | None, show_default: bool | str) -> Flag:
    """Return a flag that may be written `--x`, `--x=true` or `--x=false`, as in Go."""
    return click.option(
        flag,
        metavar="[true|false]",
        type=_TrueOrFalse(),
        is_flag=False,
        flag_value="true",
        default=default,
        show_default=show_default,
        help=words,
    )
