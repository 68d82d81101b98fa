"""A server with its scheduler, as processes."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

START_SECONDS = 60.0


@pytest.fixture
def serve() -> Iterator[Callable[[Path, str], None]]:
    """Return a function that serves objects until all pods are decided.

    The kubeconfig is the file `kubeconfig` in the folder.
    """
    with ExitStack() as stack:

        def start(folder: Path, objects: str) -> None:
            (folder / "objects.yaml").write_text(objects, encoding="utf-8")
            kubeconfig = folder / "kubeconfig"
            fakeapi = (sys.executable, "-m", "fakeapi", "--load", str(folder / "objects.yaml"))
            _start(stack, *fakeapi, "--kubeconfig-out", str(kubeconfig))
            _wait(kubeconfig.exists)
            ours = (sys.executable, "-m", "scheduler", "--kubeconfig", str(kubeconfig))
            log = folder / "scheduler.log"
            _start(stack, *ours, "--leader-elect=false", "--secure-port=0", "-v=2", log=log)
            _wait(lambda: "bound" in log.read_text(encoding="utf-8"))

        yield start


def _start(stack: ExitStack, *command: str, log: Path | None = None) -> None:
    output = subprocess.DEVNULL if log is None else stack.enter_context(log.open("wb"))
    process = subprocess.Popen(command, stdout=output, stderr=output)
    stack.callback(process.wait)
    stack.callback(process.terminate)


def _wait(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)
