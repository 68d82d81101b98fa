"""Real processes: their last words, their bill, and that none is left behind."""

import sys
from pathlib import Path

import pytest

from conformance.clock import RealClock
from conformance.errors import ProcessFailure
from conformance.replay.processes import Child

pytestmark = pytest.mark.slow

#: Prints that it is ready, works for a while, and waits for SIGTERM.
BUSY = """
import signal, sys
held = b"x" * (64 << 20)
print("ready", flush=True)
sum(number * number for number in range(400_000))
print("done", flush=True)
signal.pause()
"""
#: Ignores SIGTERM, and has a child.
STUBBORN = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(child.pid, flush=True)
signal.pause()
"""


class HurriedClock(RealClock):
    """Let ten real seconds pass in a tenth of one for waiting tasks."""

    def now(self) -> float:
        return super().now() * 100


def child(tmp_path: Path, code: str, clock: RealClock | None = None) -> Child:
    command = [sys.executable, "-c", code]
    return Child("the child", command, tmp_path / "output", clock or RealClock())


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_the_bill_is_the_process_s_own(tmp_path: Path) -> None:
    process = child(tmp_path, BUSY)
    assert await process.first_line(30) == "ready"
    while "done" not in process.output.read_text(encoding="utf-8"):
        await RealClock().sleep(0.02)
    usage = await process.stop()
    assert 0.01 < usage.cpu_seconds < 10
    assert usage.peak_rss_bytes > 64 << 20
    assert await process.stop() == usage


async def test_one_that_ends_by_itself_is_quoted(tmp_path: Path) -> None:
    process = child(tmp_path, "import sys; print('no config'); sys.exit(3)")
    with pytest.raises(ProcessFailure, match="the child ended with status 3: no config"):
        await process.failure()
    await process.stop()


async def test_a_process_that_ends_before_its_first_line_is_a_failure(tmp_path: Path) -> None:
    process = child(tmp_path, "")
    with pytest.raises(ProcessFailure, match="the child ended with status 0"):
        await process.first_line(30)


async def test_waiting_for_the_first_line_has_a_limit(tmp_path: Path) -> None:
    process = child(tmp_path, "import signal; signal.pause()")
    with pytest.raises(ProcessFailure, match=r"the child has said nothing for 0\.1 s"):
        await process.first_line(0.1)
    await process.stop()


async def test_a_stubborn_one_is_killed_with_all_it_has_started(tmp_path: Path) -> None:
    process = child(tmp_path, STUBBORN, HurriedClock())
    grandchild = int(await process.first_line(30_000))
    await process.stop()
    while is_running(grandchild):
        await RealClock().sleep(0.02)
    assert not is_running(grandchild)


def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailure, match="cannot start /nowhere/x: No such file"):
        Child("the child", ["/nowhere/x"], tmp_path / "output", RealClock())
