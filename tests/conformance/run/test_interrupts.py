"""Signals: nothing of a run remains, and the outcomes until then are reported."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .. import schedulers

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
#: A scheduler that never opens a watch, with a child.
COMMAND = "sh -c 'sleep 1000 & sleep 1000' {kubeconfig}"
CASES = """
area: tiny
cases:
- {name: first, source: s, steps: [wait_until_settled: ]}
- {name: second, source: s, steps: [wait_until_settled: ]}
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command whose temporary files are in `tmp`."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "cases.yaml").write_text(CASES, encoding="utf-8")
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path / "tmp"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    with contextlib.ExitStack() as stack:

        def run(*arguments: str) -> subprocess.Popen[str]:
            cases = () if arguments[0] == "fuzz" else ("--cases", str(tmp_path / "cases.yaml"))
            process = subprocess.Popen(
                [sys.executable, "-m", "conformance", *arguments, *cases],
                env=environment,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                start_new_session=True,
            )
            stack.callback(process.kill)
            return stack.enter_context(process)

        yield run


def _eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    return holds()


def _groups(folder: Path) -> list[int]:
    """Return the process groups of a run; none if a folder goes while they are read."""
    with contextlib.suppress(FileNotFoundError):
        return [int(text) for file in folder.rglob("*.pid") if (text := file.read_text("utf-8"))]
    return []


def _is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


TARGETS = {
    "command": ("run", "--target-command", COMMAND),
    "workers": (
        "run",
        "--in-process",
        f"{schedulers.__name__}:blocks_the_process",
        "--workers",
        "2",
    ),
    "fuzz": ("fuzz", "--target-command", COMMAND, "--workers", "2"),
}


@pytest.mark.parametrize(
    ("target", "number"),
    [
        ("command", signal.SIGKILL),
        ("command", signal.SIGHUP),
        ("workers", signal.SIGKILL),
        ("fuzz", signal.SIGKILL),
        ("fuzz", signal.SIGINT),
    ],
)
def test_no_process_and_no_file_remain(
    start: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
    target: str,
    number: signal.Signals,
) -> None:
    process = start(*TARGETS[target])
    temporary = tmp_path / "tmp"
    assert _eventually(lambda: len(_groups(temporary)) == 2)
    groups = _groups(temporary)
    process.send_signal(number)
    process.wait()
    assert _eventually(lambda: all(map(_is_gone, groups)))
    assert _eventually(lambda: not [*temporary.iterdir()])


def test_the_comparisons_until_then_are_reported(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    file = tmp_path / "diff.json"
    process = start("diff", "--a", "ours", "--b", COMMAND, "--json", str(file))
    assert process.stdout is not None
    temporary = tmp_path / "tmp"
    assert _eventually(lambda: len(_groups(temporary)) == 1)
    groups = _groups(temporary)
    process.send_signal(signal.SIGTERM)
    output = process.stdout.read()
    assert process.wait() == 128 + signal.SIGINT
    assert "interrupted after 0 of 2 scenarios" in output
    assert json.loads(file.read_bytes())["scenarios"] == []
    assert _eventually(lambda: all(map(_is_gone, groups)))
    assert _eventually(lambda: not [*temporary.iterdir()])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_outcomes_until_then_are_reported_and_nothing_remains(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, number: signal.Signals
) -> None:
    junit = tmp_path / "junit.xml"
    target = f"{schedulers.__name__}:blocks_at_the_second_start"
    process = start("run", "--in-process", target, "--workers", "1", "--junit", str(junit))
    assert process.stdout is not None
    assert process.stdout.readline() == "1 of 2 cases, 0 failed\n"
    temporary = tmp_path / "tmp"
    groups = _groups(temporary)
    assert len(groups) == 1
    process.send_signal(number)
    output = process.stdout.read()
    assert process.wait() == 128 + number
    assert "1 passed in" in output
    assert f"ended by {number.name}: 1 of 2 cases were not run" in output
    assert ElementTree.parse(junit).getroot().get("tests") == "1"
    assert _eventually(lambda: all(map(_is_gone, groups)))
    assert _eventually(lambda: not [*temporary.iterdir()])
