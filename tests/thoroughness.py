"""Volume of the tests: an eighth for each change, all of it under `tox -e thorough`.

`KUBESCHED_THOROUGH=SEED` asks for all of it. `python -m tests.thoroughness [SEED]` sets it and runs
pytest; without a seed it takes a random one, and prints it.
"""

import os
import random
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, settings

VARIABLE = "KUBESCHED_THOROUGH"

#: The seed of a thorough run; 0 in CI, where every run tries the same.
SEED = int(os.environ.get(VARIABLE) or 0)
IS_THOROUGH = SEED != 0

#: For tests that take seconds, and repeat on a larger scale what another test asserts.
thorough_only = pytest.mark.skipif(not IS_THOROUGH, reason="tox -e thorough runs it")

#: CI tries at least this many examples.
EXAMPLES_MIN = 10


def examples(count: int) -> int:
    """Return how many of `count` examples to try."""
    return count if IS_THOROUGH else max(count // 8, min(count, EXAMPLES_MIN))


def load_hypothesis_profile() -> None:
    """Register Hypothesis' profiles `ci` and `thorough`, and load one of them."""
    unhurried = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("ci", unhurried, max_examples=examples(100), derandomize=True)
    settings.register_profile("thorough", unhurried, print_blob=True)
    settings.load_profile("thorough" if IS_THOROUGH else "ci")


def main(arguments: list[str]) -> int:
    """Run pytest with all examples, from a seed."""
    seed = int(arguments[0]) if arguments else random.randrange(1, 2**32)
    print(f"seed {seed}: python -m tests.thoroughness {seed}", flush=True)
    return subprocess.run(
        (
            *(sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal"),
            *(f"--hypothesis-seed={seed}", f"--randomly-seed={seed}", *arguments[1:]),
        ),
        env={**os.environ, VARIABLE: str(seed)},
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
