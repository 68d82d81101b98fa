"""A report as one page of HTML that loads nothing else, with search and filters.

All cases and texts are in the page itself; the script only hides cases that do not match.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ..outcome import Verdict
from .results import by_area

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Template

    from .report import Report
    from .results import Results

_FILES: Final = Path(__file__).parent


def report_in_html(report: Report, results: Sequence[Results] = ()) -> str:
    """Return the page, with the results of other schedulers and versions beside the report's."""
    style, script = _text("page.css"), _text("page.js")
    outcomes = report.outcomes
    return _template().render(
        report=report,
        verdicts=[verdict.value for verdict in Verdict],
        counts=[
            (title, groups)
            for title, groups in (
                ("level", report.by_level),
                ("feature", report.by_feature),
                ("aspect", report.by_aspect),
                ("area", report.by_area),
            )
            if groups
        ],
        filters=[
            ("verdict", [verdict.value for verdict in Verdict]),
            ("area", sorted({outcome.area for outcome in outcomes})),
            ("level", sorted({outcome.level.value for outcome in outcomes})),
            ("feature", sorted({outcome.feature for outcome in outcomes} - {""})),
        ],
        results=results,
        areas=by_area(outcome.id for outcome in outcomes),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


@functools.cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_FILES), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("page.html")


@functools.cache
def _text(name: str) -> Markup:
    text = (_FILES / name).read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704 - a file of this package


def _hash(text: str) -> str:
    """Return the hash by which the page's content security policy allows an inline element."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
