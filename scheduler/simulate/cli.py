"""The command `kubesched-simulate`. The module of a sub-command is imported when it is named."""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The place (`module:name`) and the summary of each sub-command.
_COMMANDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "place": ("scheduler.simulate.commands.place:command", "Place further pods."),
        "drain": ("scheduler.simulate.commands.drain:command", "Drain nodes."),
        "capacity": ("scheduler.simulate.commands.capacity:command", "Count further copies."),
        "change": ("scheduler.simulate.commands.change:command", "Compare configurations."),
        "grow": ("scheduler.simulate.commands.grow:command", "Find the nodes to add."),
        "lose": ("scheduler.simulate.commands.lose:command", "Lose nodes, or each domain."),
        "import": (
            "scheduler.simulate.history.cli:import_trace",
            "Make a history of a trace or of tables.",
        ),
        "record": (
            "scheduler.simulate.history.cli:record",
            "Record a cluster as a history, until stopped.",
        ),
        "run": ("scheduler.simulate.runs.cli:run", "Play a history by one or several policies."),
        "study": ("scheduler.simulate.study.cli:study", "Repeat published studies."),
    }
)


class _Commands(click.Group):
    """Sub-commands. The list of them imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kubesched", message="kubesched-simulate %(version)s")
def main() -> None:
    """Find out what the scheduler would do. Nothing is ever written to a cluster."""
