"""The command `kubesched-conformance lint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..format.case import BUILT_IN, case_files, load_cases
from ..format.validation import read_valid_yaml
from ..options import PATH, SuiteCommand
from .checks import findings_in_cases, unused_anchors

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=SuiteCommand)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=PATH)
def lint(paths: tuple[Path, ...]) -> None:
    """Find mistakes in files of cases, by default the built-in ones, without running them.

    Each finding is a line `FILE:LINE: CHECK: TEXT`; the exit status is then 1.
    """
    chosen = paths or (BUILT_IN,)
    files = case_files(chosen)
    for file in files:
        read_valid_yaml(file)
    findings = [*findings_in_cases(load_cases(chosen))]
    for file in files:
        findings += unused_anchors(file)
    for finding in findings:
        click.echo(finding)
    if findings:
        raise SystemExit(1)
