"""Go's text/template with sprig's functions, as KWOK's Stages use them.

    template = parse("phase: {{ .status.phase | quote }}", functions.keys())
    template.render(data, functions)

`data` is decoded JSON with numbers as `numbered` makes them; `functions` are called when it is
rendered. What Go's package refuses is refused in its words, with the line. Source: text/template of
Go 1.26, sprig v3.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.actors.templates.builtins import BUILTINS
from fakeapi.actors.templates.execution import Template
from fakeapi.actors.templates.functions import Function, FunctionError, function
from fakeapi.actors.templates.parser import parse_templates
from fakeapi.actors.templates.sprig import NOT_OFFERED, sprig_functions
from fakeapi.actors.templates.values import TemplateError, numbered

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
    "sprig_functions",
]


def parse(text: str, names: Iterable[str]) -> Template:
    """A template whose functions are Go's own and those of these names. Raises TemplateError."""
    return Template(parse_templates(text, frozenset([*BUILTINS, *names]), NOT_OFFERED))
