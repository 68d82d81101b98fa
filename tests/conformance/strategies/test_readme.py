"""The examples of the README's chapter about properties run, and have strict types."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import conformance
from tests.thoroughness import thorough_only

pytestmark = pytest.mark.slow

_README = (Path(conformance.__file__).parent / "README.md").read_text(encoding="utf-8")
_FILES = dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", _README, re.DOTALL))
_TESTS = ["test_full_nodes.py", "test_invariants.py", "test_teams.py"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name, text in _FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def _run(*arguments: str, directory: Path) -> None:
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, encoding="utf-8", timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_examples_pass(directory: Path) -> None:
    _run("pytest", "-q", "-p", "no:cacheprovider", *_TESTS, directory=directory)


@thorough_only
def test_the_examples_have_strict_types(directory: Path) -> None:
    _run("mypy", "--strict", *_TESTS, directory=directory)
