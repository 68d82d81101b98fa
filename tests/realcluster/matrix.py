"""Judge stock kube-schedulers and keep the results: `tox -e upstream -- VERSION [OPTIONS]`.

    python -m tests.realcluster.matrix 1.37.2                  # all cases: half an hour
    python -m tests.realcluster.matrix 1.37.2 -k queue/new     # some; the other results are kept
    python -m tests.realcluster.matrix 1.37.2 --real-time-max 7300 -k queue/  # two hours of waiting
    python -m tests.realcluster.matrix ours@1.37               # ours, in virtual time

The scheduler is built by Go if it is not in the cache (binaries.py). Without Go nothing is run.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.realcluster.binaries import KUBE_SCHEDULER, NoBinary

ROOT: Final = Path(__file__).parent.parent.parent
RESULTS: Final = ROOT / "conformance" / "results"
_OURS: Final = "ours@"
_FLAGS: Final = (
    "--config {config} --secure-port={port} --feature-gates={feature-gates}"
    " --authorization-always-allow-paths=/metrics"
)
#: Enough for the cases that wait for the flush of unschedulable pods, five minutes.
_REAL_SECONDS_MAX: Final = 400


def main(arguments: list[str]) -> int:
    """Run the suite for one version; return the exit status."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    version, *options = arguments
    if version.startswith(_OURS):
        version = version.removeprefix(_OURS)
        return _judge(f"kubesched as-{version}", ["--scheduler-version", version, *options])
    try:
        binary = KUBE_SCHEDULER.find(f"v{version.removeprefix('v')}")
    except NoBinary as error:
        print(f"nothing was run: {error}", file=sys.stderr)
        return 0
    command = ["--target-command", f"{binary} {_FLAGS}", "--scheduler-version", version]
    command += ["--real-time-max", str(_REAL_SECONDS_MAX)]
    return _judge(f"kube-scheduler-{version.removeprefix('v')}", [*command, *options])


def _judge(name: str, options: list[str]) -> int:
    results = RESULTS / f"{name}.json"
    command = [sys.executable, "-m", "conformance", "run", "--results", str(results), *options]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
