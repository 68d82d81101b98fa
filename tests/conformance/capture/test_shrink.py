"""A smaller case with the same outcome."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from conformance.api import Json
from conformance.capture.cli import shrink
from conformance.capture.shrink import Limits, Shrunk, interest_in, shrunk
from conformance.errors import InputError
from conformance.format.case import load_cases
from conformance.lint.checks import findings_in_cases
from conformance.outcome import Verdict
from conformance.targets import target_kind
from conformance.targets.target import TargetOptions

from .. import schedulers
from ..cases import in_process, run_one, write_cases

LIMITS = Limits(attempts_max=400, seconds_max=120.0)
#: A failure: the wrong scheduler puts `web` on a node that is full.
FAILING = """
area: wrong
cases:
- name: overcommit
  source: nowhere
  description: The node is full.
  cluster:
  - {node: {name: a, cpu: 1, labels: {disk: ssd}}}
  - {node: {name: b, count: 6}}
  - {pod: {name: idle, count: 5, node: b-1}}
  - {object: {apiVersion: v1, kind: Namespace, metadata: {name: other}}}
  steps:
  - create: [pod: {name: first, cpu: 1, labels: {app: web}}, pod: {name: other}]
  - wait_until_settled:
  - create: [pod: {name: web, cpu: 1}]
  - advance: 5s
  - expect: {pod: web, bound_to_one_of: [b-0, b-1, b-2]}
  - create: [pod: {name: late}]
"""
#: A verdict: 8 nodes are full, 4 have a taint.
PASSING = """
area: fine
cases:
- name: unschedulable
  source: nowhere
  cluster:
  - {node: {name: full, count: 8, cpu: 1}}
  - {node: {name: tainted, count: 4, taints: ["team=db:NoSchedule"], labels: {zone: z1}}}
  - {pod: {name: other, count: 3, node: full-0}}
  steps:
  - create: [pod: {name: web, cpu: 2, labels: {app: web}}]
  - expect:
      pod: web
      unschedulable:
        message_prefix: "0/12 nodes are available: 4 node(s) had untolerated taint(s), 8 Insufficient cpu."
