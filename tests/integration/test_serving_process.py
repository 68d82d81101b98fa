"""A real scheduler with a port of its own: HTTPS, permission, numbers and stories."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from fakeapi import FakeApiServer
from scheduler.assembly.app import SchedulerApp
from scheduler.assembly.core import SchedulerOptions
from scheduler.client import connect
from scheduler.config import default_config
from scheduler.plugins import SCHEME
from scheduler.testing import VirtualClock
from scheduler.testing.in_process import run_in_process
from tests.integration.api_client import Api, eventually
from tests.serving.review_server import ReviewServer

pytestmark = pytest.mark.slow

DEADLINE_SECONDS = 30.0


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with FakeApiServer() as server, Api.of(server) as api:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        yield api


@contextlib.asynccontextmanager
async def _process(*command: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *command),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "COLUMNS": "200"},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _address(process: Process) -> str:
    """Return the address in its log."""
    assert process.stderr is not None
    async with asyncio.timeout(DEADLINE_SECONDS):
        while line := (await process.stderr.readline()).decode():
            if found := re.search(r"Serving securely on (\S+)$", line):
                return found[1]
    pytest.fail("it ended before it served")


async def _stop(process: Process) -> str:
    """Ask it to stop; what it said last."""
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(DEADLINE_SECONDS):
        _, stderr = await process.communicate()
    assert process.returncode == 0
    return stderr.decode()


async def _get(url: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, ssl=False) as response,
    ):
        return response.status, await response.text()


def _scheduler(tmp_path: Path, *arguments: str) -> tuple[str, ...]:
    return (
        *("scheduler", "--kubeconfig", str(tmp_path / "kubeconfig"), "-v", "2"),
        *("--bind-address", "127.0.0.1", "--secure-port", "auto", *arguments),
    )


async def test_it_serves_authorized_users(api: Api, tmp_path: Path) -> None:
    await api.node("a")
    await api.pod("web")
    async with ReviewServer() as reviews:
        reviews.user("secret", "prometheus")
        reviews.access["prometheus"] = {"allowed": True}
        kubeconfig = reviews.write_kubeconfig(tmp_path / "reviews")
        flags = ("--authentication-kubeconfig", kubeconfig)
        flags += ("--authorization-kubeconfig", kubeconfig)
        async with _process(*_scheduler(tmp_path, *flags)) as process:
            url = f"https://{await _address(process)}"
            assert await _get(f"{url}/healthz") == (200, "ok")
            assert (await _get(f"{url}/metrics"))[0] == 403
            assert (await _get(f"{url}/metrics", "wrong"))[0] == 401
            assert await api.node_of("web") == "a"
            assert (await _get(f"{url}/readyz"))[0] == 200

            async def told() -> str:
                status, body = await _get(f"{url}/debug/pods/default/web", "secret")
                return body if status == 200 and '"bound"' in body else ""

            assert await eventually(told)
            status, numbers = await _get(f"{url}/metrics", "secret")
            assert status == 200
            assert "# TYPE scheduler_schedule_attempts_total counter" in numbers
            assert (await _get(f"{url}/configz", "secret"))[0] == 200

            explain = ("scheduler.explain", "--story", "web", "--server", url)
            allowed = ("--token", "secret", "--insecure-skip-tls-verify")
            async with _process(*explain, *allowed) as reader:
                out, err = await reader.communicate()
            assert (reader.returncode, err) == (0, b"")
            assert "bound to a" in out.decode()
            assert "Requested to terminate, exiting" in await _stop(process)


async def test_open_paths_need_no_review(api: Api, tmp_path: Path) -> None:
    flags = ("--authorization-always-allow-paths", "/livez,/debug/*", "--cert-dir", str(tmp_path))
    async with _process(*_scheduler(tmp_path, *flags)) as process:
        url = f"https://{await _address(process)}"
        assert (await _get(f"{url}/debug/pods"))[0] == 200
        assert (await _get(f"{url}/livez", "any token"))[0] == 200
        assert (await _get(f"{url}/healthz"))[0] == 403
        trust = ("--certificate-authority", str(tmp_path / "kube-scheduler.crt"))
        explain = ("scheduler.explain", "--story", "nobody", "--server", url, *trust)
        async with _process(*explain) as reader:
            _, err = await reader.communicate()
        text = f'kubesched-explain: {url}: pod "default/nobody" is not known to this scheduler\n'
        assert (reader.returncode, err.decode()) == (1, text)
        await _stop(process)


async def test_many_run_side_by_side(api: Api, tmp_path: Path) -> None:
    command = _scheduler(tmp_path)
    async with _process(*command) as first, _process(*command) as second:
        addresses = {await _address(first), await _address(second)}
        assert len(addresses) == 2
        for address in addresses:
            assert await _get(f"https://{address}/livez") == (200, "ok")
        await _stop(first)
        await _stop(second)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_a_port_that_is_taken_is_one_line(api: Api, tmp_path: Path, host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"{host}:{taken.getsockname()[1]}"
        flags = ("--bind-address", host, "--secure-port", where.rpartition(":")[2], "-v", "0")
        async with _process(*_scheduler(tmp_path, *flags)) as process:
            async with asyncio.timeout(DEADLINE_SECONDS):
                _, stderr = await process.communicate()
    assert process.returncode == 1
    failure = f"failed to listen on {where}: listen tcp {where}: bind: address already in use"
    hint = "is another scheduler running? --secure-port 0 serves nothing"
    last = f'"command failed" err="failed to create listener: {failure}; {hint}"'
    assert stderr.decode().splitlines()[-1].endswith(last)


async def test_a_scheduler_in_process_serves_plainly(api: Api, tmp_path: Path) -> None:
    await api.node("a")
    await api.pod("web")
    running = run_in_process(kubeconfig=tmp_path / "kubeconfig", clock=VirtualClock(), serve=True)
    async with running as scheduler:
        assert await api.node_of("web") == "a"
        status, numbers = await _get(f"{scheduler.url}/metrics")
        assert status == 200
        assert "scheduler_queue_incoming_pods_total" in numbers
        assert await _get(f"{scheduler.url}/readyz") == (200, "ok")
        assert (await _get(f"{scheduler.url}/debug/pods/default/web"))[0] == 200

        async def resources() -> str:
            status, page = await _get(f"{scheduler.url}/metrics/resources")
            assert status == 200
            return page if 'node="a"' in page else ""

        assert (
            'kube_pod_resource_request{namespace="default",node="a",pod="web",priority="0",'
            'resource="cpu",scheduler="default-scheduler",unit="cores"} 1\n'
        ) in await eventually(resources)
    with pytest.raises(aiohttp.ClientConnectorError):
        await _get(f"{scheduler.url}/healthz")


async def test_a_scheduler_in_process_serves_nothing_unless_asked(api: Api, tmp_path: Path) -> None:
    async with run_in_process(
        kubeconfig=tmp_path / "kubeconfig", clock=VirtualClock()
    ) as scheduler:
        assert scheduler.url == ""


async def test_a_comparison_of_the_cache_that_fails_is_logged_and_the_next_one_made(
    tmp_path: Path,
    api: Api,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = VirtualClock()
    connection = connect(kubeconfig=str(tmp_path / "kubeconfig"), clock=clock)
    app = SchedulerApp(default_config(SCHEME), connection, clock=clock)
    made: list[str] = []

    def compare(self: SchedulerApp) -> None:
        made.append("comparison")
        raise LookupError("a bug")

    monkeypatch.setattr(SchedulerApp, "compare_cache", compare)
    running = [asyncio.ensure_future(app.run()), asyncio.ensure_future(app.compare_cache_every(5))]
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(made) < 2:
            if app.has_synced and app.is_idle:
                await clock.advance(5.0)
            await asyncio.sleep(0.002)  # real HTTP
    assert "LookupError: a bug" in caplog.text
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


@pytest.mark.parametrize(("seconds", "tries"), [(300.0, 1), (60.0, 2)])
async def test_the_maximum_wait_for_an_event_is_configurable(
    api: Api, tmp_path: Path, seconds: float, tries: int
) -> None:
    clock = VirtualClock()
    connection = connect(kubeconfig=str(tmp_path / "kubeconfig"), clock=clock)
    options = SchedulerOptions(max_in_unschedulable_pods_seconds=seconds)
    app = SchedulerApp(default_config(SCHEME), connection, clock=clock, options=options)
    await api.node("small", cpu="1")
    await api.pod("web", cpu="8")
    running = asyncio.ensure_future(app.run())
    await api.message_of("web")

    async def rest() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not (app.has_synced and app.is_idle):  # noqa: ASYNC110 - real HTTP
                await asyncio.sleep(0.002)

    await rest()
    for _ in range(10):
        await clock.advance(10.0)
        await rest()
    assert sum(app.statistics().attempts.values()) == tries
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
