"""The command line: its options, its output, its exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from conformance.cli import main

from . import schedulers
from .cases import BOUND

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

GOOD = f"{schedulers.__name__}:binds_all_to_a"
LAZY = f"{schedulers.__name__}:binds_nothing"


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    directory = tmp_path / "cases"
    directory.mkdir()
    (directory / "bound.yaml").write_text(BOUND, encoding="utf-8")
    return directory


def _run(*args: object) -> Result:
    return CliRunner().invoke(main, ["run", *map(str, args)])


def test_all_is_well(cases: Path) -> None:
    result = _run("--cases", cases, "--in-process", GOOD, "--workers", 0)
    assert result.exit_code == 0
    assert "1 passed in" in result.stdout


def test_a_failure_shows_in_the_exit_status(cases: Path) -> None:
    result = _run("--cases", cases, "--in-process", LAZY, "--workers", 0)
    assert result.exit_code == 1
    assert "FAILED tiny/bound" in result.stdout


def test_nothing_run_is_not_success(cases: Path) -> None:
    (cases / "bound.yaml").write_text(
        BOUND.replace("steps:\n", "steps:\n  - advance: 1h\n"), encoding="utf-8"
    )
    result = _run("--cases", cases, "--target-command", "true {kubeconfig}")
    assert result.exit_code == 1
    assert "1 skipped" in result.stdout
    assert "needs 3600s of real time, --real-time-max is 20s" in result.stdout


def test_junit_is_written(cases: Path, tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    result = _run("--cases", cases, "--in-process", GOOD, "--workers", 0, "--junit", file)
    assert result.exit_code == 0
    assert ElementTree.parse(file).getroot().get("tests") == "1"


def test_the_list_names_cases_areas_and_sources(cases: Path) -> None:
    result = _run("--cases", cases, "--list")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["NAME", "AREA", "SOURCE"],
        ["bound", "tiny", "nowhere"],
    ]


def test_the_list_of_built_in_cases_has_one_line_each() -> None:
    result = _run("--list", "-k", "filter/taint-*")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()[1:]
    assert lines
    assert all(line.split()[1] == "filter" for line in lines)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-k", "nothing-like-it"], "no case matches 'nothing-like-it'"),
        (["--cases", "/no/such/place"], "/no/such/place: No such file or directory"),
        (["--target-command", "scheduler"], "expected {kubeconfig} or {config} in it"),
        (["--target-command", "no-such {config}"], "--target-command: no-such: no such command"),
        (["--in-process", "nonsense", "--workers", "0"], "--in-process: expected MODULE:FUNCTION"),
        (["--in-process", GOOD, "--plugin", "x:Y", "--workers", "0"], "has no parameter plugins"),
        (["--plugin", "guards", "--workers", "0"], "--plugin: expected MODULE:CLASS, got 'guards'"),
        (["--plugin", "nowhere:Guard", "--workers", "0"], "--plugin: nowhere:Guard: No module"),
        (["--plugin", "yaml:Guard", "--workers", "0"], "--plugin: yaml:Guard: module 'yaml' has"),
        (
            ["--plugin", "a:B", "--target-command", "kubesched {config}"],
            "in --target-command write the command's own flag",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(args: list[str], message: str) -> None:
    result = _run(*args)
    assert result.exit_code == 2
    assert result.stderr.startswith("kubesched-conformance: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_report_that_cannot_be_written_is_one_line(cases: Path) -> None:
    file = "/no/such/place/junit.xml"
    result = _run("--cases", cases, "--in-process", GOOD, "--workers", 0, "--junit", file)
    assert result.exit_code == 2
    assert f"--junit: {file}: No such file or directory" in result.stderr


def test_no_case_runs_if_the_report_cannot_be_written(cases: Path) -> None:
    file = "/no/such/place/junit.xml"
    result = _run("--cases", cases, "--in-process", GOOD, "--workers", 0, "--junit", file)
    assert "passed" not in result.stdout


def test_plugins_are_passed_to_the_scheduler_in_process(cases: Path) -> None:
    target = f"{schedulers.__name__}:binds_unless_there_are_plugins"
    plugin = f"{schedulers.__name__}:TinyScheduler"
    arguments = ("--cases", cases, "--in-process", target, "--workers", 0)
    assert _run(*arguments).exit_code == 0
    assert _run(*arguments, "--plugin", plugin).exit_code == 1


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.stdout.startswith("kubesched-conformance 0.")


def test_other_subcommands_can_be_added() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert "run " in result.stdout
    assert "replay " in result.stdout
    assert CliRunner().invoke(main, ["no-such-command"]).exit_code == 2
