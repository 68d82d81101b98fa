"""Correct plugins are not blamed for the pods that they hold back; own invariants are judged."""

from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import Phase, find, settings

from conformance.api import Json
from conformance.format.case import Case, case_of
from conformance.fuzz.cli import fuzz
from conformance.invariants import INVARIANTS, History, Invariant, Violation, violations
from conformance.invariants.matching import labels_of
from conformance.invariants.with_plugins import left_out_for
from conformance.run.observation import observe
from conformance.strategies import cases, clusters
from conformance.targets import target_kind
from conformance.targets.target import TargetOptions
from scheduler import (
    ClusterEventWithHint,
    CycleState,
    NodeInfo,
    Plugin,
    PodInfo,
    Status,
    unschedulable,
    wait,
)

CONFIG_MAP: Json = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "open", "namespace": "default"},
}


class Picky(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("not on b") if node.name == "b" else None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return []


class Holds(Plugin):
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return wait(3600)


class Ranks(Plugin):
    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return 1


def reference(plugin: type[Plugin]) -> str:
    return f"{__name__}:{plugin.__name__}"


def test_invariants_that_a_method_may_break_are_left_out() -> None:
    assert left_out_for([Ranks]) == {}
    assert left_out_for([reference(Holds)]) == {
        "no_pod_lost": "Holds.permit",
        "no_pod_starved": "Holds.permit",
        "feasibility_monotone_in_capacity": "Holds.permit",
        "verdicts_independent_of_order_and_names": "Holds.permit",
    }
    assert left_out_for([Ranks, reference(Picky)])["victims_minimal"] == "Picky.filter"


@pytest.mark.slow
@pytest.mark.parametrize("plugin", [Picky, Holds])
def test_fuzz_does_not_blame_a_correct_plugin(plugin: type[Plugin], tmp_path: Path) -> None:
    command = ["--workers", "0", "--output", str(tmp_path), "--plugin", reference(plugin)]
    result = CliRunner().invoke(fuzz, [*command, "--examples", "4"])
    assert result.exit_code == 0, result.output
    assert f"no_pod_starved is left out: {plugin.__name__}." in result.output
    asked_for = [*command, "--examples", "1", "--invariants", "no_pod_starved"]
    assert "1 cases, 1 invariants" in CliRunner().invoke(fuzz, asked_for).output


@pytest.mark.slow
def test_an_invariant_of_ones_own_has_its_name() -> None:
    case = case_of(
        {
            "name": "one",
            "source": "a test",
            "cluster": [{"node": {"name": "a"}}],
            "steps": [{"create": [{"pod": {"name": "p"}}]}],
        },
        area="mine",
        origin=__file__,
    )

    def no_binding(history: History) -> list[Violation]:
        return [Violation(text="bound", step=each.step, expect={}) for each in history.bindings]

    mine = Invariant(name="mine", sentence="Nothing is bound.", source="here", check=no_binding)
    kind = target_kind(TargetOptions())
    [broken] = violations(case, partial(observe, kind=kind), invariants=[mine])
    assert (broken.invariant, broken.text) == ("mine", "bound")
    assert "mine" not in INVARIANTS


def test_a_plugins_labels_and_objects_are_drawn() -> None:
    drawn = settings(database=None, max_examples=500, phases=[Phase.generate])
    about = clusters(labels={"team": ["red", "blue"]}, objects=[CONFIG_MAP])
    assert find(about, lambda each: any(map(_team, each.nodes)), settings=drawn)
    assert find(about, lambda each: any(map(_team, each.pods)), settings=drawn)
    assert find(about, lambda each: CONFIG_MAP in each.objects, settings=drawn)
    subject = {"apiVersion": "v1", "kind": "ConfigMap", "name": "open", "namespace": "default"}
    for step in ({"create": [{"object": CONFIG_MAP}]}, {"delete": {"object": subject}}):
        case = find(cases(objects=[CONFIG_MAP]), partial(_has_step, step), settings=drawn)
        assert case_of(case.raw, area="fuzz", origin="here").steps


def _team(obj: Json) -> str | None:
    return labels_of(obj).get("team")


def _has_step(step: Json, case: Case) -> bool:
    steps = case.raw["steps"]
    assert isinstance(steps, list)
    return step in steps
