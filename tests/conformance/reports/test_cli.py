"""`run --report`, `report`, and the commands of the example for GitHub Actions."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from conformance.cli import main
from conformance.format.case import BUILT_IN, load_cases
from conformance.reports.bugs import bugs_page
from conformance.reports.cli import _BEGIN as BEGIN
from conformance.reports.cli import _END as END
from tests.thoroughness import thorough_only

from .. import schedulers
from ..cases import BOUND

ROOT = Path(__file__).parents[3]
ACTION = ROOT / "docs" / "conformance-action.yml"
GOOD = f"{schedulers.__name__}:binds_all_to_a"
LAZY = f"{schedulers.__name__}:binds_nothing"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    file = tmp_path / "bound.yaml"
    file.write_text(BOUND, encoding="utf-8")
    return file


def _invoke(*args: object) -> Result:
    return CliRunner().invoke(main, [*map(str, args)])


def _run(cases: Path, scheduler: str, *args: object) -> Result:
    return _invoke("run", "--cases", cases, "--in-process", scheduler, "--workers", 0, *args)


def _report(cases: Path, scheduler: str, file: Path, name: str = "tiny 2.3") -> None:
    _run(cases, scheduler, "--report", file, "--implementation", name)


def test_a_run_writes_reports_in_all_forms(cases: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"report.{form}" for form in ("json", "md", "html", "xml")]
    options = [word for file in files for word in ("--report", file)]
    result = _run(cases, LAZY, *options, "--implementation", "my scheduler 2.3", "--seed", 4)
    assert result.exit_code == 1
    document = json.loads(files[0].read_bytes())
    assert document["implementation"] == {
        "name": "my scheduler",
        "version": "2.3",
        "target": LAZY,
    }
    assert (document["seed"], document["behaves_like"]) == (4, "1.36")
    assert document["counts"]["verdicts"] == {"failed": 1}
    assert files[1].read_text(encoding="utf-8").startswith("## Scheduler conformance: my scheduler")
    assert "tiny/bound" in files[2].read_text(encoding="utf-8")
    assert 'failures="1"' in files[3].read_text(encoding="utf-8")


def test_a_comparison_is_written_to_a_file(cases: Path, tmp_path: Path) -> None:
    good, lazy, output = tmp_path / "good.json", tmp_path / "lazy.json", tmp_path / "both.md"
    _report(cases, GOOD, good)
    _report(cases, LAZY, lazy)
    printed = _invoke("report", "--compare", good, lazy)
    written = _invoke("report", "--compare", good, lazy, "-o", output)
    assert (printed.exit_code, written.exit_code, written.output) == (1, 1, "")
    assert output.read_text(encoding="utf-8") == printed.output
    assert "tiny/bound" in printed.output


def test_the_results_and_the_bugs_are_pages(tmp_path: Path) -> None:
    table = _invoke("matrix").output
    readme = tmp_path / "readme.md"
    readme.write_text(f"before\n{BEGIN}{END}after\n", encoding="utf-8")
    outdated = _invoke("matrix", "--into", readme, "--check")
    assert (outdated.exit_code, "the table is not that of" in outdated.output) == (1, True)
    assert _invoke("matrix", "--into", readme).exit_code == 0
    assert readme.read_text(encoding="utf-8") == f"before\n{BEGIN}\n{table}\n{END}after\n"
    assert _invoke("matrix", "--into", readme, "--check").exit_code == 0
    assert _invoke("bugs").output == bugs_page(load_cases([BUILT_IN]))


@pytest.mark.parametrize(
    ("file", "error"),
    [
        ("report.pdf", "expected a suffix of .json, .md, .html, .xml"),
        ("no/such/place/report.md", "No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_written_ends_the_run_before_it_begins(
    cases: Path, tmp_path: Path, file: str, error: str
) -> None:
    result = _run(cases, GOOD, "--report", tmp_path / file)
    assert result.exit_code == 2
    assert f"--report: {tmp_path / file}: {error}" in result.stderr
    assert result.stdout == ""


def test_the_scheduler_is_named_by_its_target(cases: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    command = "/usr/bin/false --kubeconfig {kubeconfig}"
    _invoke("run", "--cases", cases, "--target-command", command, "--report", file)
    named = json.loads(file.read_bytes())["implementation"]
    assert named == {"name": "false", "version": "", "target": command}


def test_a_report_is_converted_and_compared(cases: Path, tmp_path: Path) -> None:
    good, lazy, page = tmp_path / "good.json", tmp_path / "lazy.json", tmp_path / "page.html"
    _report(cases, GOOD, good)
    _report(cases, LAZY, lazy, "other 1.0")
    shown = _invoke("report", good, "-o", page)
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert "tiny/bound" in page.read_text(encoding="utf-8")
    assert "**1 passed**" in _invoke("report", good).stdout
    worse = _invoke("report", "--compare", good, lazy)
    assert worse.exit_code == 1
    assert "- `tiny/bound` passed → failed" in worse.stdout
    assert _invoke("report", "--compare", lazy, good).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--compare", "good.json"), "--compare: expected two files, got 1"),
        (("--compare", "good.json", "good.json", "-o", "x.html"), "the form .md only"),
        (("good.json", "good.json"), "case tiny/bound is in two of the reports"),
        (("bound.yaml",), "bound.yaml: expected a report as JSON"),
    ],
)
def test_wrong_arguments_are_named(
    cases: Path, tmp_path: Path, arguments: tuple[str, ...], error: str
) -> None:
    _report(cases, GOOD, tmp_path / "good.json")
    given = [tmp_path / word if "." in word else word for word in arguments]
    result = _invoke("report", *given)
    assert result.exit_code == 2
    assert error in result.stderr


def _scripts(action: dict[str, Any]) -> list[str]:
    return [
        step["run"].replace("${{ matrix.shard }}", str(shard))
        for name, job in action["jobs"].items()
        for shard in ((1, 2) if name == "shard" else (0,))
        for step in job["steps"]
        if "run" in step
    ]


#: The package is installed already; its checkout must be where the workflow has it.
PIP = """#!/bin/sh
test "$1" = install && test -f "$2/pyproject.toml"
"""
REJECTING = """
from scheduler import Plugin, unschedulable

