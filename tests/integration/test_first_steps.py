"""Signals from the first instruction on, and a standard output that is closed or full."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

COMMANDS = ("scheduler", "scheduler.explain", "fakeapi")
SECONDS = 60
#: A module that all commands import late.
SLOW_IMPORT = "import time; print('importing', flush=True); time.sleep(60)"
DUMP = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: "4", pods: "9"}}}
- {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_during_the_imports_ends_a_command_without_words(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "msgspec.py").write_text(SLOW_IMPORT, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-m", command],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"importing\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (-signal.SIGINT, b"")


@pytest.mark.parametrize(
    "arguments",
    [
        "scheduler --help",
        "scheduler.explain --manifests dump.yaml",
        "fakeapi --help",
    ],
)
def test_an_output_that_nothing_reads_is_silence_and_a_full_one_a_line(
    tmp_path: Path, arguments: str
) -> None:
    (tmp_path / "dump.yaml").write_text(DUMP, encoding="utf-8")
    command = [sys.executable, "-m", *arguments.split()]
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed, Path("/dev/full").open("wb") as full:
        for output, expected in (
            (closed, ""),
            (full, "standard output: No space left on device\n"),
        ):
            done = subprocess.run(
                command,
                cwd=tmp_path,
                stdout=output,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                timeout=SECONDS,
                check=False,
            )
            assert done.returncode == 1
            assert done.stderr.partition(": ")[2] == expected
            assert done.stderr.count("\n") == bool(expected)
