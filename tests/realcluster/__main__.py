"""Run a real cluster until a signal ends it: `python -m tests.realcluster`.

It prints the URL, the bearer token and the kubeconfig of an administrator, and the directory of
logs and data, which is deleted at the end. Volumes get the finalizer of their protection.
"""

import contextlib
import signal
import sys
import tempfile
from pathlib import Path

from tests.realcluster.cluster import WITHOUT_CONTROLLER, RealCluster


def main() -> None:
    """Run the command."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with (
        contextlib.suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory() as name,
        RealCluster(Path(name), disabled_admission=WITHOUT_CONTROLLER[:2]) as cluster,
    ):
        print(cluster.url, cluster.token, cluster.kubeconfig, name, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
