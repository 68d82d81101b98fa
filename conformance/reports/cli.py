"""The commands `matrix`, `bugs` and `report` of `kubesched-conformance`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from ..errors import InputError
from ..format.case import BUILT_IN, load_cases
from ..options import FILE, PATH, BadInput, SuiteCommand
from .bugs import bugs_page
from .files import check_outputs, write_report
from .markdown import comparison_in_markdown, report_in_markdown
from .report import Report, compare, merged
from .results import RESULTS, matrix_of, results_in, skips_of

if TYPE_CHECKING:
    from pathlib import Path

_BEGIN: Final = "<!-- matrix -->\n"
_END: Final = "<!-- /matrix -->\n"


@click.command(cls=SuiteCommand)
@click.option(
    "--results",
    "folder",
    metavar="DIR",
    default=RESULTS,
    type=PATH,
    help="The files that `run --results` has written; by default the suite's own.",
)
@click.option(
    "--into",
    metavar="FILE",
    type=FILE,
    help=f"Replace the table between {_BEGIN.strip()} and {_END.strip()} in a file.",
)
@click.option(
    "--check", is_flag=True, help="With --into: change nothing, fail if FILE is outdated."
)
def matrix(*, folder: Path, into: Path | None, check: bool) -> None:
    """Print a table of the results of all versions, in Markdown."""
    try:
        text = matrix_text(folder)
        if into is None:
            click.echo(text, nl=False)
            return
        before = into.read_text(encoding="utf-8")
        after = with_matrix(before, text)
    except OSError as error:
        raise BadInput(str(error)) from error
    if check and after != before:
        click.echo(f"{into}: the table is not that of {folder}", err=True)
        raise SystemExit(1)
    if not check:
        into.write_text(after, encoding="utf-8")


@click.command(cls=SuiteCommand)
@click.option(
    "--cases",
    "paths",
    metavar="PATH",
    default=(BUILT_IN,),
    multiple=True,
    type=PATH,
    help="Files or directories of cases, instead of the built-in ones.",
)
def bugs(*, paths: tuple[Path, ...]) -> None:
    """Print the page of the bugs that cases show, in Markdown."""
    click.echo(bugs_page(load_cases(paths)), nl=False)


def matrix_text(folder: Path) -> str:
    """Return the tables of results and of skipped cases. Raises InputError."""
    results = results_in(folder)
    if not results:
        raise InputError(f"{folder}: no results in it")
    lines = matrix_of(results, [case.id for case in load_cases([BUILT_IN])])
    return "\n".join([*lines, "", *skips_of(results), ""])


def with_matrix(document: str, text: str) -> str:
    """Return a document with a new table between its marks. Raises InputError without marks."""
    before, begin, rest = document.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise InputError(f"expected the marks {_BEGIN.strip()} and {_END.strip()}")
    return f"{before}{begin}\n{text}\n{end}{after}"


@click.command(cls=SuiteCommand)
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option(
    "--compare",
    "compares",
    is_flag=True,
    help="Compare two reports: the cases that pass in one of them only. The exit status is 1 if a "
    "case passes in the first and not in the second.",
)
@click.option(
    "-o",
    "--output",
    "outputs",
    metavar="FILE",
    multiple=True,
    type=FILE,
    help="Write to a file instead of printing; the suffix is the form: .md, .json, .html, .xml "
    "(JUnit). May be repeated. A comparison has the form .md only.",
)
@click.option(
    "--known-failures",
    metavar="FILE",
    type=FILE,
    help="Write the cases that failed to a list, the input of `run --known-failures`.",
)
def report(
    *,
    files: tuple[Path, ...],
    compares: bool,
    outputs: tuple[Path, ...],
    known_failures: Path | None,
) -> None:
    """Convert, merge or compare reports in JSON, the files of `run --report`.

    Several files are the shards of one run. They are printed in Markdown.
    """
    try:
        if compares:
            raise SystemExit(_compare(files, outputs))
        whole = merged([Report.from_file(file) for file in files])
        check_outputs(outputs, option="--output")
        for output in outputs:
            write_report(output, whole)
        if known_failures is not None:
            known_failures.write_text(whole.known_failures, encoding="utf-8")
    except OSError as error:
        raise BadInput(str(error)) from error
    if not outputs and known_failures is None:
        click.echo(report_in_markdown(whole), nl=False)


def _compare(files: tuple[Path, ...], outputs: tuple[Path, ...]) -> int:
    """Write the comparison of two reports, and return the exit status. Raises InputError."""
    if len(files) != 2:
        raise InputError(f"--compare: expected two files, got {len(files)}")
    if wrong := [output for output in outputs if output.suffix != ".md"]:
        raise InputError(f"--output: {wrong[0]}: a comparison has the form .md only")
    check_outputs(outputs, option="--output")
    comparison = compare(*(Report.from_file(file) for file in files))
    text = comparison_in_markdown(comparison)
    for output in outputs:
        output.write_text(text, encoding="utf-8")
    if not outputs:
        click.echo(text, nl=False)
    return 1 if comparison.worse else 0
