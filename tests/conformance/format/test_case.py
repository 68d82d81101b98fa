"""Files of cases: the values they become, and the errors of invalid ones."""

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

from conformance.errors import InputError
from conformance.format import expectation, steps
from conformance.format.case import BUILT_IN, Case, load_cases
from conformance.format.expectation import pod_ref
from conformance.format.objects import NodeShorthand, PodShorthand
from conformance.format.validation import problem_in, schema

from ..cases import BOUND, write_cases


def _file(**case: object) -> str:
    """A file with one case; the fields given replace those of a good one."""
    good: dict[str, object] = {
        "name": "c",
        "source": "nowhere",
        "steps": [{"expect": {"pod": "p", "bound_to": "a"}}],
    }
    fields = {name: value for name, value in {**good, **case}.items() if value is not None}
    return yaml.safe_dump({"area": "tiny", "cases": [fields]})


def _step(**step: object) -> str:
    return _file(steps=[step])


BAD = [
    ("", "expected a file of scheduler conformance cases, got null"),
    ("area: tiny", "cases is missing"),
    ("area: tiny\ncases: []\n", "cases: expected at least one"),
    ("area: Two Words\ncases: [{}]", "area: expected lower-case words with hyphens"),
    ("area: tiny\ncases: [{}]", "case number 1: name is missing"),
    (_file(source=None), "case c: source is missing"),
    (_file(source=""), "case c: source: expected some text"),
    (_file(nmae="x"), "case c: unknown field nmae; did you mean name?"),
    (_file(cluster=[{"nod": {"name": "a"}}]), "cluster[0]: unknown field nod; did you mean node?"),
    (_file(cluster=[{"node": {"cpu": 4}}]), "cluster[0].node: name is missing"),
    (
        _file(cluster=[{"node": {"name": "a", "cpu": "four"}}]),
        'cluster[0].node.cpu: expected an amount such as 4, "500m" or "2Gi", got "four"',
    ),
    (
        _file(cluster=[{"node": {"name": "a", "taints": ["x"]}}]),
        "cluster[0]: taint x: expected key=value:Effect or key:Effect",
    ),
    (
        _file(cluster=[{"object": {"apiVersion": "v1", "kind": "Node", "metadata": {}}}]),
        "cluster[0]: expected an object with apiVersion, kind and metadata.name",
    ),
    (_file(steps=[]), "case c: steps: expected at least one"),
    (_step(advance="soon"), "steps[0].advance: expected a duration such as 90s, 5m or 1h30m"),
    (_step(advance=5), "steps[0].advance: expected a duration such as 90s, 5m or 1h30m, got 5"),
    (_step(zzz="5m"), "steps[0]: unknown field zzz; expected advance, answer, bind, clear"),
    (
        _step(advance="1s", bind={"pod": "p", "node": "a"}),
        "steps[0]: expected exactly one of advance, answer",
    ),
    (_step(bind={"pod": "p"}), "steps[0].bind: node is missing"),
    (
        _step(inject=[{"answer": {"code": 1}}]),
        "steps[0].inject: faults[0].answer: expected a code from 400 to 599, got 1",
    ),
    (_step(inject=[]), "steps[0].inject: expected at least one, got none"),
    (
        _step(expect={"fault": "f", "bound_to": "a"}),
        "expected injected, and nothing else, for a fault",
    ),
    (_step(expect={"pod": "p", "injected": 1}), "expected injected, and nothing else, for a fault"),
    (
        _step(delete={}),
        "steps[0].delete: expected exactly one of pod, pod_group, node, object, got 0",
    ),
    (
        _step(touch={"pod": "p", "node": "a"}),
        "expected exactly one of pod, pod_group, node, object, got 2",
    ),
    (
        _step(patch={"pod": "p", "patch": {}, "type": "apply"}),
        'steps[0].patch.type: expected "json" or "merge" or "strategic", got "apply"',
    ),
    (_step(wait_until_settled={"x": 1}), "steps[0].wait_until_settled: expected nothing"),
    (
        _step(expect={"bound_to": "a"}),
        "expected exactly one of pod, pods, pod_group, node, nodes, fault, extender, "
        "object, metric, got 0",
    ),
    (_step(expect={"pod": "p"}), "steps[0].expect: nothing is expected"),
    (
        _step(expect={"pod": "p", "bound": "a"}),
        "steps[0].expect: unknown field bound; did you mean bound_to?",
    ),
    (_step(expect={"pod": "p", "not_bound": False}), "not_bound: expected true (leave it out"),
    (
        _step(expect={"pod": "p", "bound_count": 1}),
        "steps[0].expect: expected bound_count only with pods",
    ),
    (
        _step(expect={"pod_group": "g", "bound_to": "a"}),
        "expected only condition, deleted, event, has, no_condition, no_event of pod_group",
    ),
    (
        _step(expect={"metric": "m", "labels": {"a": "b"}}),
        "expected value, perhaps labels, and nothing else, for a metric",
    ),
    (
        _step(expect={"metric": "m", "value": 1, "attempts": 1}),
        "expected value, perhaps labels, and nothing else, for a metric",
    ),
    (_step(restart={"x": 1}), "steps[0].restart: expected nothing"),
    (_step(start="first"), "steps[0].start: the scheduler first runs already"),
    (_step(stop="second"), "steps[0]: no scheduler second runs, those that run: first"),
    (
        _file(steps=[{"stop": "first"}, {"restart": None}]),
        "steps[1]: no scheduler first runs, those that run: none",
    ),
    (
        _file(steps=[{"start": "second"}, {"expect": {"metric": "m", "value": 1}}]),
        "steps[0].start: a case with several schedulers cannot read metrics",
    ),
    (
        _step(expect={"pod": "p", "pod_count": 1}),
        "steps[0].expect: expected pod_count only with node",
    ),
    (
        _step(expect={"node": "a", "bound_to": "b"}),
        "expected pod_count, and nothing else, of a nod",
    ),
    (
        _step(expect={"extender": "e", "bound_to": "a"}),
        "expected calls, received, and nothing else, for an extender",
    ),
    (
        _step(expect={"extender": "e", "calls": {"filter": 1}}),
        "steps[0]: expected the name of an extender, got e",
    ),
    (
        _file(
            extenders=[{"name": "e", "config": {}}, {"name": "e", "config": {}}],
            steps=[{"restart": None}],
        ),
        "extenders: expected different names",
    ),
    (
        _file(
            extenders=[{"name": "e", "config": {}, "answers": {"filter": {"delay": "soon"}}}],
            steps=[{"restart": None}],
        ),
        "delay",
    ),
    ("a: 1", "expected a file of scheduler conformance cases, it has neither area nor cases"),
    (
        _step(expect={"nodes": "no_overcommit", "phase": "Pending"}),
        "steps[0].expect: nothing else goes with nodes, got phase",
    ),
    (
        _step(expect={"pod": "p", "condition": {"type": "Ready", "status": True}}),
        'condition.status: expected "True", "False" or "Unknown", in quotes, got true',
    ),
    (
        _step(expect={"pod": "p", "attempts": "many"}),
        "attempts: expected a number, or bounds: {at_least: 1, at_most: 3}",
    ),
    (
        _step(repeat={"times": 2, "steps": [{"touch": {}}]}),
        "steps[0].repeat.steps[0].touch: expected exactly one of pod, pod_group, node, object",
    ),
    ("area: tiny\narea: twice\ncases: [{}]", "line 2: the key area is given twice"),
    ("area: [", "while parsing a flow node"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message for _, message in BAD])
