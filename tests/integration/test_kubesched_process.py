"""The real scheduler process against a real API server process boundary: HTTP and nothing else."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from fakeapi import FakeApiServer, Security
from fakeapi.faults import fault_of
from scheduler import run
from tests.config.test_written import own_logging  # noqa: F401 - a fixture
from tests.integration.api_client import Api, eventually

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
#: Nothing is served: many of these run on one machine at one time.
SCHEDULER = ("-m", "scheduler", "--secure-port", "0")
#: An API server that is not there.
NOBODY = "http://127.0.0.1:1"
DEADLINE_SECONDS = 20.0


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as server:
        yield server


@pytest.fixture
async def api(server: FakeApiServer) -> AsyncIterator[Api]:
    async with Api.of(server) as api:
        yield api


@pytest.fixture
def kubeconfig(server: FakeApiServer, tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    server.write_kubeconfig(path)
    return str(path)


@contextlib.asynccontextmanager
async def _process(*command: str, path: Path = ROOT) -> AsyncIterator[asyncio.subprocess.Process]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(path), str(ROOT)))}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, env=environ, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _fails(*arguments: str) -> tuple[int | None, str]:
    async with _process(*SCHEDULER, *arguments) as process, asyncio.timeout(DEADLINE_SECONDS):
        _, stderr = await process.communicate()
        return process.returncode, stderr.decode()


@pytest.fixture
def fails(
    capsys: pytest.CaptureFixture[str],
    own_logging: None,  # noqa: F811 - the fixture
) -> Callable[..., tuple[object, str]]:
    """Return a function that runs a command line in this process; a process takes a second."""

    def status_and_errors(*arguments: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as stopped:
            run(args=(*SCHEDULER[2:], *arguments))
        return stopped.value.code, capsys.readouterr().err

    return status_and_errors


async def test_pods_get_nodes_and_events_and_a_signal_ends_it(api: Api, kubeconfig: str) -> None:
    await api.node("a")
    await api.pod("web")
    async with _process(*SCHEDULER, "--kubeconfig", kubeconfig) as process:
        assert await api.node_of("web") == "a"
        await api.pod("huge", cpu="64")
        expected = "0/1 nodes are available: 1 Insufficient cpu."
        assert (await api.message_of("huge")).startswith(expected)
        await api.node("b", cpu="64")
        assert await api.node_of("huge") == "b"

        async def notes() -> str:
            events = await api.get("/apis/events.k8s.io/v1/namespaces/default/events")
            found = {event["note"] for event in events["items"]}
            return "both" if "Successfully assigned default/huge to b" in found else ""

        assert await eventually(notes) == "both"
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert await process.wait() == 0


async def test_a_signal_has_cache_and_queue_written_to_the_log(api: Api, kubeconfig: str) -> None:
    await api.node("a")
    await api.pod("web")
    await api.pod("huge", cpu="64")
    command = (*SCHEDULER, "--kubeconfig", kubeconfig, "--check-cache-every", "100ms")
    async with _process(*command) as process, asyncio.timeout(DEADLINE_SECONDS):
        assert await api.node_of("web") == "a"
        await api.message_of("huge")
        process.send_signal(signal.SIGUSR2)
        assert process.stderr is not None
        log = ""
        while "name: huge, namespace: default" not in log:
            log += (await process.stderr.readline()).decode()
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        log += (await process.stderr.read()).decode()
    assert "Node name: a" in log
    assert "Dump of scheduling queue, activeQ:0; backoffQ:0; unschedulablePods:1" in log
    assert "Cache mismatch" not in log


@pytest.mark.parametrize(
    ("interval", "complaint"),
    [("often", "invalid duration"), ("0s", "expected more than 0s")],
)
def test_the_interval_of_comparisons_is_a_duration(
    interval: str, complaint: str, fails: Callable[..., tuple[object, str]]
) -> None:
    code, stderr = fails("--master", NOBODY, "--check-cache-every", interval)
    assert code == 1
    assert complaint in stderr


async def test_a_configuration_file_names_the_profiles_for_pods(
    api: Api, kubeconfig: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        f"clientConnection: {{kubeconfig: {kubeconfig}}}\n"
        "profiles:\n"
        "- schedulerName: blind\n"
        "  plugins: {multiPoint: {disabled: [{name: TaintToleration}]}}\n",
        encoding="utf-8",
    )
    await api.node("a")
    await api.pod("mine", schedulerName="blind")
    # A file's own connection counts, as in kube-scheduler.
    command = (*SCHEDULER, "--kubeconfig", "/nowhere", "--config", str(config))
    async with _process(*command):
        assert await api.node_of("mine") == "a"


async def test_a_plugin_is_ten_lines_and_a_flag(api: Api, kubeconfig: str, tmp_path: Path) -> None:
    (tmp_path / "guards.py").write_text(
        "from scheduler import Plugin, unschedulable\n"
        "class GpuGuard(Plugin):\n"
        "    def filter(self, state, pod, node):\n"
        "        if 'gpu' in node.labels and 'gpu' not in pod.labels:\n"
        "            return unschedulable('node(s) were reserved for GPU pods')\n",
        encoding="utf-8",
    )
    await api.node("a", gpu="yes")
    await api.pod("web")
    command = (*SCHEDULER, "--kubeconfig", kubeconfig, "--plugin", "guards:GpuGuard")
    async with _process(*command, path=tmp_path):
        message = await api.message_of("web")
        expected = "0/1 nodes are available: 1 node(s) were reserved for GPU pods."
        assert message.startswith(expected)
        await api.node("b")
        assert await api.node_of("web") == "b"


async def test_a_script_runs_a_scheduler_with_its_own_plugins(
    api: Api, kubeconfig: str, tmp_path: Path
) -> None:
    script = tmp_path / "fast_disks.py"
    script.write_text(
        "import scheduler\n"
        "class PreferFastDisks(scheduler.Plugin):\n"
        "    def score_nodes(self, state, pod, nodes):\n"
        "        return nodes.labels('disk').map({'nvme': 100, 'ssd': 60})\n"
        "if __name__ == '__main__':\n"
        "    scheduler.run(plugins=[PreferFastDisks])\n",
        encoding="utf-8",
    )
    for name, disk in (("a", "hdd"), ("b", "nvme"), ("c", "ssd")):
        await api.node(name, disk=disk)
    async with _process(str(script), *SCHEDULER[2:], "--kubeconfig", kubeconfig):
        await api.pod("web")
        assert await api.node_of("web") == "b"


async def test_an_installed_package_announces_plugins_that_flags_enable(
    api: Api, kubeconfig: str, tmp_path: Path
) -> None:
    (tmp_path / "never.py").write_text(
        "from scheduler import Plugin, unresolvable\n"
        "class Never(Plugin):\n"
        "    def pre_filter(self, state, pod, nodes):\n"
        "        return unresolvable('never')\n",
        encoding="utf-8",
    )
    package = tmp_path / "never-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: never\nVersion: 1.0\n", encoding="utf-8"
    )
    (package / "entry_points.txt").write_text(
        "[scheduler.plugins]\nnever = never:Never\n", encoding="utf-8"
    )
    await api.node("a")
    await api.pod("web")
    command = (*SCHEDULER, "--kubeconfig", kubeconfig, "--plugin", "Never")
    async with _process(*command, path=tmp_path):
        assert (await api.message_of("web")).startswith("0/1 nodes are available: never.")


async def test_a_restarted_api_server_is_followed(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with contextlib.AsyncExitStack() as stack:
        async with FakeApiServer() as first, Api.of(first) as api:
            first.write_kubeconfig(kubeconfig)
            port = int(first.url.rpartition(":")[2])
            await api.node("a")
            command = (*SCHEDULER, "--kubeconfig", str(kubeconfig))
            await stack.enter_async_context(_process(*command))
            await api.pod("web")
            assert await api.node_of("web") == "a"
        async with FakeApiServer(port=port) as second, Api.of(second) as api:
            await api.node("b")
            await api.pod("next")
            assert await api.node_of("next") == "b"


async def test_it_logs_its_start_and_an_unreachable_server_without_flags(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with contextlib.AsyncExitStack() as stack:
        async with FakeApiServer() as server, Api.of(server) as api:
            server.write_kubeconfig(kubeconfig)
            url = server.url
            await api.node("a")
            flags = ("--secure-port", "auto", "--bind-address", "127.0.0.1", "--leader-elect=false")
            command = ("-m", "scheduler", *flags, "--kubeconfig", str(kubeconfig))
            process = await stack.enter_async_context(_process(*command))
            assert process.stderr is not None
            await api.pod("web")
            assert await api.node_of("web") == "a"
        log = ""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while "Connect call failed" not in log:
                log += (await process.stderr.readline()).decode()
    assert "Serving securely on 127.0.0.1:" in log
    assert re.search(r'"Starting Kubernetes Scheduler" version="v1\.36\.3"', log)
    assert f'"Connected to the API server" server="{url}" version="v1.36' in log
    assert '"Starting to schedule" profiles=["default-scheduler"]\n' in log
    assert re.search(r'"Caches are synced" nodes=1 pods=[01]\n', log)
    assert "Successfully bound" not in log


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "scheduler"),
        ("-m", "scheduler.explain"),
        ("-m", "fakeapi"),
        ("-m", "conformance"),
    ],
)
async def test_each_command_prints_its_version(command: tuple[str, ...]) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, "--version", stdout=asyncio.subprocess.PIPE
    )
    stdout, _ = await process.communicate()
    assert process.returncode == 0
    assert stdout.decode().startswith("kubesched")
    assert "0.1.0" in stdout.decode()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--kubeconfig", "/nowhere"), "/nowhere: not a readable kubeconfig"),
        (("--master", "ftp://x"), "--master"),
        (("--config", "/nowhere"), "open /nowhere: no such file or directory"),
        (("--plugin", "nowhere:Nobody"), 'plugin \\"nowhere:Nobody\\": cannot import'),
        (("--plugin", "Nobody"), 'plugin \\"Nobody\\" does not exist'),
        (("--disabled-metrics", "/"), "metrics.disabledMetrics: Invalid value"),
    ],
)
def test_a_bad_start_is_one_line_and_exit_1(
    arguments: tuple[str, ...], complaint: str, fails: Callable[..., tuple[object, str]]
) -> None:
    master = () if "--master" in arguments else ("--master", NOBODY)
    code, stderr = fails(*master, *arguments)
    assert (code, stderr.count("\n")) == (1, 1)
    assert f'] "command failed" err="{complaint}' in stderr


async def test_an_invalid_command_line_is_one_line_and_exit_1() -> None:
    assert await _fails("--nothing") == (1, "Error: unknown flag: --nothing\n")


def test_an_unknown_gate_is_one_line_of_the_log_and_exit_1(
    fails: Callable[..., tuple[object, str]],
) -> None:
    code, stderr = fails("--feature-gates", "X=true")
    assert (code, stderr.count("\n")) == (1, 1)
    assert '] "command failed" err="unrecognized feature gate: X"\n' in stderr


async def test_the_environment_names_no_api_server(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    code, stderr = await _fails()
    assert code == 1
    assert "no API server: expected a kubeconfig" in stderr


async def test_an_api_server_that_is_not_up_is_waited_for(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    attempts: asyncio.Queue[None] = asyncio.Queue()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        attempts.put_nowait(None)
        writer.close()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        own_port = taken.getsockname()[1]
    async with FakeApiServer() as server:
        server.write_kubeconfig(kubeconfig)
        port = int(server.url.rpartition(":")[2])
    flags = ("--secure-port", str(own_port), "--bind-address", "127.0.0.1")
    command = ("-m", "scheduler", *flags, "--kubeconfig", str(kubeconfig))
    async with (
        await asyncio.start_server(hang_up, "127.0.0.1", port) as nobody,
        _process(*command) as process,
        aiohttp.ClientSession(f"https://127.0.0.1:{own_port}") as session,
    ):
        assert process.stderr is not None
        log = ""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while "cannot be reached" not in log:
                log += (await process.stderr.readline()).decode()
            for _ in range(2):
                await attempts.get()
        async with session.get("/livez", ssl=False) as reply:
            assert (reply.status, await reply.text()) == (200, "ok")
        async with session.get("/healthz", ssl=False) as reply:
            assert (reply.status, await reply.text()) == (200, "ok")
        async with session.get("/readyz", ssl=False) as reply:
            assert reply.status == 500
            assert "[-]sched-handler-sync failed: reason withheld\n" in await reply.text()
        nobody.close()
        await nobody.wait_closed()
        async with FakeApiServer(port=port) as server, Api.of(server) as api:
            await api.node("a")
            await api.pod("web")
            assert await api.node_of("web") == "a"
            process.terminate()
            log += (await process.stderr.read()).decode()
    assert log.count("cannot be reached") == 1
    assert f'server="{server.url}"' in log


async def test_a_server_that_refuses_the_credentials_is_not_called_unreachable(
    tmp_path: Path,
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with FakeApiServer(security=Security(token="right")) as server:
        server.write_kubeconfig(kubeconfig)
        text = kubeconfig.read_text(encoding="utf-8")
        kubeconfig.write_text(text.replace("right", "wrong"), encoding="utf-8")
        command = (*SCHEDULER, "--kubeconfig", str(kubeconfig))
        async with _process(*command) as process, asyncio.timeout(DEADLINE_SECONDS):
            assert process.stderr is not None
            line = b""
            while b"refuses" not in line:
                line = await process.stderr.readline()
    assert "The API server refuses the credentials; trying again" in line.decode()
    assert f" in {kubeconfig}: Unauthorized (by {server.url})" in line.decode()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("profiels: []", 'strict decoding error: unknown field "profiels"'),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: Foo}]}}}]",
            "initializing profiles: creating profile for scheduler name default-scheduler: "
            'FilterPlugin "Foo" does not exist',
        ),
        ("parallelism: 0", "parallelism: Invalid value: 0: should be an integer value greater"),
        (
            "extenders: [{prioritizeVerb: score}]",
            "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        ),
    ],
)
def test_a_bad_configuration_is_one_line_that_names_the_field(
    tmp_path: Path, text: str, complaint: str, fails: Callable[..., tuple[object, str]]
) -> None:
    config = tmp_path / "config.yaml"
    preamble = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    config.write_text(preamble + text, encoding="utf-8")
    code, stderr = fails("--master", NOBODY, "--config", str(config))
    assert (code, stderr.count("\n")) == (1, 1)
    quoted = complaint.replace('"', r"\"")
    assert f'] "command failed" err="{config}: {quoted}' in stderr


async def test_a_second_signal_ends_the_process_at_once(
    server: FakeApiServer, api: Api, kubeconfig: str
) -> None:
    await api.node("a")
    await api.pod("web")
    async with _process(*SCHEDULER, "--kubeconfig", kubeconfig) as process:
        assert await api.node_of("web") == "a"
        # The release of the lease gets no answer.
        match = {"verb": "update", "resource": "leases.coordination.k8s.io"}
        server.faults.add(fault_of({"name": "held", "match": match, "delay": {}}))
        process.send_signal(signal.SIGTERM)

        async def held() -> str:
            return "held" if server.statistics().requests_held else ""

        await eventually(held)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(DEADLINE_SECONDS):
            _, stderr = await process.communicate()
    assert process.returncode == 1
    assert b"Unclosed" not in stderr
