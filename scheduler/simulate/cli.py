"""The command `kubesched-simulate`."""

from __future__ import annotations

import click

from scheduler.simulate.commands import capacity, change, drain, grow, lose, place
from scheduler.simulate.history.cli import import_trace, record
from scheduler.simulate.runs.cli import run
from scheduler.simulate.study.cli import study


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kubesched", message="kubesched-simulate %(version)s")
def main() -> None:
    """Find out what the scheduler would do. Nothing is ever written to a cluster."""


main.add_command(place.command, "place")
main.add_command(drain.command, "drain")
main.add_command(lose.command, "lose")
main.add_command(capacity.command, "capacity")
main.add_command(grow.command, "grow")
main.add_command(change.command, "change")
main.add_command(record, "record")
main.add_command(import_trace, "import")
main.add_command(run, "run")
main.add_command(study, "study")
