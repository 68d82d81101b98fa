"""Go's text/template, with two functions of sprig, as KWOK's Stages use it.

    template = parse("phase: {{ .status.phase | Quote }}", functions.keys())
    template.render(data, functions)

`data` is decoded JSON with numbers as `numbered` returns them. Errors have Go's texts, and the
line. Source: text/template of Go 1.26, sprig v3.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.actors.templates.execution import Template
from fakeapi.actors.templates.functions import (
    BUILTINS,
    SPRIG,
    Function,
    FunctionError,
    function,
)
from fakeapi.actors.templates.parser import parse_templates
from fakeapi.actors.templates.values import TemplateError, numbered, to_json, unnumbered

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "Function",
    "FunctionError",
    "Template",
    "TemplateError",
    "function",
    "numbered",
    "parse",
    "to_json",
    "unnumbered",
]


def parse(text: str, names: Iterable[str]) -> Template:
    """Parse a template that may call Go's functions, sprig's two and `names`.

    Raises TemplateError.
    """
    return Template(parse_templates(text, frozenset([*BUILTINS, *SPRIG, *names])))
