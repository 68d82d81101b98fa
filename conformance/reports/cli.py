"""The command `kubesched-conformance matrix`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from ..errors import InputError
from ..format.case import BUILT_IN, load_cases
from .results import Results, matrix_of, skipped_by_reason

#: The results of the suite's own cases, a file for each version of a scheduler.
RESULTS: Final = Path(__file__).parent.parent / "results"
_BEGIN: Final = "<!-- matrix -->\n"
_END: Final = "<!-- /matrix -->\n"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--results",
    "folder",
    metavar="DIR",
    default=RESULTS,
    type=click.Path(path_type=Path),
    help="The files that `run --results` has written; by default the suite's own.",
)
@click.option(
    "--into",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"Replace the table between {_BEGIN.strip()} and {_END.strip()} in a file.",
)
@click.option("--check", is_flag=True, help="With --into: change nothing, fail if it is not fresh.")
def matrix(*, folder: Path, into: Path | None, check: bool) -> None:
    """Print a table of the results of all versions, in Markdown."""
    try:
        text = matrix_text(folder)
        if into is None:
            click.echo(text, nl=False)
            return
        before = into.read_text(encoding="utf-8")
        after = with_matrix(before, text)
    except (InputError, OSError) as error:
        click.echo(f"kubesched-conformance: {error}", err=True)
        raise SystemExit(2) from error
    if check and after != before:
        click.echo(f"{into}: the table is not that of {folder}", err=True)
        raise SystemExit(1)
    if not check:
        into.write_text(after, encoding="utf-8")


def matrix_text(folder: Path) -> str:
    """Return the table and the reasons of skipped cases. Raises InputError."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise InputError(f"{folder}: no results in it")
    results = [Results.from_file(file) for file in files]
    results.sort(key=lambda each: (each.scheduler, [int(part) for part in each.version.split(".")]))
    lines = matrix_of(results, [case.id for case in load_cases([BUILT_IN])])
    for each in results:
        reasons = skipped_by_reason(each).items()
        told = ", ".join(f"{count}: {reason}" for reason, count in reasons)
        lines += ["", f"Skipped on {each.title}: {told or 'none'}."]
    return "\n".join([*lines, ""])


def with_matrix(document: str, text: str) -> str:
    """Return a document with a new table between its marks. Raises InputError without marks."""
    before, begin, rest = document.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise InputError(f"expected the marks {_BEGIN.strip()} and {_END.strip()}")
    return f"{before}{begin}\n{text}\n{end}{after}"
