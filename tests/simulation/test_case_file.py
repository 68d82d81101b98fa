"""Histories as files: replayed here, and run against a scheduler over HTTP."""

from pathlib import Path

import pytest

from conformance.format.case import load_cases
from conformance.outcome import Verdict
from conformance.run.runner import Settings, run_cases

from .case_file import Golden, NotACase, conformance_case, read_golden, write_case, write_golden
from .generator import random_history
from .shrinking import shortest
from .simulation import History, HistoryFailed, Simulation, Step, simulate

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.yaml"))

CROWDED: History = [
    {"create_node": {"name": "a", "cpu": "2", "zone": "za"}},
    {"create_node": {"name": "b", "cpu": "2", "zone": "zb", "dedicated": True}},
    {"create_pod": {"name": "low", "cpu": "2"}},
    {"settle": {}},
    {"delete_pod": {"name": "nobody"}},
    {"turns": {"count": 3}},
    {"create_pod": {"name": "high", "cpu": "2", "priority": 5, "zone": "za"}},
    {"settle": {}},
    {"create_pod": {"name": "late", "cpu": "1", "app": "x", "apart": True, "spread": True}},
    {"advance": {"seconds": 10.0}},
    {"update_node": {"name": "b", "cpu": "1", "zone": "zb"}},
    {"create_pod": {"name": "gated", "gated": True, "host_port": 80}},
    {"settle": {}},
]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_recorded_failures_pass(path: Path) -> None:
    golden = read_golden(path)
    simulate(golden.history, seed=golden.seed, feature_gates=golden.feature_gates)


def test_a_golden_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    golden = Golden("why", 3, random_history(3, 60))
    write_golden(tmp_path / "golden.yaml", golden)
    assert read_golden(tmp_path / "golden.yaml") == golden


@pytest.mark.parametrize(
    "step",
    [
        {"relist": {"kind": "pods"}},
        {"fail": {"write": "bind", "how": "conflict"}},
        {"create_pod": {"name": "p", "waits": True}},
    ],
    ids=str,
)
def test_steps_that_are_impossible_from_outside_are_no_case(step: Step) -> None:
    with pytest.raises(NotACase):
        conformance_case("case", [step])


def test_a_failing_history_is_made_as_short_as_it_can_be() -> None:
    history: History = [{"settle": {}}] * 9 + [{"turns": {"count": 1}}] * 2 + [{"settle": {}}] * 9
    found = shortest(history, lambda part: sum("turns" in step for step in part) == 2)
    assert found == [{"turns": {"count": 1}}] * 2


class Doomed(Simulation):
    """Never settles well."""

    async def do_settle(self) -> None:
        raise AssertionError("on purpose")


def test_a_failure_names_the_step_and_holds_the_history() -> None:
    history: History = [{"turns": {"count": 1}}, {"settle": {}}, {"turns": {"count": 1}}]
    with pytest.raises(HistoryFailed, match=r"step 2 .*settle.*: on purpose") as failure:
        simulate(history, make=Doomed)
    assert len(failure.value.history) == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PluginImportFixer")
def test_a_history_passes_as_a_conformance_case(tmp_path: Path) -> None:
    case = conformance_case("crowded", CROWDED)
    fates = [step["expect"] for step in case["steps"] if "expect" in step]
    assert {fate["pod"]: "not_bound" in fate for fate in fates} == {
        "gated": True,
        "high": False,
        "late": False,
    }
    write_case(tmp_path / "case.yaml", case)
    (outcome,) = run_cases(load_cases([tmp_path]), Settings(workers=0))
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")
