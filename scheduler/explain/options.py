"""The options that commands have in common, and options that are gathered to one value."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.config import DEFAULT_SCHEDULER_VERSION, VERSION_LABELS, SchedulerVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Command = Callable[..., None]
    Decorator = Callable[[Command], Command]

manifests: Final = click.option(
    "--manifests",
    metavar="FILE|-",
    multiple=True,
    type=click.Path(path_type=Path),
    help="YAML or JSON with nodes and pods; pods without a node are decided in order. "
    "- is standard input.",
)
kubeconfig: Final = click.option(
    "--kubeconfig", metavar="FILE", default="", help="Read an API server's cluster."
)
master: Final = click.option(
    "--master", metavar="URL", default="", help="The API server's address."
)
config: Final = click.option(
    "--config", metavar="FILE", type=click.Path(path_type=Path), help="Configuration."
)
plugin: Final = click.option(
    "--plugin", metavar="MODULE:CLASS", multiple=True, help="A plugin of your own."
)
scheduler_version: Final = click.option(
    "--scheduler-version",
    "version",
    type=click.Choice(VERSION_LABELS),
    default=DEFAULT_SCHEDULER_VERSION.label,
    show_default=True,
    callback=lambda _, __, label: SchedulerVersion.parse(label),
    help="The version of kube-scheduler to decide as.",
)
output: Final = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "html"]),
    default="table",
    show_default=True,
    help="Tables, JSON with all details, or a page of HTML.",
)


def added(options: Iterable[Decorator], command: Command) -> Command:
    """Add options to a command, in this order, before the options that it has."""
    for option in reversed([*options]):
        command = option(command)
    return command


def gathered(name: str, make: Callable[..., object], **options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, and gathers their values.

    The command gets one parameter `name` for all of them: what `make` returns for the values.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_value(**values: Any) -> None:
            own = {option: values.pop(option) for option in options}
            command(**{name: make(**own)}, **values)

        return added(options.values(), with_value)

    return decorate
