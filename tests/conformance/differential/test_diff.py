"""Two schedulers in the same scenarios: the first divergence, chance, quality, and the command."""

import contextlib
import json
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.clock import Clock
from conformance.differential.cli import diff
from conformance.differential.comparison import Verdict, compare, judge, questions_of
from conformance.differential.run import Compared, compare_all
from conformance.differential.scenarios import case_of_history, changes_of
from conformance.differential.sides import Side, side_of
from conformance.errors import InputError
from conformance.judge.referee import Answer
from conformance.replay.history import History
from conformance.run.observation import observe
from conformance.targets.target import TargetOptions
from scheduler.testing import RunningScheduler, run_in_process

from .. import schedulers
from ..cases import write_cases
from ..replay.evidence import CPU_ONLY, T4, task, write_history

MOST_ALLOCATED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
"""
CASES = """
area: two
cases:
- name: busy-and-free
  source: nowhere
  cluster:
  - {node: {name: a}}
  - {node: {name: b}}
  - {pod: {name: busy, node: a, cpu: 2, memory: 4Gi}}
  steps:
  - create: [pod: {name: p, cpu: 1, memory: 2Gi}]
  - expect: {pod: p, bound_to: nowhere}
- name: preemption
  source: nowhere
  cluster:
  - {node: {name: a, count: 2, cpu: 2}}
  - {pod: {name: low-0, node: a-0, cpu: 2, priority: 1}}
  - {pod: {name: low-1, node: a-1, cpu: 2, priority: 2}}
  steps:
  - create: [pod: {name: p, cpu: 1, priority: 10}]
  - advance: 5s
"""
EQUAL_NODES = """
area: ties
cases:
- name: equal-nodes
  source: nowhere
  cluster: [node: {name: n, count: 3}]
  steps:
  - create: [pod: {name: p, count: 4, cpu: 1, memory: 2Gi}]
