"""A newcomer who copies the commands of a page of documentation into a shell."""

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import conformance.cli
import scheduler.explain.cli
import scheduler.simulate.cli

SCRIPTS = Path(sys.executable).parent
TIMEOUT_SECONDS = 120

#: The commands that `run_here` runs.
_COMMANDS = {
    "kubesched-conformance": conformance.cli.main,
    "kubesched-explain": scheduler.explain.cli.main,
    "kubesched-simulate": scheduler.simulate.cli.main,
}


def run(command: str, directory: Path) -> str:
    """Return the output of a command; it must succeed."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=_environ(directory),
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_here(command: str, directory: Path, *, status: int = 0, stdin: str | None = None) -> str:
    """Return the output of one of our commands, run in this process, which has imported it.

    Modules in the directory are forgotten afterwards.
    """
    name, *arguments = shlex.split(command)
    with contextlib.chdir(directory), pytest.MonkeyPatch.context() as patch:
        for variable, value in _environ(directory).items():
            patch.setenv(variable, value)
        patch.syspath_prepend(directory)
        arguments = [os.path.expanduser(argument) for argument in arguments]
        done = CliRunner().invoke(_COMMANDS[name], arguments, stdin, prog_name=name)
    for module in [each for each in sys.modules if (directory / f"{each}.py").exists()]:
        del sys.modules[module]
    assert done.exit_code == status, f"{command}\n{done.output}"
    return done.output


@contextlib.asynccontextmanager
async def running(command: str, directory: Path) -> AsyncIterator[None]:
    """Run a command while the block runs; it must end well on SIGTERM."""
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", f"exec {command}"),
        cwd=directory,
        env=_environ(directory),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            _, stderr = await process.communicate()
        assert process.returncode == 0, stderr.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def lines(text: str) -> list[str]:
    """Return the lines with text, runs of spaces as one."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def write_kubeconfig(home: Path, kubeconfig: str) -> None:
    """Write the kubeconfig to the place where the pages have it, `~/.kube/config`."""
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text(kubeconfig, encoding="utf-8")


def _environ(home: Path) -> dict[str, str]:
    """A newcomer's shell, our environment's commands first in it."""
    environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    path = os.pathsep.join((str(SCRIPTS), environ["PATH"]))
    return {**environ, "PATH": path, "HOME": str(home), "COLUMNS": "200"}
