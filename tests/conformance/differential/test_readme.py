"""The examples of conformance/README.md about two schedulers and about incidents are run."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import conformance
from conformance.format.case import load_cases
from tests.newcomer import run_here
from tests.thoroughness import thorough_only

README = Path(conformance.__file__).with_name("README.md").read_text(encoding="utf-8")
SCRIPTS = Path(sys.executable).parent

pytestmark = pytest.mark.slow


def _section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _files(section: str) -> dict[str, str]:
    found = re.finditer(r"`(\S+\.yaml)`:\n\n```yaml\n(.*?)```", section, re.DOTALL)
    return {match[1]: match[2] for match in found}


def _shell(section: str) -> str:
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return str(block)


def _run(folder: Path, commands: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", "-c", f"set -e\n{commands}"],
        cwd=folder,
        env=environ,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )


def test_two_schedulers_differ_as_the_readme_shows(tmp_path: Path) -> None:
    section = _section("Two schedulers in the same scenarios")
    files = _files(section)
    assert sorted(files) == ["cluster.yaml", "packed.yaml"]
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    printed = run_here(_shell(section), tmp_path, status=1)
    (shown,) = re.findall(r"```\n(First divergence.*?)```", section, re.DOTALL)
    for line in shown.splitlines():
        assert line.removesuffix("...").rstrip() in printed
    assert json.loads((tmp_path / "diff.json").read_bytes())["verdicts"] == {"differs": 1}


@thorough_only  # its commands have tests of their own, each in its folder
def test_an_incident_becomes_a_small_case_as_the_readme_shows(
    tmp_path: Path, serve: Callable[[Path, str], None]
) -> None:
    cluster = _files(_section("Two schedulers in the same scenarios"))["cluster.yaml"]
    serve(tmp_path, cluster)
    ended = _run(tmp_path, _shell(_section("From an incident to a case")))
    assert ended.returncode == 0, ended.stderr
    assert "Our scheduler decides the same." in ended.stdout
    assert "Kept: 1 expectation; default/pod-2: 2 or more feasible nodes" in ended.stdout
    assert "1 passed" in ended.stdout
    (case,) = load_cases([tmp_path / "small.yaml"])
    assert len(case.raw["cluster"]) == 2
