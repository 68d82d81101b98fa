"""Random schemas, values and definitions, compared with kube-apiserver's own packages.

Recorded by crd_oracle/. Of values every message is compared, of definitions fields and reasons: our
rules for definitions are a part of upstream's.
"""

import copy
import functools
import gzip
import json
from typing import Any

import pytest

from fakeapi import validation
from fakeapi.crds import definitions, pruning
from fakeapi.crds.rules import with_definition_rules
from fakeapi.crds.schema_validation import Correlated, validate
from fakeapi.crds.values import validate_lists
from fakeapi.kinds.built_in import BUILT_IN
from fakeapi.types import schema
from fakeapi.types.objects import same_json

from ..crd_oracle.record import RECORDED

pytest.importorskip("re2", reason="needs the extra cel")
Json = dict[str, Any]
(KIND,) = (
    kind for kind in with_definition_rules(BUILT_IN) if kind.plural == "customresourcedefinitions"
)


@functools.cache
def recorded() -> list[Json]:
    text = gzip.decompress(RECORDED.read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


#: Formats of upstream that this server does not know.
NOT_KNOWN = ("bsonobjectid", "creditcard", "hexcolor", "isbn", "rgbcolor", "ssn")


def test_there_is_something_to_compare() -> None:
    assert sum("CRD" in case["asked"] for case in recorded()) > 250
    assert sum("Old" in case["asked"] for case in recorded()) > 200


def test_values_are_pruned_completed_and_validated_as_upstream_does() -> None:
    for case in recorded():
        asked, answered = case["asked"], case["answered"]
        if "CRD" in asked or any(f"'format': '{name}'" in str(asked) for name in NOT_KNOWN):
            continue
        node, value = asked["Schema"], copy.deepcopy(asked["Value"])
        pruning.drop_nulls(value, node)
        pruning.fill_defaults(value, node)
        dropped: list[str] = []
        pruning.prune(value, pruning.as_root(node), dropped)
        assert same_json(value, answered["value"]), asked
        assert sorted(dropped) == (answered["pruned"] or []), asked
        old = Correlated(asked["Old"], node) if "Old" in asked else None
        errors = validate(node, value, old) + validate_lists(value, node)
        found = sorted(f"{error.field}|{error.reason}|{error.message}" for error in errors)
        assert found == answered["errors"], asked


def said(lines: list[str]) -> set[str]:
    """Field, reason and message of each error; RE2 has its own words for a bad pattern."""
    return {line.partition("error parsing regexp: ")[0] for line in lines}


def test_errors_of_definitions_are_upstreams() -> None:
    for case in recorded():
        if "CRD" not in case["asked"]:
            continue
        given = case["asked"]["CRD"]
        definition = schema.decode(KIND.schema, given)
        definitions.apply_defaults(definition)
        errors = validation.validate_create(KIND, definition)
        ours = said([f"{error.field}|{error.reason}|{error.message}" for error in errors])
        theirs = said(case["answered"]["crd"])
        assert ours <= theirs, (ours - theirs, json.dumps(given))
        assert bool(ours) == bool(theirs), json.dumps(given)


@pytest.mark.parametrize("name", ["spec.validation", "spec.subresources", "spec.names", "metadata"])
def test_the_recorded_definitions_reach_far(name: str) -> None:
    lines = [line for case in recorded() for line in case["answered"].get("crd", [])]
    assert any(line.startswith(name) for line in lines)
