"""Rows of all kinds but pods, of the cases in rows.yaml."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fakeapi.kinds.built_in import BUILT_IN
from fakeapi.printing.tables import columns_of, row

Json = dict[str, Any]
NOW_SECONDS = 1000.0
METADATA = {"name": "x", "creationTimestamp": "1970-01-01T00:00:00Z"}
CASES = yaml.safe_load(Path(__file__).with_name("rows.yaml").read_text(encoding="utf-8"))


def named(case: Json) -> str:
    """Return the resource of a case."""
    return str(case["resource"])


@pytest.mark.parametrize("case", CASES, ids=named)
def test_an_object_has_the_cells_of_upstream(case: Json) -> None:
    plural, _, group = named(case).partition(".")
    kind = next(k for k in BUILT_IN if (k.group, k.plural) == (group, plural))
    obj = case.get("object", {})
    made = {**obj, "metadata": {**METADATA, **obj.get("metadata", {})}}
    assert row(kind, columns_of(kind), made, NOW_SECONDS)["cells"] == case["cells"]


def test_every_kind_makes_a_row_of_an_empty_object() -> None:
    """A bookmark in a watch of tables is such an object."""
    for kind in BUILT_IN:
        assert row(kind, columns_of(kind), {"metadata": {}}, NOW_SECONDS)["cells"], kind.kind
