"""Unmodified clients, where they are installed; without a client its tests are skipped."""

import contextlib
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

#: Seconds after which a client or a server that hangs is given up.
PATIENCE_SECONDS = 60.0


@functools.cache
def kubectls() -> list[str]:
    """Return every kubectl: $KUBECTL and the one in PATH."""
    candidates = [os.environ.get("KUBECTL", ""), shutil.which("kubectl") or ""]
    found = [Path(name).resolve() for name in candidates if name and os.access(name, os.X_OK)]
    return [str(path) for path in dict.fromkeys(found)]


class Kubectl:
    """A kubectl that talks to one server and keeps its caches to itself."""

    def __init__(self, program: str, kubeconfig: Path, home: Path) -> None:
        self.program = program
        self.environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(home),
            "KUBECACHEDIR": str(home / "cache"),
        }

    def run(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """The result of a command; `given` is its standard input."""
        return subprocess.run(
            [self.program, *arguments],
            input=given,
            env=self.environment,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that goes on; what it prints, complaints too, is its standard output."""
        return subprocess.Popen(
            [self.program, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def __call__(self, *arguments: str, given: str = "") -> str:
        """Return the output of a command that must succeed."""
        done = self.run(*arguments, given=given)
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def refused(self, *arguments: str, given: str = "") -> str:
        """Return the error output of a command that must fail."""
        done = self.run(*arguments, given=given)
        assert done.returncode != 0, f"{' '.join(arguments)} succeeded: {done.stdout}"
        return done.stderr

    @functools.cached_property
    def minor_version(self) -> int:
        """The 36 of v1.36.3."""
        shown = self("version", "--client", "--output=yaml")
        line = next(line for line in shown.splitlines() if line.strip().startswith("minor:"))
        return int(line.partition(":")[2].strip().strip('"+'))


@contextlib.contextmanager
def fake_api_process(directory: Path, *arguments: str) -> Iterator[Path]:
    """A server in a process of its own; the kubeconfig that leads to it."""
    path = directory / "kubeconfig"
    command = [sys.executable, "-m", "fakeapi", "--kubeconfig-out", str(path), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("http")
            yield path
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
