"""Commands and their options: errors as one line, options in groups and never empty.

option = options_of("Running")

class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    workers: Annotated[int | None, option("--workers", metavar="N", help="...")]

@click.command(cls=SuiteCommand)
@takes(RunOptions)
def run(options: RunOptions) -> None: ...
"""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args, get_origin

import click
import msgspec

from .errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T", bound=msgspec.Struct)

#: A file or a folder, and a file that is written or of one form.
PATH: Final = click.Path(path_type=Path)
FILE: Final = click.Path(path_type=Path, dir_okay=False)


class _Option(click.Option):
    """An option of a group. An empty value, as of a variable that is not set, is an error."""

    def __init__(self, *args: object, group: str, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.group = group

    def type_cast_value(self, ctx: click.Context, value: object) -> object:
        values = value if isinstance(value, list | tuple) else [value]
        texts = [text for text in values if isinstance(text, str) and text != self.default]
        if not all(text.strip() for text in texts):
            raise InputError(f"{self.opts[-1]}: the value is empty; is a variable not set?")
        return super().type_cast_value(ctx, value)


class Failure(click.ClickException):
    """A command without a result: one line, and the exit status 1."""

    def show(self, file: object = None) -> None:
        del file
        click.echo(f"kubesched-conformance: {self.message}", err=True)


class BadInput(Failure):
    """Invalid input of the caller: one line, and the exit status 2."""

    exit_code = 2


class SuiteCommand(click.Command):
    """A command of the suite. An InputError becomes a BadInput; SIGTERM ends it as Ctrl-C does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_extra_args = True
        try:
            rest = super().parse_args(ctx, args)
        except InputError as error:
            raise BadInput(str(error)) from error
        if rest and not ctx.resilient_parsing:
            takes_cases = any("--cases" in parameter.opts for parameter in self.params)
            hint = f"; did you mean --cases {rest[0]}?" if takes_cases else ""
            raise BadInput(f"unexpected argument {rest[0]}{hint}")
        return rest

    def invoke(self, ctx: click.Context) -> object:
        try:
            with _sigterm_as_ctrl_c():
                return super().invoke(ctx)
        except InputError as error:
            raise BadInput(str(error)) from error


@contextlib.contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGTERM while the block runs: processes and files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class GroupedCommand(SuiteCommand):
    """A command whose help text has a section for each group of options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                group = parameter.group if isinstance(parameter, _Option) else "Help"
                groups.setdefault(group, []).append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)


class Option:
    """A decorator as `click.option`, for an option of a group."""

    def __init__(self, group: str, *names: str, **settings: object) -> None:
        self._group = group
        self._names = names
        self._settings = settings

    def __call__(self, command: Callable[..., None]) -> Callable[..., None]:
        add = click.option(*self._names, cls=_Option, group=self._group, **self._settings)
        return add(command)

    def of_field(self, name: str, kind: object) -> Option:
        """Return the option for a field: by its type it is a flag, a list, or a file."""
        attributes: dict[str, object] = {}
        inner = get_args(kind) or (kind,)
        if kind is bool:
            attributes["is_flag"] = True
        if get_origin(kind) is tuple and inner[-1] is ...:
            attributes["multiple"] = True
        if inner[0] is Path:
            attributes["type"] = FILE
        names = (each for each in self._names if each != name)
        return Option(self._group, *names, name, **{**attributes, **self._settings})


def options_of(group: str) -> Callable[..., Any]:
    """Return a function that makes the options of a group, as decorators or for fields."""
    return functools.partial(Option, group)


def given_by(decorator: Callable[[Callable[..., None]], Callable[..., None]]) -> Any:
    """Return a decorator that gives a command a value under the field's name."""
    return decorator


def takes(options: type[_T]) -> Callable[[Callable[[_T], None]], Callable[..., None]]:
    """Give a command the options in the fields of a struct, as one value."""

    def decorate(command: Callable[[_T], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def filled(**given: object) -> None:
            command(options(**given))

        decorated: Callable[..., None] = filled
        for field in reversed(msgspec.structs.fields(options)):
            option = field.default
            if isinstance(option, Option):
                option = option.of_field(field.name, field.type)
            decorated = option(decorated)
        return decorated

    return decorate