def test_a_bad_file_is_one_line_that_names_file_case_and_field(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        write_cases(tmp_path, text)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'cases.yaml'}: ")
    assert "\n" not in str(caught.value)
    assert "<byte string>" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.yaml: No such file"):
        load_cases([tmp_path / "nothing.yaml"])


def test_a_directory_without_cases_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \.yaml file"):
        load_cases([tmp_path])


def test_two_cases_of_one_area_cannot_share_a_name(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(BOUND, encoding="utf-8")
    with pytest.raises(InputError, match=r"b\.yaml: case bound: .* in .*a\.yaml"):
        load_cases([tmp_path])


def test_no_is_a_text_and_true_is_not(tmp_path: Path) -> None:
    (case,) = write_cases(
        tmp_path,
        """
        area: tiny
        cases:
        - name: words
          source: nowhere
          cluster: [node: {name: a, labels: {no: off, y: n}, unschedulable: true}]
          steps: [wait_until_settled: ]
        """,
    )
    node = case.cluster[0].node
    assert node is not None
    assert node.labels == {"no": "off", "y": "n"}
    assert node.unschedulable is True


def test_time_is_added_up_over_repetitions(tmp_path: Path) -> None:
    (case,) = write_cases(
        tmp_path,
        """
        area: tiny
        cases:
        - name: long
          source: nowhere
          steps:
          - advance: 1s
          - repeat:
              times: 3
              steps: [{advance: 2m}, {repeat: {times: 2, steps: [{advance: 10s}]}}]
        """,
    )
    assert case.seconds == 1 + 3 * (120 + 2 * 10)
    assert case.steps[1].steps[1].where == "steps[1].repeat.steps[1]"


@pytest.mark.parametrize(
    ("name", "namespace", "short"), [("web", "default", "web"), ("team/web", "team", "web")]
)
def test_pods_are_named_with_or_without_namespace(name: str, namespace: str, short: str) -> None:
    ref = pod_ref(name)
    assert (ref.namespace, ref.name) == (namespace, short)


#: Parts of the schema, and the type that each becomes.
TWINS = {
    "expectation": expectation.Expectation,
    "event": expectation.EventMatch,
    "objectName": expectation.ObjectName,
}


@pytest.mark.parametrize("part", TWINS)
def test_the_published_schema_and_the_types_agree(part: str) -> None:
    definitions = schema()["$defs"]
    assert isinstance(definitions, dict)
    fields = {field.encode_name for field in msgspec.structs.fields(TWINS[part])}
    assert set(definitions[part]["properties"]) == fields


@pytest.mark.parametrize("kind", ["node", "pod"])
def test_the_published_schema_and_the_short_forms_agree(kind: str) -> None:
    definitions = schema()["$defs"]
    assert isinstance(definitions, dict)
    twin = NodeShorthand if kind == "node" else PodShorthand
    assert set(definitions[kind]["properties"]) == set(twin.__struct_fields__)


def test_every_step_of_the_schema_can_be_carried_out() -> None:
    definitions = schema()["$defs"]
    assert isinstance(definitions, dict)
    known = {*steps._ACTIONS, *steps._MADE_BY_HAND}
    assert set(definitions["step"]["properties"]) == known


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert problem_in(json.loads('{"area": "a", "cases": "none"}')) is not None


@pytest.fixture(scope="module")
def built_in() -> list[Case]:
    return load_cases([BUILT_IN])


def test_there_are_enough_good_cases(built_in: list[Case]) -> None:
    assert len(built_in) >= 60
    assert {case.area for case in built_in} >= {
        "binding", "config", "events", "filter", "gates", "queue", "score", "status",
    }  # fmt: skip


def test_a_case_lives_in_the_folder_of_its_area(built_in: list[Case]) -> None:
    assert not [case.id for case in built_in if Path(case.origin).parent.name != case.area]


def test_every_case_has_a_source(built_in: list[Case]) -> None:
    marks = (".go", "https://kubernetes.io/", "KEP-", "docs/flow.md", "docs/queues.md")
    assert not [case.id for case in built_in if not any(mark in case.source for mark in marks)]
