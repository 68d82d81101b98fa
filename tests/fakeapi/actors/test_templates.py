"""Templates and queries of Stages say what Go's text/template with sprig and gojq say.

`actor_templates.json` and `actor_queries.json` hold what Go 1.26, sprig v3.3.0 and gojq v0.12.20
made of them: an output, or an error with the part of its message that is the same here.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Final

import pytest

from fakeapi import ManualClock
from fakeapi.actors.stages import jq
from fakeapi.actors.stages.functions import _quote
from fakeapi.actors.templates import TemplateError, function, numbered, parse, sprig_functions

_HERE: Final = Path(__file__).parent
_TEMPLATES: Final = json.loads((_HERE / "actor_templates.json").read_text(encoding="utf-8"))
_QUERIES: Final = json.loads((_HERE / "actor_queries.json").read_text(encoding="utf-8"))


def rendered(template: str, data: object = None) -> str:
    """What a template makes of the data, with KWOK's Quote."""
    functions = sprig_functions(ManualClock(), random.Random(0))
    functions["Quote"] = function("Quote", _quote)
    return parse(template, functions).render(numbered(data), functions)


@pytest.mark.parametrize("case", _TEMPLATES["cases"], ids=lambda case: case["template"][:40])
def test_a_template_says_what_go_says(case: dict[str, Any]) -> None:
    data = json.loads(json.dumps(_TEMPLATES["data"]))  # `set` and `merge` change it
    if "out" in case:
        assert rendered(case["template"], data) == case["out"]
        return
    with pytest.raises(TemplateError) as caught:
        rendered(case["template"], data)
    assert case.get("error", case.get("parse_error")) in caught.value.message


@pytest.mark.parametrize("case", _QUERIES["cases"], ids=lambda case: case["query"][:40])
def test_a_query_finds_what_gojq_finds(case: dict[str, Any]) -> None:
    if case.get("is_wrong"):
        with pytest.raises(jq.JqError):
            jq.Query(case["query"])
        return
    query = jq.Query(case["query"])
    if case.get("fails"):
        with pytest.raises(jq.JqError):
            query(_QUERIES["data"])
    else:
        assert query(_QUERIES["data"]) == case["results"]


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


def test_what_sprig_has_and_we_have_not_is_refused_with_the_reason() -> None:
    with pytest.raises(TemplateError, match='"genCA" is not supported: keys and certificates'):
        rendered('{{ genCA "x" 1 }}')
    with pytest.raises(TemplateError, match='"env" is not supported: templates do not look'):
        rendered('{{ env "HOME" }}')


def test_a_query_that_is_not_jq_is_refused() -> None:
    with pytest.raises(jq.JqError, match="foo/1 is not defined"):
        jq.Query("foo(.a)")


@pytest.mark.parametrize(
    "template",
    [
        "{{ range 1000000 }}{{ range 1000000 }}x{{ end }}{{ end }}",
        '{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}',
        '{{ repeat 1000000000 "x" }}',
    ],
)
def test_a_template_that_would_never_end_gives_up(template: str) -> None:
    with pytest.raises(TemplateError):
        rendered(template)


def test_times_and_chance_are_the_servers() -> None:
    clock = ManualClock(1_000_000_000)
    functions = sprig_functions(clock, random.Random(1))
    template = parse('{{ now | date "2006-01-02 15:04:05" }} {{ now | unixEpoch }}', functions)
    assert template.render(None, functions) == "2001-09-09 01:46:40 1000000000"
    clock.advance(60)
    assert template.render(None, functions).endswith("1000000060")
    chosen = parse("{{ uuidv4 }} {{ randAlphaNum 5 }} {{ randInt 1 3 }}", functions)
    again = sprig_functions(clock, random.Random(1))
    assert chosen.render(None, functions) == chosen.render(None, again)
