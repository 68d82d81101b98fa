"""Parse a command line as Go's flag library does, with its error texts.

    flags = FlagSet(flags_of(version))
    values = flags.parse(["--secure-port=0", "-v5"])    # raises UsageError
    values.integer("secure-port"), values.is_set("config")

A truth value is `--x`, `--x=true` or `--x=false`; a word after `--x` is not its value. `_` in the
name of a flag means `-`. A flag with a list of values replaces its default when it is first given,
and adds to the list after that.
Source: `github.com/spf13/pflag` (`flag.go`, `bool.go`, `ip.go`, `string_slice.go`,
`int32_slice.go`, `string_to_string.go`), component-base `cli/flag/{flags,namedcertkey_flag}.go`,
`logs/api/v1/pflags.go`, `version/verflag/verflag.go`.
"""

from __future__ import annotations

import csv
import functools
import io
import ipaddress
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from scheduler.api.duration import Duration
from scheduler.api.field import quoted
from scheduler.api.quantity import parse_quantity
from scheduler.api.strconv import go_bool, parse_bool, parse_float32, parse_int
from scheduler.klog import parse_verbosity
from scheduler.serving.options import NamedCertKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

T = TypeVar("T")

_HELP_WIDTH: Final = 100


class UsageError(Exception):
    """The command line is invalid; the message is one line."""


