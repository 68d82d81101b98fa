"""An observation has all that happened in a run."""

from pathlib import Path

import pytest

from conformance.outcome import Verdict
from conformance.run.observation import Observation, observe
from conformance.targets import target_kind
from conformance.targets.target import TargetOptions

from .. import schedulers
from ..cases import in_process, write_cases

CASE = """
area: tiny
cases:
- name: crowded
  source: nowhere
  cluster:
  - {node: {name: a, cpu: 2}}
  - {pod: {name: low, node: a, cpu: 2, priority: 1, spec: {terminationGracePeriodSeconds: 0}}}
  - {pod: {name: early, cpu: 3}}
  steps:
  - expect: {pod: early, bound_to: nowhere}
  - advance: 30s
  - create: [pod: {name: high, cpu: 1, priority: 10}]
  - advance: 10s
  - create: [pod: {name: next, cpu: 1}]
  - delete: {pod: next}
"""


def _observed(tmp_path: Path, options: TargetOptions, text: str = CASE) -> Observation:
    (case,) = write_cases(tmp_path, text)
    return observe(case, target_kind(options), explains=True)


def test_placements_rejections_victims_and_times_are_recorded(tmp_path: Path) -> None:
    seen = _observed(tmp_path, TargetOptions())
    assert (seen.outcome.verdict, seen.outcome.reason) == (Verdict.PASSED, "")
    assert [pod.key for pod in seen.pods] == [
        *("default/low", "default/early", "default/high", "default/next")
    ]
    low, early, high, after = seen.pods
    assert [pod.key for pod in seen.placements] == ["default/high", "default/next"]
    assert (low.node, low.by_scheduler, low.bound_seconds) == ("a", False, None)
    assert seen.preempted == [low]
    assert low.preempted_seconds == pytest.approx(30.0)
    assert early.is_pending
    assert early.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert early.waiting_seconds(seen.end_seconds) == pytest.approx(40.0)
    assert [nominated.nominated_node for nominated in high.nominations] == ["a"]
    assert (high.node, high.attempts, high.by_scheduler) == ("a", 2, True)
    assert after.deleted_seconds == pytest.approx(40.0)
    assert seen.end_seconds == pytest.approx(40.0)


def test_the_final_objects_events_and_stories_are_there(tmp_path: Path) -> None:
    seen = _observed(tmp_path, TargetOptions())
    names = [each["metadata"]["name"] for each in seen.objects("Pod")]  # type: ignore[index]
    assert names == ["early", "high"]
    assert {each["apiVersion"] for each in seen.objects("Node")} == {"v1"}
    assert {each["apiVersion"] for each in seen.objects("PriorityClass")} == {
        "scheduling.k8s.io/v1"
    }
    assert {"FailedScheduling", "Scheduled"} <= {event["reason"] for event in seen.events}
    assert {event["apiVersion"] for event in seen.events} == {"events.k8s.io/v1"}
    assert "default/high" in seen.stories
    before = seen.objects_before(seen.placements[0].bound_version)
    assert "high" in [each["metadata"]["name"] for each in before]  # type: ignore[index]
    assert "next" not in [each["metadata"]["name"] for each in before]  # type: ignore[index]


@pytest.mark.parametrize(
    ("target", "reference"), [("kubesched@1.35", "related"), ("kubesched@1.36", "note")]
)
def test_a_victim_has_the_preemptor_that_its_event_refers_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, reference: str
) -> None:
    seen = _observed(tmp_path, TargetOptions(in_process=target))
    left_out = {"related": "note", "note": "related"}[reference]
    events = [{key: event[key] for key in event if key != left_out} for event in seen.events]
    monkeypatch.setattr(Observation, "events", events)
    low, _, high, _ = seen.pods
    assert seen.preemptors == {low.uid: high.uid}


def test_a_scheduler_without_stories_has_none(tmp_path: Path) -> None:
    seen = _observed(tmp_path, in_process(schedulers.binds_all_to_a))
    assert seen.stories == {}
    assert [pod.key for pod in seen.placements] == ["default/early", "default/high", "default/next"]


def test_a_refused_step_ends_the_run_and_keeps_what_happened(tmp_path: Path) -> None:
    text = CASE.replace("delete: {pod: next}", "delete: {pod: nobody}")
    seen = _observed(tmp_path, TargetOptions(), text)
    assert seen.outcome.verdict is Verdict.ERROR
    assert seen.outcome.reason.startswith("steps[5]: DELETE ")
    assert [pod.key for pod in seen.placements] == ["default/high", "default/next"]


def test_a_pod_that_is_created_again_has_two_records(tmp_path: Path) -> None:
    steps = "- create: [pod: {name: p}]\n  - delete: {pod: p}\n  - create: [pod: {name: p}]\n"
    head = CASE.partition("  steps:")[0]
    seen = _observed(tmp_path, TargetOptions(), f"{head}  steps:\n  {steps}")
    assert [pod.key for pod in seen.pods].count("default/p") == 2