class Rejecting(Plugin):
    def filter(self, state, pod, node):
        return unschedulable("no")
"""


@thorough_only  # reports are merged and compared above, and by the commands of the README
@pytest.mark.slow
def test_the_commands_of_the_action_are_red_only_for_what_got_worse(tmp_path: Path) -> None:
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    summary, pip = tmp_path / "summary.md", tmp_path / "bin" / "pip"
    pip.parent.mkdir()
    pip.write_text(PIP, encoding="utf-8")
    pip.chmod(0o755)
    (tmp_path / "rejecting.py").write_text(REJECTING, encoding="utf-8")
    (tmp_path / "kubesched").symlink_to(ROOT)
    path = (str(pip.parent), str(Path(sys.executable).parent), os.environ["PATH"])
    environ = {
        **os.environ,
        **action["env"],
        "PATH": os.pathsep.join(path),
        "GITHUB_STEP_SUMMARY": str(summary),
        "SCHEDULER": "kubesched --kubeconfig {kubeconfig} --secure-port 0 "
        "--plugin rejecting:Rejecting",
    }

    def status(script: str) -> int:
        some = script.replace("run --target", "run -k filter/node-name --target")
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", some], cwd=tmp_path, env=environ, check=False
        ).returncode

    # In its first run there is no report of the main branch: it is made at the end.
    (compares,) = [script for script in _scripts(action) if "--compare" in script]
    scripts = [script for script in _scripts(action) if script is not compares]
    assert {script: status(script) for script in scripts} == dict.fromkeys(scripts, 0)
    assert status(compares) == 0
    assert "0 worse, 0 better" in summary.read_text(encoding="utf-8")
    failed = (tmp_path / "known-failures.txt").read_text(encoding="utf-8")
    assert failed.startswith("filter/node-name")
    base = tmp_path / "base.json"
    base.write_text(base.read_text("utf-8").replace('"failed"', '"passed"'), encoding="utf-8")
    assert status(compares) == 1


def test_failures_of_a_report_are_known_in_the_next_run(cases: Path, tmp_path: Path) -> None:
    lazy, known = tmp_path / "lazy.json", tmp_path / "known.txt"
    _report(cases, LAZY, lazy)
    shown = _invoke("report", lazy, "--known-failures", known)
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert known.read_text(encoding="utf-8").startswith("tiny/bound  # ")
    assert "1 known" in _run(cases, LAZY, "--known-failures", known).stdout


def test_only_aspects_that_both_have_judged_are_compared(cases: Path, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.json", tmp_path / "part.json"
    _report(cases, LAZY, whole)
    _run(cases, LAZY, "--report", part, "--aspects", "events")
    compared = _invoke("report", "--compare", part, whole)
    assert "**0 worse, 0 better**" in compared.stdout
