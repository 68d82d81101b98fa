"""One case from beginning to end, with schedulers that do one thing."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.judge.expect import Unmet
from conformance.outcome import Aspect, Verdict
from conformance.reports.terminal import failure_lines
from conformance.run.runner import Settings, run_cases
from conformance.run.running import is_final
from conformance.targets.target import TargetOptions

from .. import schedulers
from ..cases import BOUND, in_process, run_one, write_cases


def _steps(steps: str) -> str:
    cluster = "cluster: [node: {name: a}]"
    return f"{{area: tiny, cases: [{{name: c, source: s, {cluster}, {steps}}}]}}"


def test_a_case_that_holds_passes(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, BOUND)
    outcome = run_one(case, in_process(schedulers.binds_all_to_a))
    assert (outcome.verdict, outcome.reason, outcome.details) == (Verdict.PASSED, "", ())
    assert (outcome.id, outcome.source, outcome.origin) == ("tiny/bound", "nowhere", case.origin)


def test_a_scheduler_that_binds_nothing_fails(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, BOUND)
    outcome = run_one(case, in_process(schedulers.binds_nothing))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason == "steps[1]: pod p: expected on a, is not bound"
    assert outcome.details == (
        "pod p is Pending, on no node",
        "conditions: none",
        "events: none",
    )


def test_a_scheduler_that_binds_wrongly_fails_and_shows_its_log(tmp_path: Path) -> None:
    (case,) = write_cases(
        tmp_path,
        """
        area: tiny
        cases:
        - name: full
          source: nowhere
          cluster: [{node: {name: a, cpu: 1}}, {pod: {name: p, count: 2, cpu: 1}}]
          steps:
          - expect: {pods: [p-0, p-1], bound_count: {at_least: 1}}
          - expect: {nodes: no_overcommit}
        """,
    )
    outcome = run_one(case, in_process(schedulers.binds_all_to_a))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason == "steps[1]: nodes: node a: pods request 2 of cpu, 1 is allocatable"
    assert any("binding p-1" in line for line in outcome.log)


@pytest.mark.parametrize(
    ("scheduler", "reason"),
    [
        (schedulers.does_not_start, "did not start: profiles[0]: unknown plugin Foo"),
        (schedulers.in_disorder, "an invariant does not hold: pod p is in two queues"),
        (schedulers.fails_when_stopped, "failed: RuntimeError: left in a mess"),
    ],
)
def test_a_broken_scheduler_is_an_error(
    tmp_path: Path, scheduler: Callable[..., object], reason: str
) -> None:
    (case,) = write_cases(tmp_path, _steps("steps: [wait_until_settled: ]"))
    outcome = run_one(case, in_process(scheduler))
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, reason)


def test_a_scheduler_that_breaks_on_the_way_is_an_error_with_its_place(tmp_path: Path) -> None:
    (case,) = write_cases(
        tmp_path,
        _steps(
            "steps: [{create: [pod: {name: poison}]}, {expect: {pod: poison, not_bound: true}}]"
        ),
    )
    outcome = run_one(case, in_process(schedulers.binds_all_to_a))
    assert outcome.verdict is Verdict.ERROR
    assert outcome.reason == "steps[0]: failed: RuntimeError: choked on poison"


@pytest.mark.slow
def test_a_scheduler_that_never_rests_is_an_error(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, BOUND)
    outcome = run_one(case, in_process(schedulers.never_idle))
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "never came to rest")


def test_work_in_flight_that_needs_time_gets_it(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, _steps("steps: [wait_until_settled: ]"))
    outcome = run_one(case, in_process(schedulers.waits_for_time))
    assert outcome.verdict is Verdict.PASSED


def test_a_step_that_the_server_refuses_is_an_error_of_the_case(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, _steps("steps: [bind: {pod: nobody, node: a}]"))
    outcome = run_one(case, in_process(schedulers.binds_nothing))
    assert outcome.verdict is Verdict.ERROR
    assert outcome.reason.startswith("steps[0]: POST /api/v1/namespaces/default/pods/nobody/bind")
    assert 'pods "nobody" not found' in outcome.reason


def test_an_object_that_the_server_does_not_take_names_its_field(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, _steps("steps: [create: [pod: {name: p, spec: {nodeNam: x}}]]"))
    outcome = run_one(case, in_process(schedulers.binds_nothing))
    assert outcome.verdict is Verdict.ERROR
    assert 'unknown field "spec.nodeNam"' in outcome.reason


def test_every_step_has_its_effect(tmp_path: Path) -> None:
    (case,) = write_cases(
        tmp_path,
        """
        area: tiny
        cases:
        - name: all
          source: nowhere
          cluster:
          - namespace: team
          - node: {name: b}
          - pod: {name: hand, namespace: team, priority: 5}
          - pod: {name: same-class, priority: 5}
          steps:
          - bind: {pod: team/hand, node: b}
          - expect: {pod: team/hand, bound_to: b}
          - update_status: {pod: team/hand, status: {phase: Running}}
          - expect: {pod: team/hand, phase: Running}
          - evict: {pod: team/hand}
          - expect: {pod: team/hand, deleted: true}
          - patch: {pod: same-class, type: strategic, patch: {metadata: {labels: {x: y}}}}
          - patch: {pod: same-class, type: json, patch: [{op: remove, path: /metadata/labels/x}]}
          - patch:
              pod: same-class
              subresource: status
              patch: {status: {nominatedNodeName: b}}
          - expect: {pod: same-class, nominated_node_name: b}
          - repeat: {times: 3, steps: [{touch: {pod: same-class}}, {advance: 1h}]}
          - delete: {object: {kind: Pod, name: same-class}}
          - delete:
              object:
                apiVersion: scheduling.k8s.io/v1
                kind: PriorityClass
                name: priority-5
          - wait_until_settled:
          - expect: {pod: same-class, deleted: true}
        """,
    )
    outcome = run_one(case, in_process(schedulers.binds_nothing))
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")


def test_a_restart_ends_the_scheduler_and_starts_another_one(tmp_path: Path) -> None:
    (case,) = write_cases(
        tmp_path,
        """
        area: tiny
        cases:
        - name: again
          source: nowhere
          cluster: [node: {name: a}]
          steps:
          - create: [pod: {name: first}]
          - expect: {pod: first, bound_to: a}
          - restart:
          - create: [pod: {name: second}]
          - expect: {pod: second, bound_to: b}
        """,
    )
    outcome = run_one(case, in_process(schedulers.binds_to_the_next_node_after_a_restart))
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")


_SEVERAL = """
area: tiny
cases:
- name: several
  source: nowhere
  cluster: [node: {name: first}, node: {name: second}, node: {name: third}]
  steps:
  - create: [pod: {name: p}]
  - expect: {pod: p, bound_to: first}
  - stop: first
  - create: [pod: {name: q}]
  - expect: {pod: q, not_bound: true}
  - start: second
  - create: [pod: {name: r}]
  - expect: {pod: r, bound_to: second}
  - start: third
  - stop: second
  - create: [pod: {name: s}]
  - advance: 10s
  - expect: {pod: s, bound_to: third}
