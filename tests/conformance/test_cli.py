"""The command line: its options, its output, its exit status."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from conformance.cli import main
from conformance.reports.results import results_at
from conformance.run.cli import run

from . import schedulers
from .cases import BOUND

GOOD = f"{schedulers.__name__}:binds_all_to_a"
LAZY = f"{schedulers.__name__}:binds_nothing"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


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


def test_the_results_of_a_version_are_kept_in_its_file(cases: Path, tmp_path: Path) -> None:
    file = tmp_path / "tiny-1.0.json"
    options = ["--cases", cases, "--workers", 0, "--results"]
    for scheduler, passed, failed in ((GOOD, ["tiny/bound"], []), (LAZY, [], ["tiny/bound"])):
        _run("--in-process", scheduler, *options, file)
        found = results_at(file)
        assert (found.scheduler, found.version) == ("tiny", "1.0")
        assert (found.passed, [*found.failed]) == (passed, failed)
    wrong = _run("--in-process", GOOD, *options, tmp_path / "tiny.json")
    assert wrong.exit_code == 2
    assert "--results: expected a file SCHEDULER-VERSION.json, got tiny.json" in wrong.output


def test_the_list_has_ids_levels_and_sources(cases: Path) -> None:
    result = _run("--cases", cases, "--list")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["CASE", "LEVEL", "SOURCE"],
        ["tiny/bound", "core", "nowhere"],
    ]


def test_the_list_of_built_in_cases_has_one_line_each() -> None:
    result = _run("--list", "-k", "filter/taint-*")
    assert result.exit_code == 0
    lines = [line for line in result.stdout.splitlines()[1:] if not line.startswith("    ")]
    assert lines
    assert all(line.startswith("filter/") for line in lines)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-k", "nothing-like-it"], "-k: no case matches 'nothing-like-it'; --list shows all"),
        (["-k", "filter/not-enuogh-cpu"], "did you mean filter/not-enough-cpu?"),
        (["-k", "fliter/"], "-k: no case matches 'fliter/'; did you mean filter/?"),
        (["--skip", "fliter/"], "--skip: no case matches 'fliter/'; did you mean filter/?"),
        (["gpu.yaml"], "unexpected argument gpu.yaml; did you mean --cases gpu.yaml?"),
        (["--cases", "/no/such/place"], "/no/such/place: No such file or directory"),
        (["--target-command", "scheduler"], "expected {kubeconfig} or {config} in it"),
        (["--target-command", "no-such {config}"], "--target-command: no-such: no such command"),
        (["--target-command", ""], "--target-command: the value is empty; is a variable not set?"),
        (["--target-command", " "], "--target-command: the value is empty; is a variable not set?"),
        (["--cases", ""], "--cases: the value is empty; is a variable not set?"),
        (["--junit", ""], "--junit: the value is empty; is a variable not set?"),
        (["-k", ""], "-k: the value is empty; is a variable not set?"),
        (["-l", "core and"], "-l: column 9: expected a word, not, or (, got the end"),
        (["--shard", "5/4"], "--shard: expected a part such as 1/4, got '5/4'"),
        (["--aspects", "placement,colour"], "--aspects: 'colour' is not a valid Aspect; there are"),
        (["--scheduler-version", "new"], "--scheduler-version: expected a version such as 1.36"),
        (["--scheduler-version", "1.33"], "expected 1.34, 1.35, 1.36 or 1.37, got 1.33"),
        (["--supported-features", "x"], "--supported-features: no case has 'x'"),
        (["--known-failures", "/no/such"], "--known-failures: /no/such: No such file"),
        (["--reruns", "1", "--repeat", "2"], "--reruns: not together with --repeat"),
        (["--in-process", "nonsense", "--workers", "0"], "--in-process: expected MODULE:FUNCTION"),
        (["--in-process", GOOD, "--plugin", "x:Y", "--workers", "0"], "has no parameter plugins"),
        (["--plugin", "guards", "--workers", "0"], "--plugin: expected MODULE:CLASS, got 'guards'"),
        (["--plugin", "nowhere:Guard", "--workers", "0"], "--plugin: nowhere:Guard: No module"),
        (["--plugin", "yaml:Guard", "--workers", "0"], "--plugin: yaml:Guard: module 'yaml' has"),
        (
            ["--plugin", "yaml:Dumper", "--workers", "0"],
            '--plugin: yaml:Dumper: plugin "yaml:Dumper": expected a subclass of',
        ),
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["fuzz", "--list"], ["diff", *["--a", "ours", "--b", "ours", "--fuzz", "1"]]]
)
def test_a_package_of_an_extra_that_is_missing_is_named(tmp_path: Path, command: list[str]) -> None:
    # A module of this name that fails as one does that is not installed.
    text = "raise ModuleNotFoundError(\"No module named 'hypothesis'\", name='hypothesis')\n"
    (tmp_path / "hypothesis.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "conformance", *command],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    wanted = "hypothesis is not installed: pip install '.[test]' in kubesched's checkout"
    assert (done.returncode, done.stderr) == (2, f"kubesched-conformance: {wanted}\n")


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


def test_a_known_failure_does_not_fail_the_run(cases: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.txt"
    known.write_text("tiny/bound\n", encoding="utf-8")
    (cases / "two.yaml").write_text(
        BOUND.replace("name: bound", "name: other").replace("bound_to: a", "not_bound: true"),
        encoding="utf-8",
    )
    arguments = ("--cases", cases, "--workers", 0, "--known-failures", known, "--in-process")
    result = _run(*arguments, LAZY)
    assert result.exit_code == 0
    assert "1 passed, 1 known to fail in" in result.stdout
    result = _run(*arguments, GOOD)
    assert result.exit_code == 1
    assert "FAILED tiny/bound: passes, and is a known failure in" in result.stdout


def test_the_last_failed_cases_can_be_run_alone(cases: Path) -> None:
    (cases / "two.yaml").write_text(
        BOUND.replace("name: bound", "name: other").replace("bound_to: a", "bound_to: b"),
        encoding="utf-8",
    )
    arguments = ("--cases", cases, "--workers", 0, "--in-process", GOOD)
    assert "1 passed, 1 failed in" in _run(*arguments).stdout
    assert _run(*arguments, "--last-failed").stdout.splitlines()[-1].startswith("1 failed in")


def test_only_the_chosen_aspects_decide(cases: Path) -> None:
    (cases / "bound.yaml").write_text(
        BOUND.replace("bound_to: a", "not_bound: true, attempts: 1"), encoding="utf-8"
    )
    arguments = ("--cases", cases, "--in-process", LAZY, "--workers", 0)
    assert _run(*arguments).exit_code == 1
    assert _run(*arguments, "--aspects", "placement,status").exit_code == 0


def test_each_case_can_be_run_several_times(cases: Path) -> None:
    arguments = ("--cases", cases, "--workers", 0, "--in-process")
    result = _run(*arguments, f"{schedulers.__name__}:binds_at_the_second_start", "--repeat", 2)
    assert result.exit_code == 1
    assert "FAILED tiny/bound: flaky, 1 of 2 runs failed: steps[1]: pod p: " in result.stdout


def test_a_failed_case_can_be_run_again(cases: Path) -> None:
    arguments = ("--cases", cases, "--workers", 0, "--in-process")
    result = _run(*arguments, f"{schedulers.__name__}:binds_at_the_second_start", "--reruns", 3)
    assert result.exit_code == 0
    assert "flaky tiny/bound: flaky, 1 of 2 runs failed: steps[1]: pod p: " in result.stdout
    assert "1 passed, 1 flaky in" in result.stdout
    assert _run(*arguments, LAZY, "--reruns", 1).exit_code == 1


def test_the_slowest_cases_are_listed(cases: Path) -> None:
    arguments = ("--cases", cases, "--in-process", GOOD, "--workers", 0)
    assert "s tiny/bound" in _run(*arguments, "--durations", 3).stdout


def test_the_help_text_has_groups() -> None:
    text = CliRunner().invoke(run, ["--help"]).stdout
    for group in ("Cases:", "Scheduler:", "Verdicts:", "Running:", "Reports:"):
        assert f"\n{group}\n" in text
