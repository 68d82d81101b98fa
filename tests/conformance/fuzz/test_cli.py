"""The command: exit status, counterexamples as files that fail again, invalid input."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from conformance.api import Json
from conformance.errors import InputError
from conformance.format.case import load_cases
from conformance.fuzz.campaign import Result as Searched
from conformance.fuzz.cli import _progress, fuzz
from conformance.fuzz.counterexample import write
from conformance.fuzz.search import Found
from conformance.invariants import INVARIANTS
from conformance.lint.checks import findings_in_cases
from tests.conformance import schedulers, wrong_schedulers
from tests.conformance.cases import in_process, run_one


def _fuzz(directory: Path, *arguments: str) -> Result:
    command = ["--workers", "0", "--output", str(directory), *arguments]
    return CliRunner().invoke(fuzz, command)


def _in_process(function: Callable[..., object]) -> str:
    return in_process(function).in_process


@pytest.mark.slow
def test_a_broken_invariant_is_a_case_that_fails_again(tmp_path: Path) -> None:
    wrong = schedulers.binds_all_to_a
    result = _fuzz(
        tmp_path,
        *("--in-process", _in_process(wrong), "--examples", "10"),
        *("--invariants", "taints_respected"),
    )
    assert result.exit_code == 1, result.output
    assert "taints_respected: pod" in result.output
    assert "run again" not in result.output
    (case,) = load_cases([tmp_path])
    assert [*findings_in_cases([case])] == []
    assert case.id == "fuzz/taints-respected"
    assert case.description.startswith(INVARIANTS["taints_respected"].sentence)
    assert run_one(case, in_process(wrong)).is_bad


def test_in_real_time_each_case_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with _progress(3, line_seconds=0.0) as on_progress:
        for number in (1, 2, 3):
            on_progress(number, int(number == 3))
    assert capsys.readouterr().err.splitlines() == [
        "1 of 3 cases, 0 invariants broken",
        "2 of 3 cases, 0 invariants broken",
        "3 of 3 cases, 1 invariants broken",
        "looking for the smallest cases, for up to 5 minutes each",
    ]


def test_all_is_well(tmp_path: Path) -> None:
    result = _fuzz(tmp_path / "none", "--examples", "3", "--invariants", "no_overcommit")
    assert result.exit_code == 0, result.output
    assert "3 cases, 1 invariants, 0 broken, seed 0" in result.output
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_a_comparison_is_a_case_of_one_decision(tmp_path: Path) -> None:
    result = _fuzz(
        tmp_path,
        *("--in-process", _in_process(wrong_schedulers.likes_early_names), "--examples", "5"),
        *("--invariants", "verdicts_independent_of_order_and_names"),
    )
    assert result.exit_code == 1, result.output
    (case,) = load_cases([tmp_path])
    assert [*findings_in_cases([case])] == []
    assert run_one(case, in_process(wrong_schedulers.likes_early_names)).is_bad


@pytest.mark.slow
def test_a_scheduler_that_dies_is_a_case_that_breaks_off(tmp_path: Path) -> None:
    wrong = schedulers.in_disorder
    result = _fuzz(
        tmp_path,
        *("--in-process", _in_process(wrong), "--examples", "5"),
        *("--invariants", "runs_to_the_end"),
    )
    assert result.exit_code == 1, result.output
    (case,) = load_cases([tmp_path])
    assert [*findings_in_cases([case])] == []
    assert run_one(case, in_process(wrong)).is_bad


def test_lost_tasks_and_refused_cases_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = Searched(examples=2, errors=["examples 0 to 1: gone"], refused=["no room", "so"])
    monkeypatch.setattr("conformance.fuzz.cli.search", lambda *_: searched)
    result = _fuzz(tmp_path, "--invariants", "no_overcommit")
    assert result.exit_code == 1
    assert result.output.splitlines()[:2] == [
        "error: examples 0 to 1: gone",
        "2 cases could not be run, first: no room",
    ]
    assert result.output.splitlines()[-1] == "error: no case was run"


def test_a_case_that_cannot_be_written_is_invalid_input(tmp_path: Path) -> None:
    steps: list[Json] = [
        {"create": [{"pod": {"name": "p"}}]},
        {"expect": {"pod": "p", "gated": True}},
    ]
    found = Found(invariant="no_overcommit", text="wrong", raw={"steps": steps})
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"--output: .*/no_overcommit\.yaml: File exists"):
        write(found, tmp_path / "file")
    text = write(found, tmp_path).with_suffix(".md").read_text(encoding="utf-8")
    assert text.endswith("Seen: wrong.\n")


def test_invariants_are_listed(tmp_path: Path) -> None:
    result = _fuzz(tmp_path, "--list")
    assert result.exit_code == 0
    for name in INVARIANTS:
        assert f"{name}: " in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--invariants", "nothing"], "--invariants: expected some of"),
        (["--in-process", "nowhere"], "--in-process: expected MODULE:FUNCTION"),
        (["--target-command", " "], "--target-command: the value is empty"),
        (["--executor", "nowhere"], "--executor: expected MODULE:FACTORY"),
    ],
)
def test_invalid_input(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = _fuzz(tmp_path, *arguments)
    assert result.exit_code == 2
    assert message in result.output
