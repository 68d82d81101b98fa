"""The types of the three packages, and of a plugin author's example, are strict."""

import subprocess
import sys

import pytest

from tests.sources import ROOT

pytestmark = pytest.mark.slow


def test_mypy_finds_no_mistake() -> None:
    """As `tox -e types`; here it takes one of the cores while other tests take the other."""
    for arguments in ([], ["tests/typing_example.py"]):
        done = subprocess.run(
            [
                sys.executable,
                "-W",
                "ignore::EncodingWarning",
                "-m",
                "mypy",
                "--no-error-summary",
                *arguments,
            ],
            cwd=ROOT,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert (done.stdout + done.stderr, done.returncode) == ("", 0)
