"""Command-line options from the fields of dataclasses (`fakeapi/types/option.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from fakeapi.types.option import Option, options_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Classes of options by the argument of a command that gets their values.
Groups: TypeAlias = "Mapping[str, type]"


def click_options(groups: Groups) -> list[click.Option]:
    """Return a command-line option for each field that is an option."""
    return [
        _click_option(f"{group}__{name}", option.flag_of(name), option, default)
        for group, owner in groups.items()
        for name, (option, default) in options_of(owner).items()
    ]


def values_of(groups: Groups, values: dict[str, Any]) -> dict[str, Any]:
    """Return an object of each class with the values of the command line, by group."""
    return {
        group: owner(**{name: values[f"{group}__{name}"] for name in options_of(owner)})
        for group, owner in groups.items()
    }


def files_of(values: Mapping[str, object], *, written: bool) -> Iterator[tuple[str, Path]]:
    """Yield the files that are written, or else the files that are only read, with their flags."""
    for value in values.values():
        for name, (option, _) in options_of(type(value)).items():
            if option.type is Path and option.written == written:
                given = getattr(value, name)
                paths = given if option.repeated else (given,)
                yield from ((option.flag_of(name), path) for path in paths if path is not None)


def _click_option(key: str, flag: str, option: Option, default: object) -> click.Option:
    is_switch = option.type is bool
    if is_switch and default is not False:
        flag = f"{flag}/--no-{flag.removeprefix('--')}"

    def read(_context: object, _parameter: object, value: Any) -> object:
        """Return the value of the field; an option that was not given has its default."""
        if value is None or value == ():
            return default
        try:
            return option.parse(value) if option.parse else value
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return click.Option(
        [flag, key],
        type=None if is_switch and default is False else _type(option),
        is_flag=is_switch or None,
        default=None if option.repeated or option.parse else default,
        show_default=default not in (None, "", ()) and default is not False,
        multiple=option.repeated,
        metavar=option.metavar,
        callback=read,
        help=option.help,
    )


def _type(option: Option) -> Any:
    if option.choices:
        return click.Choice(option.choices)
    if option.type is Path:
        return click.Path(dir_okay=option.repeated, path_type=Path)
    low = option.minimum if option.above is None else option.above
    if low is None and option.maximum is None:
        return option.type
    bounds = click.IntRange if option.type is int else click.FloatRange
    return bounds(low, option.maximum, min_open=option.above is not None)
