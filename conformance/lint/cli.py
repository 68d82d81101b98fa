"""The command `kubesched-conformance lint`."""

from __future__ import annotations

from pathlib import Path

import click

from ..format.case import BUILT_IN, case_files, load_cases
from ..options import SuiteCommand
from .checks import findings_in_cases, unused_anchors


@click.command(cls=SuiteCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
def lint(paths: tuple[Path, ...]) -> None:
    """Find mistakes in files of cases, by default the built-in ones, without running them.

    Each finding is a line `FILE:LINE: CHECK: TEXT`; the exit status is then 1.
    """
    chosen = paths or (BUILT_IN,)
    findings = [*findings_in_cases(load_cases(chosen))]
    for file in case_files(chosen):
        findings += unused_anchors(file)
    for finding in findings:
        click.echo(finding)
    if findings:
        raise SystemExit(1)