class FlagType(NamedTuple):
    """A type of flags: its name in the help, and the conversions between text and value.

    `parse` raises ValueError. A value of a `repeated` type is a tuple, to which each use of the
    flag adds. `without_value` is the text of a flag without a value, if the flag may stand alone.
    """

    name: str
    parse: Callable[[str], object]
    text: Callable[[object], str] = str
    repeated: bool = False
    without_value: str | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag. `default` is a text that the type parses."""

    name: str
    type: FlagType
    default: str
    usage: str
    shorthand: str = ""


class Values:
    """The values of all flags after parsing."""

    def __init__(self, flags: Mapping[str, Flag]) -> None:
        self._flags: Final = flags
        self._values: Final = {flag.name: _default(flag) for flag in flags.values()}
        self._set: Final[set[str]] = set()

    def set(self, flag: Flag, text: str) -> None:
        """Set a flag from its text. Raises UsageError."""
        try:
            value = flag.type.parse(text)
        except ValueError as error:
            shown = f"-{flag.shorthand}, --{flag.name}" if flag.shorthand else f"--{flag.name}"
            raise UsageError(
                f"invalid argument {quoted(text)} for {quoted(shown)} flag: {error}"
            ) from error
        before = self._values[flag.name]
        if flag.type.repeated and flag.name in self._set:
            assert isinstance(before, tuple)
            assert isinstance(value, tuple)
            value = before + value
        self._values[flag.name] = value
        self._set.add(flag.name)

    def is_set(self, name: str) -> bool:
        """Return True if the command line has the flag."""
        return name in self._set

    def value(self, name: str) -> object:
        return self._values[name]

    def text(self, name: str) -> str:
        """Return a value as Go writes it."""
        return self._flags[name].type.text(self._values[name])

    def string(self, name: str) -> str:
        return self._get(name, str)

    def boolean(self, name: str) -> bool:
        return self._get(name, bool)

    def integer(self, name: str) -> int:
        return self._get(name, int)

    def duration(self, name: str) -> Duration:
        return self._get(name, Duration)

    def strings(self, name: str) -> tuple[str, ...]:
        return self.items(name, str)

    def items(self, name: str, kind: type[T]) -> tuple[T, ...]:
        """Return the values of a repeated flag, of type `kind`; none for a flag that is not one."""
        items = self._get(name, tuple) if name in self._flags else ()
        assert all(isinstance(item, kind) for item in items)
        return items

    def _get(self, name: str, kind: type[T]) -> T:
        value = self._values[name]
        assert isinstance(value, kind), f"--{name} is no {kind.__name__}"
        return value

    def texts(self) -> dict[str, str]:
        """Return all values as Go writes them, by the names of the flags, sorted."""
        return {name: self.text(name) for name in sorted(self._values)}


def _default(flag: Flag) -> object:
    return () if flag.type.repeated and not flag.default else flag.type.parse(flag.default)


class FlagSet:
    """The flags of a command, in named groups."""

    def __init__(self, groups: Mapping[str, Sequence[Flag]]) -> None:
        self._groups: Final = groups
        self._flags: Final = {flag.name: flag for flags in groups.values() for flag in flags}
        self._shorthands: Final = {
            flag.shorthand: flag for flag in self._flags.values() if flag.shorthand
        }

    def parse(self, arguments: Sequence[str], *, command: str) -> Values:
        """Parse a command line, which consists of flags only. Raises UsageError."""
        values = Values(self._flags)
        rest = list(arguments)
        words: list[str] = []
        while rest:
            argument = rest.pop(0)
            if argument == "--":
                words += rest
                break
            if argument.startswith("--"):
                self._parse_long(argument, rest, values)
            elif argument.startswith("-") and len(argument) > 1:
                self._parse_short(argument, rest, values)
            else:
                words.append(argument)
        if any(words):
            shown = " ".join(map(quoted, words))
            raise UsageError(f"{quoted(command)} does not take any arguments, got [{shown}]")
        return values

    def _parse_long(self, argument: str, rest: list[str], values: Values) -> None:
        name, equals, text = argument[2:].partition("=")
        if not name or name.startswith("-"):
            raise UsageError(f"bad flag syntax: {argument}")
        flag = self._flags.get(name.replace("_", "-"))
        if flag is None:
            raise UsageError(f"unknown flag: --{name}")
        if not equals:
            if flag.type.without_value is not None:
                text = flag.type.without_value
            elif rest:
                text = rest.pop(0)
            else:
                raise UsageError(f"flag needs an argument: --{name}")
        values.set(flag, text)

    def _parse_short(self, argument: str, rest: list[str], values: Values) -> None:
        letters = argument[1:]
        while letters:
            letter, after = letters[0], letters[1:]
            flag = self._shorthands.get(letter)
            if flag is None:
                raise UsageError(f"unknown shorthand flag: '{letter}' in -{letters}")
            letters = ""
            if len(after) > 1 and after.startswith("="):
                text = after[1:]
            elif flag.type.without_value is not None:
                text, letters = flag.type.without_value, after
            elif after:
                text = after
            elif rest:
                text = rest.pop(0)
            else:
                raise UsageError(f"flag needs an argument: '{letter}' in -{argument[1:]}")
            values.set(flag, text)

    def help_text(self) -> str:
        """Return all groups and flags, as the help shows them."""
        return "\n".join("".join(self._group_help(group)) for group in self._groups)

    def _group_help(self, group: str) -> Iterator[str]:
        yield f"{group} flags:\n\n"
        for flag in self._groups[group]:
            short = f"-{flag.shorthand}, " if flag.shorthand else "    "
            kind = f" {flag.type.name}" if flag.type.name != "bool" else ""
            default = f" (default {flag.default})" if flag.default not in ("", "false", "0") else ""
            yield f"  {short}--{flag.name}{kind}\n"
            for paragraph in f"{flag.usage}{default}".splitlines():
                # A line for a feature gate stays whole.
                width = len(paragraph) if "=true|false (" in paragraph else _HELP_WIDTH - 10
                lines = textwrap.wrap(paragraph, width, break_on_hyphens=False)
                yield "".join(f"          {line}\n" for line in lines)


# Types.


def _port(text: str) -> int:
    return AUTOMATIC_PORT if text == "auto" else parse_int(text, bits=64)


def _ip_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip())) if text else "0.0.0.0"  # noqa: S104 - upstream's reading of an empty flag
    except ValueError:
        raise ValueError(f"failed to parse IP: {quoted(text)}") from None


def _strings(text: str) -> tuple[str, ...]:
    """Parse values with commas between them; quotes hold commas, as in a CSV file."""
    if not text:
        return ()
    try:
        return tuple(next(csv.reader([text], strict=True)))
    except csv.Error:
        raise ValueError(
            f"parse error on line 1, column {len(text) + 1}: "
            'extraneous or missing " in quoted-field'
        ) from None


def _integers(text: str) -> tuple[int, ...]:
    return tuple(parse_int(number, bits=32) for number in text.split(","))


def _string_map(text: str) -> tuple[tuple[str, str], ...]:
    """Parse `key=value` pairs with commas between them; the pairs are CSV if there are several."""
    pairs = [text.strip('"')] if text.count("=") == 1 else list(_strings(text))
    if text.count("=") == 0:
        raise ValueError(f"{text} must be formatted as key=value")
    for pair in pairs:
        if "=" not in pair:
            raise ValueError(f"{pair} must be formatted as key=value")
    return tuple((key, value) for key, _, value in (pair.partition("=") for pair in pairs))


def _module_levels(text: str) -> tuple[tuple[str, int], ...]:
    levels = []
    for pattern in filter(None, text.split(",")):
        match pattern.split("="):
            case [name, level] if name and level:
                try:
                    levels.append((name, parse_verbosity(level)))
                except ValueError as error:
                    raise ValueError(f"parsing verbosity in {quoted(pattern)}: {error}") from error
            case _:
                raise ValueError(f"{quoted(pattern)} does not have the pattern=N format")
    return tuple(levels)


def _named_cert_keys(text: str) -> tuple[NamedCertKey, ...]:
    files, _, names = text.partition(":")
    match files.split(","):
        case [cert_file, key_file]:
            hosts = tuple(name.strip() for name in names.split(",")) if names else ()
            return (NamedCertKey(cert_file, key_file, hosts),)
    raise ValueError("expected comma separated certificate and key file paths")


def _version(text: str) -> str:
    """Check `true`, `false`, `raw`, or the text of a version."""
    if text == "raw" or text.startswith("v"):
        return text
    return go_bool(parse_bool(text))


def _quantity(text: str) -> str:
    parse_quantity(text)
    return text


def _csv(value: object) -> str:
    """Return values with commas between them, quoted where they contain one."""
    assert isinstance(value, tuple)
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(value)
    return f"[{line.getvalue()}]"


def _semicolons(value: object) -> str:
    assert isinstance(value, tuple)
    return f"[{';'.join(map(str, value))}]"


def _csv_pairs(value: object) -> str:
    assert isinstance(value, tuple)
    return _csv(tuple(f"{key}={item}" for key, item in value))


def _joined_pairs(value: object) -> str:
    assert isinstance(value, tuple)
    return ",".join(f"{key}={item}" for key, item in value)


#: The value of `--secure-port=auto`, which is ours: any free port.
AUTOMATIC_PORT: Final = -1 << 63

#: The types by their names in `flags.json`.
TYPES: Final[Mapping[str, FlagType]] = {
    "STRING": FlagType("string", str),
    "BOOL": FlagType("bool", parse_bool, go_bool, without_value="true"),
    "INT": FlagType("int", functools.partial(parse_int, bits=64)),
    "INT32": FlagType("int32", functools.partial(parse_int, bits=32)),
    "PORT": FlagType("int", _port, lambda value: "auto" if value == AUTOMATIC_PORT else str(value)),
    "FLOAT32": FlagType("float32", parse_float32, lambda value: f"{value:.9g}"),
    "IP": FlagType("ip", _ip_address),
    "DURATION": FlagType("duration", Duration.parse),
    "QUANTITY": FlagType("quantity", _quantity),
    "LEVEL": FlagType("Level", parse_verbosity),
    "VERSION": FlagType("version", _version, without_value="true"),
    "STRINGS": FlagType("strings", _strings, _csv, repeated=True),
    "INT32_SLICE": FlagType("int32Slice", _integers, _csv, repeated=True),
    "STRING_TO_STRING": FlagType("stringToString", _string_map, _csv_pairs, repeated=True),
    "MODULE_LEVELS": FlagType("pattern=N,...", _module_levels, _joined_pairs, repeated=True),
    "NAMED_CERT_KEY": FlagType("namedCertKey", _named_cert_keys, _semicolons, repeated=True),
    # Feature gates are parsed later, when the version to emulate is known.
    "FEATURE_GATES": FlagType(
        "colonSeparatedMultimapStringString",
        lambda text: (text,),
        lambda value: ",".join(value) if isinstance(value, tuple) else "",
        repeated=True,
    ),
}
