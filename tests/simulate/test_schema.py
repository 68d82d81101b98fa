"""The published schema of `kubesched-simulate -o json` is that of the types."""

import inspect
import json
from typing import Any

import msgspec

from scheduler.simulate.answers import Answer
from tests.simulate.what_if import ROOT, SCHEMA


def _json_schema() -> dict[str, Any]:
    _, definitions = msgspec.json.schema_components([Answer], ref_template="#/$defs/{name}")
    # Python has taken the indentation from docstrings since 3.13.
    for part in definitions.values():
        if "description" in part:
            part["description"] = inspect.cleandoc(part["description"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The output of kubesched-simulate -o json",
        "$ref": "#/$defs/Answer",
        "$defs": definitions,
    }


def test_the_published_schema_is_that_of_the_answer() -> None:
    """To write it anew: `python -m tests.simulate.test_schema`."""
    assert json.loads(json.dumps(_json_schema())) == SCHEMA


if __name__ == "__main__":
    path = ROOT / "docs" / "simulate.schema.json"
    path.write_text(json.dumps(_json_schema(), indent=2) + "\n", encoding="utf-8")