"""


def _side(text: str) -> Side:
    return side_of(text, option="--a", base=TargetOptions())


def _compared(tmp_path: Path, text: str, a: str, b: str) -> list[Compared]:
    cases = write_cases(tmp_path, text)
    return [*compare_all(cases, _side(a), _side(b), seed=0, timeout_seconds=60.0)]


def _reference(function: object) -> str:
    return f"{schedulers.__name__}:{function.__name__}"  # type: ignore[attr-defined]


def test_a_scheduler_is_the_same_as_itself(tmp_path: Path) -> None:
    for each in _compared(tmp_path, CASES, "ours", "ours"):
        assert (each.comparison.verdict, each.comparison.differences) == (Verdict.SAME, [])
        assert each.a == each.b


@pytest.mark.slow
def test_another_configuration_differs_with_both_explanations(tmp_path: Path) -> None:
    (tmp_path / "most.yaml").write_text(MOST_ALLOCATED, encoding="utf-8")
    busy, preemption = _compared(tmp_path, CASES, "ours", f"config={tmp_path}/most.yaml ours")
    assert preemption.comparison.verdict is Verdict.SAME
    assert busy.comparison.verdict is Verdict.DIFFERS
    first = busy.comparison.first_divergence
    assert first is not None
    assert (first.pod, first.aspect, str(first.a), str(first.b)) == (
        *("default/p", "placement", "b", "a"),
    )
    assert any("attempt 1: b," in line for line in first.story_a)
    assert any("attempt 1: a," in line for line in first.story_b)
    text = "\n".join(first.lines)
    assert "with the configuration of A, over the cluster of A:\n  b: " in text
    assert ", the best (TaintToleration" in text
    # A spreads, B packs.
    assert busy.a.spread_percent < busy.b.spread_percent
    assert busy.a.bound == busy.b.bound == 1


@contextlib.asynccontextmanager
async def other_seed(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int
) -> AsyncIterator[RunningScheduler]:
    """Run our scheduler so that it draws other ones of equally good nodes."""
    run = run_in_process(kubeconfig=kubeconfig, clock=clock, config=config, seed=seed + 1)
    async with run as scheduler:
        yield scheduler


@pytest.mark.slow
def test_a_choice_among_equally_good_nodes_is_chance(tmp_path: Path) -> None:
    other = f"{__name__}:other_seed"
    (ties,) = _compared(tmp_path, EQUAL_NODES, "ours", other)
    assert ties.comparison.differences, "the seeds draw different nodes"
    assert ties.comparison.verdict is Verdict.CHANCE
    assert ties.comparison.first_divergence is None


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Answer(result="scheduled", best=("n-0", "n-1", "n-2")), Verdict.CHANCE),
        (Answer(result="scheduled", best=("none",)), Verdict.DIFFERS),
        (Answer(result="unschedulable", message="0/3 nodes are available."), Verdict.DIFFERS),
        (Answer(result="error"), Verdict.PERHAPS),
        (None, Verdict.PERHAPS),
    ],
)
def test_a_difference_is_judged_by_the_other_sides_best_nodes(
    tmp_path: Path, answer: Answer | None, verdict: Verdict
) -> None:
    (case,) = write_cases(tmp_path, EQUAL_NODES)
    a, b = _side("ours"), _side(f"{__name__}:other_seed")
    comparison = compare(case, *(observe(case, side.kind) for side in (a, b)))
    questions = questions_of(comparison, a, b)
    assert all(question is not None for question in questions)
    judge(comparison, questions, [answer] * len(questions))
    assert comparison.verdict is verdict


@pytest.mark.slow
def test_a_wrong_node_is_no_chance(tmp_path: Path) -> None:
    wrong = _reference(schedulers.binds_all_to_a)
    busy, preemption = _compared(tmp_path, CASES, "ours", wrong)
    assert busy.comparison.verdict is Verdict.DIFFERS
    first = preemption.comparison.first_divergence
    assert first is not None
    assert (first.aspect, str(first.a)) == ("preemption", "a-0 instead of default/low-0")
    assert (preemption.a.preemptions, preemption.b.preemptions) == (1, 0)


@pytest.mark.slow
def test_a_pod_that_is_left_alone_differs(tmp_path: Path) -> None:
    idle = _reference(schedulers.binds_nothing)
    busy, _ = _compared(tmp_path, CASES, "ours", idle)
    first = busy.comparison.first_divergence
    assert first is not None
    assert (str(first.a), str(first.b), first.verdict) == ("b", "pending", Verdict.DIFFERS)
    assert (busy.a.pending, busy.b.pending) == (0, 1)


@pytest.mark.slow
def test_a_scheduler_that_breaks_differs_with_the_reason(tmp_path: Path) -> None:
    broken = _reference(schedulers.does_not_start)
    busy, _ = _compared(tmp_path, CASES, "ours", broken)
    assert busy.comparison.verdict is Verdict.DIFFERS
    assert busy.comparison.problem == "B: did not start: profiles[0]: unknown plugin Foo"


def test_a_scenario_that_one_side_cannot_run_is_skipped(tmp_path: Path) -> None:
    text = CASES.replace(
        "- name: preemption", "- name: preemption\n  gates: {GangScheduling: true}"
    )
    other = _reference(schedulers.binds_nothing)
    _, gated = _compared(tmp_path, text, "ours", other)
    assert gated.comparison.verdict is Verdict.SKIPPED
    assert "needs feature gates" in gated.comparison.skipped


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "--a: expected ours, kubesched@VERSION, MODULE:FUNCTION or a command, got ''"),
        ("config=/no/such.yaml ours", "--a: /no/such.yaml: No such file or directory"),
        ("gates=Foo ours", "--a: gates: expected NAME=true or NAME=false, got Foo"),
        ("kube-scheduler", "--a: --target-command: expected {kubeconfig} or {config} in it"),
    ],
)
def test_a_bad_target_is_one_line(text: str, problem: str) -> None:
    with pytest.raises(InputError) as error:
        _side(text)
    assert str(error.value).startswith(problem)


def _diff(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(diff, ["--a", "ours", *arguments])
    return result.exit_code, result.output


@pytest.mark.slow
def test_a_victim_belongs_to_the_pod_that_preempted_it(tmp_path: Path) -> None:
    text = """
        area: two
        cases:
        - name: second-preemptor
          source: nowhere
          cluster:
          - {node: {name: a, cpu: 4}}
          - {pod: {name: victim, node: a, cpu: 4, priority: 10}}
          steps:
          - create: [pod: {name: first, priority: 1000, cpu: 2}]
          - advance: PAUSE
          - create: [pod: {name: second, priority: 500, cpu: 2}]
        """
    kind = _side("ours").kind
    (soon,) = write_cases(tmp_path, text.replace("PAUSE", "100ms"))
    (late,) = write_cases(tmp_path, text.replace("PAUSE", "5s"))
    a, b = observe(soon, kind), observe(late, kind)
    assert [pod.key for pod in a.pods if pod.nominations] == ["default/first", "default/second"]
    assert compare(soon, a, b).differences == []


def test_the_command_prints_one_table_and_writes_json(tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(textwrap.dedent(CASES), encoding="utf-8")
    (tmp_path / "most.yaml").write_text(MOST_ALLOCATED, encoding="utf-8")
    cases, numbers = str(tmp_path / "cases.yaml"), tmp_path / "out.json"
    other = f"config={tmp_path}/most.yaml name=packed ours"
    status, output = _diff("--b", other, "--cases", cases, "--json", str(numbers))
    assert status == 1
    assert "First divergence: two/busy-and-free, pod default/p, placement" in output
    assert "2 scenarios: 1 the same, 1 different" in output
    content = json.loads(numbers.read_text(encoding="utf-8"))
    assert content["verdicts"] == {"differs": 1, "same": 1}
    assert content["b"] == "packed"
    assert content["scenarios"][0]["differences"][0]["pod"] == "default/p"
    assert _diff("--b", "ours", "--cases", cases)[0] == 0


def test_bad_input_of_the_command_has_status_2(tmp_path: Path) -> None:
    cases = str(tmp_path / "none.yaml")
    status, output = _diff("--b", "ours", "--cases", cases)
    assert (status, "none.yaml: No such file" in output) == (2, True)
    status, output = _diff("--b", "ours", "--cases", cases, "--fuzz", "2")
    assert status == 2
    assert "expected one of --cases, --fuzz, --snapshot, --history" in output


@pytest.mark.slow
def test_random_scenarios_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    status, output = _diff("--b", "ours", "--fuzz", "3")
    assert (status, "3 scenarios: 3 the same" in output) == (0, True)


def test_a_snapshot_of_a_cluster_is_a_scenario(tmp_path: Path) -> None:
    objects = tmp_path / "cluster.yaml"
    objects.write_text(
        textwrap.dedent(
            """
            apiVersion: v1
            kind: List
            items:
            - apiVersion: v1
              kind: Node
              metadata: {name: a, uid: x, resourceVersion: "7"}
              status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}
            - apiVersion: v1
              kind: Pod
              metadata: {name: p, namespace: team}
              spec: {containers: [{name: c, image: i}]}
            """
        ),
        encoding="utf-8",
    )
    status, output = _diff("--b", "ours", "--snapshot", str(objects))
    assert (status, "1 scenarios: 1 the same" in output) == (0, True)
    objects.write_text("kind: Pod\n", encoding="utf-8")
    assert _diff("--b", "ours", "--snapshot", str(objects))[0] == 2


def test_a_history_is_a_scenario(tmp_path: Path) -> None:
    pods = (task(name, gpus=1, gpu_milli=1100) for name in ("p1", "p2"))
    history = write_history(tmp_path / "history.jsonl", T4, *pods)
    status, output = _diff("--b", "ours", "--history", str(history))
    assert (status, "1 scenarios: 1 the same" in output) == (0, True)
    assert "without a node at the end" in output
    assert _diff("--b", "ours", "--history", str(tmp_path / "none"))[0] == 2


def test_a_history_has_its_own_times(tmp_path: Path) -> None:
    first = task("first", cpu_milli=5000)._replace(ended_seconds=86400.0)
    waits = task("waits", cpu_milli=5000)._replace(created_seconds=10.0, run_seconds=89_990.0)
    last = task("last")._replace(created_seconds=172_800.0, ended_seconds=172_900.0)
    history = History((CPU_ONLY,), (first, waits, last))
    case = case_of_history(history, "times", with_times=True)
    seen = observe(case, _side("ours").kind)
    bound = {pod.key: pod.bound_seconds for pod in seen.placements}
    # A gap of the history is at most 30 s long.
    assert bound == {"default/first": 0.0, "default/waits": 40.0, "default/last": 100.0}
    assert [pod.key for pod in seen.pods if pod.deleted_seconds is None] == ["default/last"]
    path = write_history(tmp_path / "history.jsonl", CPU_ONLY, first)
    status, output = _diff("--b", "ours", "--history", str(path), "--time", "history")
    assert (status, "1 scenarios: 1 the same" in output) == (0, True)


def test_ends_of_a_moment_come_before_creations() -> None:
    first = task("first")._replace(ended_seconds=10.0)
    brief = task("brief")._replace(created_seconds=10.0, ended_seconds=10.0)
    last = task("last")._replace(created_seconds=10.0, run_seconds=5.0)
    changes = changes_of(History((CPU_ONLY,), (first, brief, last)))
    assert [(change.is_creation, change.pod.name) for change in changes] == [
        (True, "first"), (False, "first"), (True, "brief"), (True, "last"), (False, "brief")
    ]  # fmt: skip
