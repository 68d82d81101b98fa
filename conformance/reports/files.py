"""Write a report to a file in the form that its suffix names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import InputError
from .html import report_in_html
from .junit import write_junit
from .markdown import report_in_markdown
from .results import RESULTS, results_in

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .report import Report

SUFFIXES: Final = (".json", ".md", ".html", ".xml")


def check_outputs(paths: Iterable[Path], *, option: str) -> None:
    """Raise InputError if a form is unknown or a file cannot be written."""
    for path in paths:
        if path.suffix not in SUFFIXES:
            forms = ", ".join(SUFFIXES)
            raise InputError(f"{option}: {path}: expected a suffix of {forms}")
        check_writable(path, option=option)


def check_writable(path: Path, *, option: str) -> None:
    """Raise InputError if a file cannot be written."""
    try:
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise InputError(f"{option}: {path}: {error.strerror or error}") from error


def write_report(path: Path, report: Report) -> None:
    """Write a report in the form of the suffix. Raises OSError."""
    if path.suffix == ".xml":
        write_junit(path, report.outcomes)
    elif path.suffix == ".html":
        path.write_text(report_in_html(report, results_in(RESULTS)), encoding="utf-8")
    elif path.suffix == ".md":
        path.write_text(report_in_markdown(report), encoding="utf-8")
    else:
        path.write_bytes(report.to_json())
