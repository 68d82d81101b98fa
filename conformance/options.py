"""Commands and their options: errors as one line, options in groups and never empty."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

import click

from .errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Option(click.Option):
    """An option of a group. An empty value, as of a variable that is not set, is an error."""

    def __init__(self, *args: object, group: str, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.group = group

    def type_cast_value(self, ctx: click.Context, value: object) -> object:
        values = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(each, str) and not each.strip() for each in values):
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


def options_of(group: str) -> Callable[..., Callable[[Callable[..., None]], Callable[..., None]]]:
    """Return a decorator as `click.option` for options of a group."""

    def option(*names: str, **settings: object) -> Callable[..., Callable[..., None]]:
        return click.option(*names, cls=_Option, group=group, **settings)

    return option
