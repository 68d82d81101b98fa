"""Faults as files: valid ones, the errors of others, and the published schema."""

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from fakeapi.faults import FaultError, faults_of, read_faults, schema
from fakeapi.faults.files import to_builtins
from fakeapi.faults.model import REQUEST_EFFECTS, SERVER_EFFECTS, WATCH_EFFECTS, Fault

EVERY_EFFECT: dict[str, Any] = {
    "delay": {"seconds": [0.5, 2]},
    "answer": {"code": 429, "retry_after_seconds": 1, "after_write": True},
    "reset": {"after_write": True, "close": True},
    "garble": {"how": "not_json"},
    "stale": {"changes": 3},
    "expire": {"as_answer": True},
    "refuse_watch_list": {},
    "observe": {},
    "stall": {"seconds": 20},
    "cut": {"how": "error", "code": 503, "after_event": True},
    "duplicate": {},
    "lose": {},
    "outdated": {},
    "retype": {},
    "strip": {},
    "drop_watches": {"how": "expired"},
    "outage": {"seconds": 5},
    "restart": {"seconds": 1, "compact": True, "lost_versions": 4},
    "compact": {},
}


@pytest.mark.parametrize("effect", EVERY_EFFECT)
def test_every_effect_can_be_written_down_and_read_again(tmp_path: Path, effect: str) -> None:
    fault = {"name": "it", effect: EVERY_EFFECT[effect]}
    document = {"seed": 1, "faults": [fault]}
    jsonschema.Draft202012Validator(schema()).validate(document)
    file = tmp_path / "faults.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    (found,) = read_faults(file).faults
    assert found.kind == effect
    assert faults_of(to_builtins([found])).faults == [found]


def test_the_example_of_the_readme_can_be_read(tmp_path: Path) -> None:
    text = resources.files("fakeapi.faults").joinpath("README.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert example is not None
    (tmp_path / "faults.yaml").write_text(example[1], encoding="utf-8")
    kinds = [fault.kind for fault in read_faults(tmp_path / "faults.yaml").faults]
    assert kinds == ["reset", "answer", "cut", "outage"]
    assert all(f"`{effect}: {{" in text for effect in EVERY_EFFECT)


def test_no_effect_is_forgotten() -> None:
    assert set(EVERY_EFFECT) == {*REQUEST_EFFECTS, *WATCH_EFFECTS, *SERVER_EFFECTS}
    assert set(EVERY_EFFECT) < set(Fault.__struct_fields__)


def test_the_published_schema_is_that_of_the_types() -> None:
    text = resources.files("fakeapi.faults").joinpath("schema.json").read_text(encoding="utf-8")
    assert json.loads(text) == schema()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"answr": {"code": 500}}, "faults[0]: unknown field answr; did you mean answer?"),
        ({"reset": {}, "after_write": True}, "faults[0]: unknown field after_write here"),
        ({}, "faults[0]: expected exactly one of delay, answer,"),
        (
            {"answer": {"code": 500}, "reset": {}},
            "got answer, reset",
        ),
        ({"answer": {}}, "faults[0].answer: code is missing"),
        ({"answer": {"code": "no"}}, "faults[0].answer.code: expected a whole number, got a text"),
        ({"answer": {"code": 200}}, "faults[0].answer: expected a code from 400 to 599, got 200"),
        (
            {"answer": {"code": 500, "retry_after_seconds": -1}},
            "faults[0].answer: expected retry_after_seconds to be 0 or more, got -1",
        ),
        (
            {"answer": {"code": 500, "too_large_resource_version": True}},
            "too_large_resource_version goes with code 504",
        ),
        ({"delay": {"seconds": [2, 1]}}, "expected seconds to be a number, or [least, most]"),
        ({"delay": {"seconds": -1}}, "expected seconds to be a number of seconds, got -1"),
        ({"garble": {"how": "x"}}, "expected how to be one of truncated, not_json, empty; got 'x'"),
        ({"cut": {"how": "x"}}, "faults[0].cut: expected how to be one of eof,"),
        ({"cut": {"how": "truncate", "after_event": True}}, "exclude each other"),
        ({"drop_watches": {"how": "truncate"}}, "there is no event to truncate: use cut"),
        ({"stale": {"changes": 0}}, "expected changes to be 1 or more, got 0"),
        (
            {"match": {"verb": "bind"}, "observe": {}},
            "faults[0].match: expected verb to be one of get, list,",
        ),
        ({"match": {"event": "GONE"}, "observe": {}}, "expected event to be one of ADDED,"),
        (
            {"match": {"path": "/x", "resource": "pods"}, "observe": {}},
            "path and resource exclude each other",
        ),
        ({"match": {"event": "ADDED"}, "reset": {}}, "reset is of requests"),
        ({"match": {"verb": "list"}, "lose": {}}, "lose is of watches"),
        (
            {"match": {"verb": ["list", "get"]}, "stale": {}},
            "faults[0]: stale is of lists and watch-lists: match.verb can only be list, watch",
        ),
        (
            {"match": {"verb": "create"}, "expire": {}},
            "expire is of lists and watches: match.verb can only be list, watch",
        ),
        (
            {"match": {"verb": "list"}, "refuse_watch_list": {}},
            "refuse_watch_list is of watch-lists: match.verb can only be watch",
        ),
        (
            {"match": {"initial_events": False}, "refuse_watch_list": {}},
            "refuse_watch_list is of watch-lists: match.initial_events can only be true",
        ),
        (
            {"match": {"verb": "watch"}, "garble": {}},
            "garble is of answers that end: match.verb can only be get, list, create,",
        ),
        (
            {"match": {"verb": "get"}, "drop_watches": {}},
            "drop_watches is of watches: match.verb can only be watch",
        ),
        (
            {"match": {"verb": "list", "event": "ADDED"}, "observe": {}},
            "observe is of watches: match.verb can only be watch",
        ),
        ({"match": {"verb": "list"}, "outage": {}}, "outage is of the whole server"),
        ({"when": {"nth": 1}, "outage": {}}, "outage happens once"),
        ({"when": {"nth": 0}, "observe": {}}, "faults[0].when: nth counts from 1"),
        ({"when": {"skip": -1}, "observe": {}}, "expected skip to be 0 or more"),
        ({"when": {"times": 0}, "observe": {}}, "expected times to be 1 or more"),
        ({"when": {"probability": 2}, "observe": {}}, "expected a probability from 0 to 1, got 2"),
        (
            {"when": {"from_seconds": 2, "until_seconds": 1}, "observe": {}},
            "until_seconds must be after from_seconds",
        ),
        ({"name": "A b", "observe": {}}, "expected a name in lower case without spaces"),
        ("x", "faults[0]: expected a mapping, got a text"),
    ],
)
def test_an_error_is_one_line_that_names_the_field(
    tmp_path: Path, fault: object, message: str
) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(yaml.safe_dump({"faults": [fault]}), encoding="utf-8")
    with pytest.raises(FaultError) as error:
        read_faults(file)
    text = str(error.value)
    assert text.startswith(f"{file}: ")
    assert message in text
    assert "\n" not in text


def test_two_faults_of_a_file_have_two_names() -> None:
    with pytest.raises(FaultError, match="two faults are called a"):
        faults_of([{"name": "a", "observe": {}}, {"name": "a", "reset": {}}])


@pytest.mark.parametrize(
    ("text", "message"),
    [("faults: [", "while parsing"), ("{}", "faults is missing"), ("3", "expected a mapping")],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(FaultError, match=message):
        read_faults(file)
    with pytest.raises(FaultError, match="No such file"):
        read_faults(tmp_path / "none.yaml")
