"""The flags of a run: feature gates may be given several times, and the help lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.testing import CliRunner

from scheduler.config.feature_gates import help_lines, parse_settings
from scheduler.flags.run import run_flags

if TYPE_CHECKING:
    from scheduler.flags.run import RunOptions


@click.command()
@run_flags
def command(options: RunOptions) -> None:
    for name, value in parse_settings(options.feature_gates).items():
        click.echo(f"{name} {value}")


def test_feature_gates_are_gathered_from_all_occurrences() -> None:
    first, second = "--feature-gates=A=true,B=false", "--feature-gates=C=1"
    assert CliRunner().invoke(command, [first, second]).output == "A True\nB False\nC True\n"
    assert CliRunner().invoke(command, ["--feature-gates="]).output == ""


def test_the_help_has_a_line_for_each_gate() -> None:
    lines = [line.strip() for line in CliRunner().invoke(command, ["--help"]).output.splitlines()]
    assert set(help_lines()) <= set(lines)
