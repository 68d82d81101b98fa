"""The command `kubesched-conformance`: test a scheduler.

The subcommands are imported on use. Invalid input is one line and the exit status 2.
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import TYPE_CHECKING, Final

import click

from .errors import InputError
from .options import BadInput

if TYPE_CHECKING:
    from types import ModuleType

#: The extras of `kubesched` that have packages which some subcommands need.
_EXTRAS = {"hypothesis": "test", "pytest": "test"}

#: Threshold of Python's garbage collector: modules and cases live as long as the command.
_GARBAGE_THRESHOLD: Final = 50_000

#: The subcommands: name, module, one line of help.
_ELSEWHERE = {
    "clean": ("conformance.targets.cli", "Remove from a cluster what runs have left."),
    "bugs": ("conformance.reports.cli", "Print the known bugs of kube-scheduler that cases show."),
    "matrix": ("conformance.reports.cli", "Print the results of all versions as a table."),
    "capture": ("conformance.capture.cli", "Save the part of a cluster that matters as a case."),
    "diff": ("conformance.differential.cli", "Compare two schedulers in the same scenarios."),
    "shrink": ("conformance.capture.cli", "Make a case smaller, with the same outcome."),
    "report": ("conformance.reports.cli", "Convert, merge or compare reports."),
    "upgrade": ("conformance.upgrade.cli", "Show what another version would do otherwise."),
    "lint": ("conformance.lint.cli", "Find mistakes in cases without running them."),
    "fuzz": ("conformance.fuzz.cli", "Search for cases in which a scheduler breaks an invariant."),
    "hunt": ("conformance.hunt.cli", "Search for lost wake-ups and broken promises."),
    "replay": ("conformance.replay.cli", "Schedule a production cluster's trace."),
    "run": ("conformance.run.cli", "Run cases against a scheduler."),
}


class _Commands(click.Group):
    """The group of subcommands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(_ELSEWHERE)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _ELSEWHERE:
            return None
        command: object = getattr(_imported(_ELSEWHERE[cmd_name][0]), cmd_name)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the subcommands' help without importing them."""
        with formatter.section("Commands"):
            names = self.list_commands(ctx)
            formatter.write_dl([(name, _ELSEWHERE[name][1]) for name in names])

    def invoke(self, ctx: click.Context) -> object:
        gc.set_threshold(_GARBAGE_THRESHOLD)
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise BadInput(str(error)) from error
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get(error.name or "")
            if extra is None:
                raise
            text = (
                f"{error.name} is not installed: pip install '.[{extra}]' in kubesched's checkout"
            )
            raise BadInput(text) from error


def _imported(module: str) -> ModuleType:
    """Import a module out of the garbage collector's sight, which saves a tenth of a second."""
    if module in sys.modules:
        return sys.modules[module]
    gc.disable()
    try:
        imported = importlib.import_module(module)
        gc.freeze()
    finally:
        gc.enable()
    return imported


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kubesched", message="kubesched-conformance %(version)s")
def main() -> None:
    """Test a scheduler by its behaviour over HTTP."""
