"""Many cases: isolated from one another, whatever a scheduler does to its process."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conformance.errors import InputError
from conformance.format.case import Case
from conformance.outcome import Outcome, Verdict, all_passed
from conformance.run.runner import Settings, default_workers, run_cases
from conformance.targets.target import TargetOptions

from .. import schedulers
from ..cases import in_process, write_cases

THREE = """
area: tiny
cases:
- name: one
  source: nowhere
  cluster: [node: {name: a}, ]
  steps: [{create: [pod: {name: p}]}, {expect: {pod: p, bound_to: a}}]
- name: two
  source: nowhere
  cluster: [node: {name: a}]
  steps: [{create: [pod: {name: p}]}, {expect: {pod: p, bound_to: b}}]
- name: three
  source: nowhere
  cluster: [node: {name: a}]
  steps: [{create: [pod: {name: p}]}, {expect: {pod: p, bound_to: a}}]
"""


@pytest.fixture
def three(tmp_path: Path) -> list[Case]:
    return write_cases(tmp_path, THREE)


def _verdicts(outcomes: list[Outcome]) -> list[tuple[str, str]]:
    return [(outcome.name, outcome.verdict.value) for outcome in outcomes]


def test_cases_do_not_see_one_another(three: list[Case]) -> None:
    settings = Settings(target=in_process(schedulers.binds_all_to_a), workers=0)
    outcomes = run_cases(three, settings)
    assert _verdicts(outcomes) == [("one", "passed"), ("two", "failed"), ("three", "passed")]


def test_each_outcome_is_reported_at_once(three: list[Case]) -> None:
    told: list[str] = []
    settings = Settings(target=in_process(schedulers.binds_all_to_a), workers=0)
    run_cases(three, settings, lambda outcome: told.append(outcome.name))
    assert told == ["one", "two", "three"]


def test_fail_fast_leaves_the_rest_out(three: list[Case]) -> None:
    settings = Settings(target=in_process(schedulers.binds_all_to_a), workers=0, fail_fast=True)
    assert _verdicts(run_cases(three, settings)) == [("one", "passed"), ("two", "failed")]


def test_cases_run_in_any_thread(three: list[Case]) -> None:
    settings = Settings(target=in_process(schedulers.binds_all_to_a), workers=0)
    with ThreadPoolExecutor(1) as pool:
        outcomes = pool.submit(run_cases, three[:1], settings).result()
    assert _verdicts(outcomes) == [("one", "passed")]


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("", "a worker process did not start: it wrote nothing"),
        ("raise SystemExit('no module')", "a worker process did not start: no module"),
    ],
)
def test_a_worker_that_does_not_start_is_bad_input(
    program: str, problem: str, three: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!{sys.executable} -S\n{program}\n", encoding="utf-8")
    interpreter.chmod(0o700)
    monkeypatch.setattr("conformance.run.worker_process.sys.executable", str(interpreter))
    with pytest.raises(InputError, match=problem):
        run_cases(three, Settings(workers=1))


@pytest.mark.slow
def test_workers_give_the_same_outcomes_in_the_same_order(three: list[Case]) -> None:
    settings = Settings(target=in_process(schedulers.binds_all_to_a), workers=2)
    outcomes = run_cases(three, settings)
    assert _verdicts(outcomes) == [("one", "passed"), ("two", "failed"), ("three", "passed")]
    assert outcomes[1].reason == "steps[1]: pod p: expected on b, is bound to a"


@pytest.mark.slow
def test_a_scheduler_that_takes_its_process_down_stops_no_other_case(three: list[Case]) -> None:
    settings = Settings(target=in_process(schedulers.takes_the_process_down), workers=1)
    outcomes = run_cases(three, settings)
    assert [outcome.verdict for outcome in outcomes] == [Verdict.ERROR] * 3
    assert outcomes[0].reason == "the scheduler took the worker process down: status 3"
    assert "about to end it all" in outcomes[0].log


@pytest.mark.slow
def test_a_scheduler_that_blocks_its_process_is_given_up(three: list[Case]) -> None:
    settings = Settings(
        target=in_process(schedulers.blocks_the_process),
        workers=1,
        timeout_seconds=0.2,
        grace_seconds=0.2,
        fail_fast=True,
    )
    (outcome,) = run_cases(three, settings)
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "hung: no answer in 0.4s")


# Left behind by pygal, which the replay draws with.
@pytest.mark.filterwarnings("ignore:PluginImportFixer")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (TargetOptions(in_process="nonsense"), "expected MODULE:FUNCTION"),
        (TargetOptions(in_process="no.such:thing"), "No module named 'no'"),
        (TargetOptions(in_process="os:nothing"), "has no attribute 'nothing'"),
        (TargetOptions(in_process="os:sep"), "expected a function"),
        (TargetOptions(command="true"), "expected {kubeconfig} or {config} in it"),
        (TargetOptions(command="no-such-command {config}"), "no-such-command: no such command"),
        (TargetOptions(command="'oops {config}"), "No closing quotation"),
    ],
)
def test_a_target_that_cannot_be_is_bad_input(
    three: list[Case], options: TargetOptions, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        run_cases(three, Settings(target=options, workers=0))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_bad_target_is_bad_input_in_a_worker_as_well(three: list[Case]) -> None:
    settings = Settings(target=TargetOptions(in_process="no.such:thing"), workers=1)
    with pytest.raises(InputError, match=r"^--in-process: .*No module named"):
        run_cases(three, settings)


def test_few_cases_need_few_workers() -> None:
    settings = Settings()
    assert default_workers(settings, 1) == 1
    assert default_workers(settings, 10_000) >= default_workers(settings, 1)
    commands = Settings(target=TargetOptions(command="x {config}"))
    assert default_workers(commands, 1) == 1


def _outcome(verdict: Verdict) -> Outcome:
    return Outcome(area="a", name="n", source="s", origin="o", verdict=verdict)


@pytest.mark.parametrize(
    ("verdicts", "good"),
    [
        ([], False),
        ([Verdict.SKIPPED], False),
        ([Verdict.PASSED], True),
        ([Verdict.PASSED, Verdict.SKIPPED], True),
        ([Verdict.PASSED, Verdict.FAILED], False),
        ([Verdict.PASSED, Verdict.ERROR], False),
    ],
)
def test_good_means_something_passed_and_nothing_failed(
    verdicts: list[Verdict], good: bool
) -> None:
    assert all_passed(map(_outcome, verdicts)) is good
