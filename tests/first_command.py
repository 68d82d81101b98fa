"""Runs the README's first command in a fresh checkout, as a newcomer does: the conformance suite.

Arguments are added to the command: `python -m tests.first_command --junit FILE`.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.documentation import Page
from tests.sources import ROOT

#: Files that are not in a checkout.
LEFT_OVER = shutil.ignore_patterns(
    ".git", ".venv", ".tox", ".*_cache", ".hypothesis", "__pycache__"
)


def first_command() -> str:
    """Return the first block of the README."""
    return Page("README.md").of("sh")[0]


def main(arguments: list[str]) -> int:
    """Run the command; print what it prints if it fails."""
    environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    with tempfile.TemporaryDirectory() as directory:
        checkout = shutil.copytree(ROOT, Path(directory) / "kubesched", ignore=LEFT_OVER)
        done = subprocess.run(
            ("bash", "-c", f"{first_command()} {shlex.join(arguments)}"),
            cwd=checkout,
            # The checkout is thrown away: compiled modules would not be read again.
            env={**environ, "PIP_NO_COMPILE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            sys.stdout.write(done.stdout)
        return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
