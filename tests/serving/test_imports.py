"""A process that serves nothing does not load the server."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

HEAVY = ("aiohttp.web", "cryptography", "scheduler.serving.serve")


@pytest.mark.parametrize("module", ["scheduler.cli", "scheduler.testing.in_process"])
def test_starting_loads_nothing_of_the_server(module: str) -> None:
    program = f"import sys, {module}; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout == "[]\n"
