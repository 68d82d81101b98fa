"""A scheduler killed at any of its writes and started again loses no pod and binds none twice.

Before, during and after every single write within one process, in virtual time; and with real
processes and SIGKILL at the first write of every kind, at a binding before, during and after.
The next scheduler has only the state of the API server; `scripted_cluster` defines the work and
checks the result.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.integration.scripted_cluster import ScriptedCluster
from tests.integration.scripted_run import (
    DEADLINE_SECONDS,
    Plan,
    kubeconfig_for,
    nothing_happens,
    run,
)
from tests.integration.write_proxy import Moment, WriteProxy
from tests.thoroughness import IS_THOROUGH, thorough_only

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
#: A thorough run kills at every write, CI at every eighth and at the first of each kind.
STEP = 1 if IS_THOROUGH else 8
#: So many tests share the writes, so that tests can run side by side.
STRIDE = 4

KINDS = [
    "POST pods/binding",
    "PATCH pods/status",
    "DELETE pods",
    "PATCH persistentvolumes",
    "PATCH persistentvolumeclaims",
    "POST events",
]


def _at(number: int, moment: Moment) -> Plan:
    return lambda write: moment if write.number == number else None


def _at_first(kind: str, moment: Moment) -> Plan:
    return lambda write: moment if write.kind == kind else None


async def test_the_script_has_every_kind_of_write(tmp_path: Path) -> None:
    async with ScriptedCluster() as cluster:
        proxy = await run(cluster, tmp_path)
        cluster.judge()
    assert {write.kind for write in proxy.writes} >= set(KINDS)


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("first", range(1, STRIDE + 1))
async def test_killed_at_every_write_and_started_again(
    tmp_path: Path, first: int, moment: Moment
) -> None:
    number = first * STEP
    while await _was_killed(tmp_path, _at(number, moment)):
        number += STRIDE * STEP
    assert number > 30, "there are more writes than this"


@pytest.mark.parametrize("moment", Moment)
async def test_killed_at_the_first_write_of_each_kind_and_started_again(
    tmp_path: Path, moment: Moment
) -> None:
    for kind in KINDS:
        assert await _was_killed(tmp_path, _at_first(kind, moment))


async def _was_killed(directory: Path, plan: Plan) -> bool:
    """Run a scheduler and, if it was killed, a second one; the state must be right then."""
    async with ScriptedCluster() as cluster:
        killed = (await run(cluster, directory, plan)).dead.is_set()
        if killed:
            await run(cluster, directory)
        cluster.judge()
    return killed


@pytest.mark.parametrize("moment", Moment)
async def test_killed_twice_and_started_again(tmp_path: Path, moment: Moment) -> None:
    """The second process is killed as well, while it completes the work of the first."""
    for number in (7, 19):
        async with ScriptedCluster() as cluster:
            await run(cluster, tmp_path, _at(number, moment))
            await run(cluster, tmp_path, _at(1 + number // 2, moment))
            await run(cluster, tmp_path)
            cluster.judge()


async def _run_process(
    cluster: ScriptedCluster, directory: Path, plan: Plan = nothing_happens
) -> None:
    """Run a real scheduler until all pods are done and a signal stops it, or it is killed."""
    started: list[asyncio.subprocess.Process] = []
    async with WriteProxy(cluster.url, plan=plan, on_death=lambda: started[0].kill()) as proxy:
        kubeconfig = str(kubeconfig_for(proxy.url, directory))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scheduler", "--kubeconfig", kubeconfig, "--secure-port", "0"),
            "--leader-elect=false",  # the next process need not wait for the lease of a killed one
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=asyncio.subprocess.PIPE,
        )
        started.append(process)
        reading = asyncio.ensure_future(process.communicate())
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while not (reading.done() or (cluster.has_ended and cluster.is_quiet)):
                    await asyncio.wait({reading}, timeout=0.01)
                if plan is nothing_happens and process.returncode is None:
                    process.send_signal(signal.SIGTERM)
                _, stderr = await reading
        finally:
            if process.returncode is None:
                process.kill()
                await reading
    expected = 0 if plan is nothing_happens else -signal.SIGKILL
    assert process.returncode == expected, stderr.decode()


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        ("POST pods/binding", Moment.DURING),
        # The run in this process, above, kills at these too.
        pytest.param("POST pods/binding", Moment.BEFORE, marks=thorough_only),
        pytest.param("POST pods/binding", Moment.AFTER, marks=thorough_only),
        pytest.param("PATCH pods/status", Moment.DURING, marks=thorough_only),
        pytest.param("DELETE pods", Moment.DURING, marks=thorough_only),
        pytest.param("PATCH persistentvolumes", Moment.DURING, marks=thorough_only),
        pytest.param("PATCH persistentvolumeclaims", Moment.AFTER, marks=thorough_only),
        pytest.param("POST events", Moment.BEFORE, marks=thorough_only),
    ],
)
async def test_a_process_killed_at_every_kind_of_write(
    tmp_path: Path, kind: str, moment: Moment
) -> None:
    """Restart a real process after a binding; after other writes the run in process is enough."""
    async with ScriptedCluster() as cluster:
        await _run_process(cluster, tmp_path, _at_first(kind, moment))
        if kind == "POST pods/binding":
            await _run_process(cluster, tmp_path)
        else:
            await run(cluster, tmp_path)
        cluster.judge()
