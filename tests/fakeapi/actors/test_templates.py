"""Templates and queries of Stages have the results of Go's text/template and gojq.

`actor_templates.json` and `actor_queries.json` were recorded from Go 1.26, sprig v3.3.0 and gojq
v0.12.20: an output, or an error with the part of its message that is the same here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from fakeapi.actors.stages.functions import _quote
from fakeapi.actors.stages.selection import JqQuery, QueryError
from fakeapi.actors.templates import TemplateError, function, numbered, parse

_HERE: Final = Path(__file__).parent
_TEMPLATES: Final = json.loads((_HERE / "actor_templates.json").read_text(encoding="utf-8"))
_QUERIES: Final = json.loads((_HERE / "actor_queries.json").read_text(encoding="utf-8"))


def rendered(template: str, data: object = None) -> str:
    """Render a template with KWOK's Quote, and upper and lower for the rules of calls."""

    def upper(value: str) -> str:
        return value.upper()

    def lower(value: str) -> str:
        return value.lower()

    calls = {"Quote": _quote, "upper": upper, "lower": lower}
    functions = {name: function(name, call) for name, call in calls.items()}
    return parse(template, functions).render(numbered(data), functions)


@pytest.mark.parametrize("case", _TEMPLATES["cases"], ids=lambda case: case["template"][:40])
def test_a_template_has_the_output_of_go(case: dict[str, Any]) -> None:
    data = _TEMPLATES["data"]
    if "out" in case:
        assert rendered(case["template"], data) == case["out"]
        return
    with pytest.raises(TemplateError) as caught:
        rendered(case["template"], data)
    assert case.get("error", case.get("parse_error")) in caught.value.message


@pytest.mark.parametrize("case", _QUERIES["cases"], ids=lambda case: case["query"][:40])
def test_a_query_has_the_results_of_gojq(case: dict[str, Any]) -> None:
    if case.get("is_wrong"):
        with pytest.raises(QueryError):
            JqQuery(case["query"])
        return
    found = JqQuery(case["query"])(_QUERIES["data"])
    wanted = [] if case.get("fails") else [one for one in case["results"] if one is not None]
    assert found == wanted


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("a\n{{ foo }}", 2),
        ("{{/* a\nb */}}\n{{ .a.b }}", 3),
        ("{{ if\n .a\n}}\n{{ .a.b }}{{ end }}", 4),
    ],
)
def test_an_error_names_its_line(template: str, line: int) -> None:
    with pytest.raises(TemplateError) as caught:
        rendered(template, {"a": "x"})
    assert caught.value.line == line


def test_other_functions_of_sprig_are_refused_by_name() -> None:
    with pytest.raises(TemplateError, match=r'"trunc" not defined .*except default and dict'):
        rendered("{{ trunc 3 .a }}")


def test_a_query_that_is_not_jq_is_refused() -> None:
    with pytest.raises(QueryError, match="foo/1 is not defined"):
        JqQuery("foo(.a)")


def test_without_the_package_jq_a_query_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jq", None)
    with pytest.raises(QueryError, match=r"pip install 'kubesched\[kwok\]'"):
        JqQuery(".a")


@pytest.mark.parametrize(
    "template",
    [
        "{{ range 1000000 }}{{ range 1000000 }}x{{ end }}{{ end }}",
        '{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}',
    ],
)
def test_a_template_that_would_never_end_gives_up(template: str) -> None:
    with pytest.raises(TemplateError):
        rendered(template)