"""


def test_steps_stop_a_scheduler_and_start_others_beside_it(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, _SEVERAL)
    assert "restart" in case.labels
    outcome = run_one(case, in_process(schedulers.binds_to_the_node_of_its_name))
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")


def test_a_second_scheduler_needs_an_identity(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, _SEVERAL)
    outcome = run_one(case, in_process(schedulers.binds_all_to_a))
    name = f"{schedulers.__name__}:binds_all_to_a"
    reason = f"starts a second scheduler, and {name} has no parameter identity"
    assert (outcome.verdict, outcome.reason) == (Verdict.SKIPPED, reason)


def test_the_failure_of_any_scheduler_is_an_error(tmp_path: Path) -> None:
    text = _SEVERAL.replace("  - advance: 10s\n", "  - create: [pod: {name: poison}]\n")
    (case,) = write_cases(tmp_path, text)
    outcome = run_one(case, in_process(schedulers.binds_to_the_node_of_its_name))
    assert outcome.verdict is Verdict.ERROR
    assert "choked on poison" in outcome.reason


def test_a_feature_whose_package_is_not_installed_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = BOUND.replace("  cluster:", "  level: extended\n  feature: flow\n  cluster:")
    (case,) = write_cases(tmp_path, text)
    monkeypatch.setitem(sys.modules, "highspy", None)
    outcome = run_one(case, in_process(schedulers.binds_all_to_a))
    reason = "needs the package highspy, the extra flow of kubesched"
    assert (outcome.verdict, outcome.reason) == (Verdict.SKIPPED, reason)


@pytest.mark.slow
def test_a_case_that_takes_too_long_is_an_error(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, BOUND)
    outcome = run_one(case, in_process(schedulers.never_idle), timeout_seconds=0.3)
    assert outcome.verdict is Verdict.ERROR
    assert outcome.reason == "still running after 0.3s"


def test_gates_are_passed_to_the_scheduler_and_alpha_versions_are_served(tmp_path: Path) -> None:
    group = (
        "object: {apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: g}, "
        "spec: {schedulingPolicy: {basic: {}}}}"
    )
    cluster = f"  gates: {{GenericWorkload: true}}\n  cluster: [{group}, "
    (case,) = write_cases(tmp_path, BOUND.replace("  cluster: [", cluster))
    outcome = run_one(case, in_process(schedulers.binds_if_it_has_gates))
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")
    outcome = run_one(case, in_process(schedulers.binds_all_to_a))
    name = f"{schedulers.__name__}:binds_all_to_a"
    reason = f"needs feature gates, and {name} has no parameter feature_gates"
    assert (outcome.verdict, outcome.reason) == (Verdict.SKIPPED, reason)


LENIENT = """
area: tiny
cases:
- name: tainted
  source: nowhere
  cluster: [{node: {name: a, taints: ["dedicated=db:NoSchedule"]}}, {pod: {name: p}}]
  steps:
  - expect: {pod: p, unschedulable: {message_prefix: "0/1"}, attempts: 1}
  - patch: {node: a, patch: {spec: {taints: null}}}
  - expect: {pod: p, not_bound: true}