"""  # noqa: E501


def _shrunk(tmp_path: Path, text: str, options: TargetOptions, limits: Limits = LIMITS) -> Shrunk:
    (case,) = write_cases(tmp_path, text)
    return shrunk(interest_in(case.raw, case.area, target_kind(options), seed=0), limits)


def _nodes(raw: Json) -> list[str]:
    return [entry["node"]["name"] for entry in raw["cluster"] if "node" in entry]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_failing_case_keeps_its_failure_and_little_else(tmp_path: Path) -> None:
    found = _shrunk(tmp_path, FAILING, in_process(schedulers.binds_all_to_a))
    assert found.raw["steps"] == [
        {"create": [{"pod": {"name": "web"}}]},
        {"expect": {"pod": "web", "bound_to_one_of": ["b-0", "b-1", "b-2"]}},
    ]
    # The nodes of the expectation stay: `lint` finds names that nothing makes.
    assert found.raw["cluster"] == [{"node": {"name": "b", "count": 3}}]
    assert found.raw["description"] == "The node is full."
    assert found.summary.startswith("2 of 7 objects, 2 of 5 steps")


@pytest.mark.slow
def test_a_passing_case_keeps_the_reasons_of_its_message(tmp_path: Path) -> None:
    found = _shrunk(tmp_path, PASSING, TargetOptions())
    assert sorted(_nodes(found.raw)) == ["full", "tainted"]
    expected = found.raw["steps"][-1]["expect"]["unschedulable"]  # type: ignore[index]
    message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    assert expected == {"message_prefix": message}


@pytest.mark.slow
def test_a_bound_pod_keeps_a_rival_of_its_node(tmp_path: Path) -> None:
    text = """
        area: fine
        cases:
        - name: bound
          source: nowhere
          cluster:
          - {node: {name: busy, count: 3}}
          - {node: {name: free}}
          - {pod: {name: p-0, node: busy-0, cpu: 2}}
          - {pod: {name: p-1, node: busy-1, cpu: 2}}
          - {pod: {name: p-2, node: busy-2, cpu: 2}}
          steps:
          - create: [pod: {name: web, cpu: 1}]
          - expect: {pod: web, bound_to: free}
        """
    found = _shrunk(tmp_path, text, TargetOptions())
    assert len(_nodes(found.raw)) == 2
    assert found.raw["steps"][-1] == {"expect": {"pod": "web", "bound_to": "free"}}  # type: ignore[index]


def test_the_limit_of_attempts_ends_the_search(tmp_path: Path) -> None:
    found = _shrunk(tmp_path, FAILING, in_process(schedulers.binds_all_to_a), Limits(3, 60.0))
    assert found.summary.endswith("3 attempts, stopped at the limit of attempts")


@pytest.mark.slow
def test_a_large_cluster_takes_few_attempts(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, PASSING)
    nodes: list[Json] = [
        {"node": {"name": f"n{number}", "labels": {"rack": f"r{number % 7}"}, "cpu": 1}}
        for number in range(75)
    ]
    pods: list[Json] = [
        {"pod": {"name": f"p{number}", "node": f"n{number % 75}", "labels": {"app": "x"}}}
        for number in range(150)
    ]
    tainted: Json = {"node": {"name": "last", "taints": ["team=db:NoSchedule"]}}
    head = "0/76 nodes are available: 1 node(s) had untolerated taint(s), 75 Insufficient cpu."
    steps: list[Json] = [
        {"create": [{"pod": {"name": "web", "cpu": 2}}]},
        {"expect": {"pod": "web", "unschedulable": {"message_prefix": head}}},
    ]
    raw: Json = {**case.raw, "cluster": [*nodes, *pods, tainted], "steps": steps}
    progress: list[str] = []
    interest = interest_in(raw, "fine", target_kind(TargetOptions()), seed=0)
    found = shrunk(interest, LIMITS, on_progress=progress.append)
    assert len(_nodes(found.raw)) == 2
    assert len(found.raw["cluster"]) == 2  # type: ignore[arg-type]
    # Half of the objects go with each attempt that succeeds.
    counts = [int(line.partition(" ")[0]) for line in progress]
    assert (counts[0] <= 114, counts[1] <= 58) == (True, True)
    assert int(progress[-1].rpartition(", ")[2].partition(" ")[0]) < 60


class _Keeps:
    """An interest without runs: a case in which some texts stand is as good as the first one."""

    described = "the texts"

    def __init__(self, raw: Json, *texts: str, interrupts: bool = False) -> None:
        self.raw, self._texts, self._interrupts = raw, texts, interrupts

    def may_be_in(self, raw: Json) -> bool:
        return all(text in str(raw) for text in self._texts)

    def is_in(self, _: Json) -> bool:
        if self._interrupts:
            raise KeyboardInterrupt
        return True

    def finished(self, raw: Json) -> Json:
        return raw


def _object(kind: str, name: str, **spec: object) -> Json:
    metadata = {"name": name, "labels": {"team": "db"}}
    return {"object": {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}}


_OBJECTS: Json = {
    "name": "objects",
    "source": "nowhere",
    "cluster": [
        _object("Node", "a", unschedulable=False),
        _object("Node", "b", unschedulable=False),
        _object("Pod", "p", nodeName="a", priority=0, containers=[{"name": "c", "image": "i"}]),
        _object("Pod", "q", nodeName="b", containers=[{"name": "c", "image": "i"}]),
        {"node": {"name": "many", "count": 8}},
    ],
    "steps": [{"create": [{"pod": {"name": "web"}}]}, {"advance": "1s"}],
}


def test_objects_of_the_api_go_with_their_node_and_lose_their_fields() -> None:
    found = shrunk(_Keeps(_OBJECTS, "'name': 'p'", "'nodeName': 'a'", "many", "web"), LIMITS)
    assert found.raw["cluster"] == [
        {
            "object": {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p"},
                "spec": {"nodeName": "a"},
            }
        },
        {"node": {"name": "many"}},
    ]
    assert found.raw["steps"] == [{"create": [{"pod": {"name": "web"}}]}]
    assert found.summary.startswith("3 of 6 objects, 1 of 2 steps")


@pytest.mark.parametrize(
    ("limits", "interrupts", "ended"),
    [
        (Limits(9, -1.0), False, "0 attempts, stopped at the limit of time"),
        (LIMITS, True, "1 attempts, interrupted"),
    ],
)
def test_a_search_that_ends_early_gives_the_reason(
    limits: Limits, interrupts: bool, ended: str
) -> None:
    found = shrunk(_Keeps(_OBJECTS, interrupts=interrupts), limits)
    assert found.summary == f"6 of 6 objects, 2 of 2 steps, {ended}"
    assert found.raw == _OBJECTS


def test_a_passing_case_keeps_its_expectations_and_names_the_nodes_that_are_left(
    tmp_path: Path,
) -> None:
    text = """
        area: fine
        cases:
        - name: repeated
          source: nowhere
          cluster: [node: {name: a}, node: {name: b}, node: {name: tainted, taints: [t:NoSchedule]}]
          steps:
          - create: [pod: {name: web}]
          - expect: {pod: web, bound_to_one_of: [a, b, tainted]}
          - create: [pod: {name: no, node_selector: {disk: ssd}}]
          - repeat: {times: 2, steps: [expect: {pod: no, unschedulable: {message_contains: n}}]}
        """
    (case,) = write_cases(tmp_path, text)
    interest = interest_in(case.raw, case.area, target_kind(TargetOptions()), seed=0)
    assert interest.described == (
        "2 expectations; "
        "default/no: node(s) didn't match Pod's node affinity/selector, "
        "node(s) had untolerated taint(s); "
        "default/web: 2 or more feasible nodes"
    )
    steps: list[Json] = interest.raw["steps"]  # type: ignore[assignment]
    assert interest.is_in(interest.raw)
    # No case: the duration is none.
    assert not interest.is_in({**interest.raw, "steps": [*steps, {"advance": "soon"}]})
    # The pod has other reasons without the taint.
    cluster = [{"node": {"name": "a"}}, {"node": {"name": "b"}}]
    smaller = {**interest.raw, "cluster": cluster}
    assert not interest.is_in(smaller)
    expected, repeated = interest.finished(smaller)["steps"][1::2]  # type: ignore[index]
    assert expected == {"expect": {"pod": "web", "bound_to_one_of": ["a", "b"]}}
    message = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    assert repeated["repeat"]["steps"] == [
        {"expect": {"pod": "no", "unschedulable": {"message_prefix": message}}}
    ]


def test_a_case_that_is_skipped_cannot_shrink(tmp_path: Path) -> None:
    text = FAILING.replace("description:", "gates: {Some: true}\n  description:")
    with pytest.raises(InputError, match="the case is skipped: needs feature gates"):
        _shrunk(tmp_path, text, in_process(schedulers.binds_all_to_a))


@pytest.mark.slow
def test_the_command_writes_a_case_that_still_fails(tmp_path: Path) -> None:
    write_cases(tmp_path, FAILING)
    output, options = tmp_path / "small.yaml", in_process(schedulers.binds_all_to_a)
    arguments = [str(tmp_path / "cases.yaml"), "-o", str(output), "--in-process"]
    result = CliRunner().invoke(shrink, [*arguments, options.in_process])
    assert result.exit_code == 0, result.output
    assert "Kept: the failure: steps[4]: pod web: expected on one of b-0, b-1, b-2" in result.output
    (case,) = load_cases([output])
    assert [*findings_in_cases([case])] == []
    assert run_one(case, options).verdict is Verdict.FAILED
    assert yaml.safe_load(output.read_text(encoding="utf-8"))["area"] == "wrong"


def test_bad_input_of_the_command_has_status_2(tmp_path: Path) -> None:
    write_cases(tmp_path, f"{PASSING}{PASSING.partition('cases:')[2].replace('un', 're', 1)}")
    arguments = [str(tmp_path / "cases.yaml"), "-o", str(tmp_path / "small.yaml")]
    result = CliRunner().invoke(shrink, arguments)
    assert result.exit_code == 2
    assert "expected one case, or its name in --case" in result.output