"""


def test_aspects_are_judged_separately_and_the_case_goes_on(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, LENIENT)
    outcome = run_one(case, in_process(schedulers.binds_nothing))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.aspects == {
        Aspect.PLACEMENT: Verdict.PASSED,
        Aspect.STATUS: Verdict.FAILED,
        Aspect.MESSAGES: Verdict.FAILED,
        Aspect.EVENTS: Verdict.FAILED,
    }
    assert outcome.reason.startswith("steps[0]: pod p: expected to be unschedulable, has no cond")


def test_a_case_ends_with_a_wrong_placement(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, LENIENT)
    outcome = run_one(case, in_process(schedulers.binds_all_to_a))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.aspects[Aspect.PLACEMENT] is Verdict.FAILED
    assert outcome.reason.startswith("steps[0]: pod p: expected to be unschedulable, is bound to a")


def test_only_the_chosen_aspects_are_judged(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, LENIENT)
    options = in_process(schedulers.binds_nothing)
    outcome = run_one(case, options, aspects=frozenset({Aspect.PLACEMENT}))
    assert (outcome.verdict, outcome.aspects) == (
        Verdict.PASSED,
        {Aspect.PLACEMENT: Verdict.PASSED},
    )
    outcome = run_one(case, options, aspects=frozenset({Aspect.REQUEUE}))
    assert outcome.verdict is Verdict.SKIPPED
    assert outcome.reason == "judges other aspects: events, messages, placement, status"


def test_a_failure_has_the_pods_story_if_the_scheduler_serves_it(tmp_path: Path) -> None:
    (case,) = write_cases(
        tmp_path,
        """
        area: tiny
        cases:
        - name: full
          source: nowhere
          cluster: [{node: {name: a, cpu: 1}}, {pod: {name: p, cpu: 2}}]
          steps: [{expect: {pod: p, bound_to: a}}]
        """,
    )
    outcome = run_one(case, TargetOptions())
    assert outcome.verdict is Verdict.FAILED
    story = outcome.details[outcome.details.index("story of pod default/p:") :]
    assert any("NodeResourcesFit" in line and "Insufficient cpu" in line for line in story)


def _unmet(aspect: Aspect, *, is_final: bool) -> Unmet:
    return Unmet("pod p", "wrong", (), aspect, is_final)


@pytest.mark.parametrize(
    ("unmet", "final"),
    [
        ([_unmet(Aspect.PLACEMENT, is_final=True)], True),
        ([_unmet(Aspect.PLACEMENT, is_final=True), _unmet(Aspect.STATUS, is_final=False)], True),
        ([_unmet(Aspect.EVENTS, is_final=True), _unmet(Aspect.STATUS, is_final=False)], False),
        ([_unmet(Aspect.EVENTS, is_final=True)], True),
        ([_unmet(Aspect.STATUS, is_final=False)], False),
    ],
)
def test_waiting_ends_when_it_cannot_change_the_verdict(unmet: list[Unmet], final: bool) -> None:
    assert is_final(unmet) is final


def test_a_failure_names_the_line_of_its_step(tmp_path: Path) -> None:
    text = BOUND.replace(
        "  - expect: {pod: p, bound_to: a}",
        "  - repeat:\n      times: 1\n      steps:\n      - expect: {pod: p, bound_to: a}",
    )
    (case,) = write_cases(tmp_path, text)
    outcome = run_one(case, in_process(schedulers.binds_nothing))
    place = f"{tmp_path}/cases.yaml:12 (steps[1].repeat.steps[0])"
    assert outcome.step_place == place
    assert f"  step: {place}" in failure_lines(outcome)
    assert outcome.text.startswith("- name: bound\n  source: nowhere\n")
    assert outcome.text.endswith("- expect: {pod: p, bound_to: a}")


def test_a_worker_knows_the_line_of_the_step_too(tmp_path: Path) -> None:
    cases = write_cases(tmp_path, BOUND)
    settings = Settings(target=in_process(schedulers.binds_nothing), workers=1)
    (outcome,) = run_cases(cases, settings)
    assert outcome.step_place == f"{tmp_path}/cases.yaml:9 (steps[1])"


def test_a_victim_that_stays_is_named_with_the_step_that_ends_it(tmp_path: Path) -> None:
    (case,) = write_cases(
        tmp_path,
        """
        area: tiny
        cases:
        - name: preemption
          source: nowhere
          cluster:
          - node: {name: a, cpu: 1}
          - pod: {name: low, namespace: default, node: a, cpu: 1, priority: 1}
          steps:
          - create: [pod: {name: high, cpu: 1, priority: 10}]
          - advance: 60s
          - expect: {pod: high, bound_to: a}
        """,
    )
    outcome = run_one(case, TargetOptions())
    assert (
        "pod low is still terminating on a: there is no kubelet that ends it; "
        "write the step `delete: {pod: low}`"
    ) in outcome.details


PLUGINS = BOUND.replace(
    "  source: nowhere\n",
    "  source: nowhere\n  plugins: [tests.conformance.wrong_schedulers:Shy]\n",
)


def test_a_case_brings_its_plugins(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, PLUGINS)
    assert "plugins" in case.labels
    outcome = run_one(case, TargetOptions())
    assert outcome.verdict is Verdict.FAILED
    assert any("node(s) were too far away" in line for line in outcome.details)


def test_a_plugin_that_does_not_exist_is_an_error_of_its_case(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, PLUGINS.replace("Shy", "Gone"))
    outcome = run_one(case, TargetOptions())
    assert outcome.verdict is Verdict.ERROR
    assert outcome.reason.startswith("plugins: tests.conformance.wrong_schedulers:Gone: ")


def test_a_scheduler_that_takes_no_plugins_skips_such_cases(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, PLUGINS)
    outcome = run_one(case, in_process(schedulers.binds_nothing))
    assert outcome.verdict is Verdict.SKIPPED
    assert "names plugins, and" in outcome.reason
