"""Everything in README.md is run, as a newcomer would run it; nothing there goes untested."""

import asyncio
import configparser
import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from fakeapi import FakeApiServer
from tests.first_command import first_command
from tests.integration.api_client import PODS, Api, eventually

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
SCRIPTS = Path(sys.executable).parent
TIMEOUT_SECONDS = 120


class Block(NamedTuple):
    """A fenced block; `name` is its file, if the text names one."""

    language: str
    name: str
    text: str


def _blocks() -> list[Block]:
    found = re.finditer(r"(?:`(\S+)`:\n\n)?^```(\w+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    return [Block(match[2], match[1] or "", match[3]) for match in found]


BLOCKS = _blocks()
FILES = {block.name: block.text for block in BLOCKS if block.name}
(
    CONFORMANCE,
    TOX,
    SCENARIO,
    EXPLAIN,
    DUMP,
    _,  # tests/simulate/test_readme.py
    VERSIONS,
    OPEN,
    STORY,
    SECOND,
    SHADOW,
    FAKE_API,
    _,  # tests/simulate/test_readme.py
    REPLAY,
) = (block.text.strip() for block in BLOCKS if block.language == "sh")


def _environ(home: Path) -> dict[str, str]:
    """A newcomer's shell, our environment's commands first in it."""
    environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    path = os.pathsep.join((str(SCRIPTS), environ["PATH"]))
    return {**environ, "PATH": path, "HOME": str(home), "COLUMNS": "200"}


def _run(command: str, directory: Path) -> str:
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


@contextlib.asynccontextmanager
async def _running(command: str, directory: Path) -> AsyncIterator[None]:
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


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with every file that the README has one write."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_it_holds_these_blocks_and_no_others() -> None:
    assert [(block.language, block.name) for block in BLOCKS] == [
        ("sh", ""),
        ("sh", ""),
        ("python", "gpu_guard.py"),
        ("python", "fast_disks.py"),
        ("python", "test_gpu_guard.py"),
        ("yaml", "gpu.yaml"),
        ("sh", ""),
        ("python", "test_gpus.py"),
        ("yaml", "cluster.yaml"),
        ("sh", ""),
        ("text", ""),
        ("text", ""),
        ("sh", ""),
        ("yaml", "api.yaml"),
        ("sh", ""),
        ("sh", ""),
        ("sh", ""),
        ("sh", ""),
        ("yaml", "second.yaml"),
        ("sh", ""),
        ("sh", ""),
        ("json", ""),
        ("python", ""),
        ("python", "test_my_program.py"),
        ("sh", ""),
        ("sh", ""),
        ("sh", ""),
    ]


def test_the_plugin_and_the_scenario_take_ten_lines() -> None:
    assert len(_lines(FILES["gpu_guard.py"])) <= 10
    assert len(_lines(FILES["gpu.yaml"])) <= 11


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)]+)\)", TEXT)
    assert links
    assert [link for link in links if not (ROOT / link.partition("#")[0]).exists()] == []


def test_the_first_command_is_the_conformance_stage_of_tox() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    commands = tox["testenv:conformance"]["commands"]
    assert commands.startswith("python -m tests.first_command --junit")
    assert "{[testenv:conformance]commands}" in tox["testenv:check"]["commands"]
    assert first_command() == CONFORMANCE


def test_the_second_command_is_what_lets_changes_land() -> None:
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1] == TOX


def test_the_scenario_passes_with_the_plugin(files: Path) -> None:
    assert "1 passed in" in _run(SCENARIO, files)


def test_the_scenario_is_a_test_of_pytest(files: Path) -> None:
    pytest_command = "python -m pytest -q -rA -p no:cacheprovider"
    assert "1 passed" in _run(f"{pytest_command} gpu.yaml", files)
    everything = _run(f"{pytest_command} -o kubesched_cases=gpu.yaml", files)
    for name in ("gpu.yaml", "test_gpus.py"):
        assert re.search(rf"^PASSED {name}::", everything, re.MULTILINE), everything


def test_without_the_plugin_the_scenario_fails(files: Path) -> None:
    plain = FILES["gpu.yaml"].replace('plugins: ["gpu_guard:GpuGuard"]', "")
    (files / "plain.yaml").write_text(plain, encoding="utf-8")
    done = subprocess.run(
        [SCRIPTS / "kubesched-conformance", "run", "--cases", "plain.yaml"],
        cwd=files,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert "is bound to costly" in done.stdout


def test_explain_prints_what_the_text_shows(files: Path) -> None:
    shown = next(block.text for block in BLOCKS if block.language == "text")
    assert _lines(_run(EXPLAIN, files)) == _lines(shown)


def _summarised() -> list[dict[str, object]]:
    """Return the objects whose summary the README shows."""
    objects: list[dict[str, object]] = []
    for i in range(300):
        labels = {"disk": "ssd" if i % 6 == 0 else "hdd"} | ({"pool": "batch"} if i >= 288 else {})
        taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
        objects.append(
            {
                "kind": "Node",
                "metadata": {"name": f"node-{i:03}", "labels": labels},
                "spec": {"taints": [taint] if i >= 288 else []},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}},
            }
        )
    pods = (
        ("batch", 6, {"pool": "batch"}),
        ("selector-typo", 5, {"disk": "nvme"}),
        ("shop", 9, {}),
    )
    for owner, number, selector in pods:
        reference = {"kind": "StatefulSet", "name": owner, "controller": True}
        objects += [
            {
                "kind": "Pod",
                "metadata": {
                    "name": f"{owner}-{i}",
                    "namespace": "web",
                    "ownerReferences": [reference],
                },
                "spec": {"containers": [{"name": "c"}], "nodeSelector": selector},
            }
            for i in range(number)
        ]
    return objects


def test_a_dump_gets_the_summary_that_the_text_shows(files: Path) -> None:
    dump = yaml.safe_dump({"kind": "List", "items": _summarised()})
    (files / "dump.yaml").write_text(dump, encoding="utf-8")
    assert DUMP.startswith(_run("kubesched-explain --dump-command", files).strip())
    command = "cat dump.yaml | " + DUMP.partition(" | ")[2]
    _, shown = (block.text for block in BLOCKS if block.language == "text")
    assert _lines(_run(command, files)) == _lines(shown)


def test_versions_are_compared_and_an_upgrade_is_reported(files: Path) -> None:
    decide, compare, upgrade = VERSIONS.split("\n", 2)
    assert _run(decide, files).startswith("default/web  unschedulable: 0/2 nodes")
    assert _run(compare, files).startswith("1 pod, 1.36 to 1.37: ")
    output = _run(f"{upgrade} || [ $? = 1 ]", files)
    assert output.startswith("from kube-scheduler 1.35 to 1.37\n1 pod: ")
    assert "GangScheduling" in (files / "upgrade.html").read_text(encoding="utf-8")


def test_the_test_of_the_plugin_passes(files: Path) -> None:
    assert "1 passed" in _run("python -m pytest -q -p no:cacheprovider test_gpu_guard.py", files)


def test_the_fast_plugin_prefers_nvme(files: Path) -> None:
    disks = {"slow": "hdd", "quick": "nvme", "middling": "ssd"}
    objects = [
        {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"name": name, "labels": {"disk": disk}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        }
        for name, disk in disks.items()
    ]
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"}}
    spec = {"containers": [{"name": "web", "image": "web"}]}
    manifest = yaml.safe_dump_all([*objects, {**pod, "spec": spec}])
    (files / "disks.yaml").write_text(manifest, encoding="utf-8")
    plugin = "--plugin fast_disks:PreferFastDisks"
    printed = _run(f"kubesched-explain --manifests disks.yaml {plugin}", files)
    assert "default/web scheduled on quick, 3 of 3 nodes feasible" in _lines(printed)


async def test_a_second_scheduler_takes_its_own_pods_only(files: Path) -> None:
    async with FakeApiServer() as server, Api.of(server) as api:
        (files / ".kube").mkdir()
        (files / ".kube" / "config").write_text(server.kubeconfig, encoding="utf-8")
        config = FILES["second.yaml"].replace("/home/me", str(files))
        (files / "second.yaml").write_text(config, encoding="utf-8")
        await api.node("a")
        await api.pod("theirs")
        await api.pod("ours", schedulerName="kubesched")
        async with _running(SECOND, files):
            assert await api.node_of("ours") == "a"
        theirs = await api.get("/api/v1/namespaces/default/pods/theirs")
        assert "nodeName" not in theirs["spec"]


async def test_shadow_mode_binds_no_pod(files: Path) -> None:
    async with FakeApiServer() as server, Api.of(server) as api:
        (files / ".kube").mkdir()
        (files / ".kube" / "config").write_text(server.kubeconfig, encoding="utf-8")
        await api.node("a")
        await api.pod("web")
        log = files / "shadow.log"
        log.touch()
        numbers = itertools.count()

        async def compared() -> str:
            """Bind another pod; only those that are bound later than the start are compared."""
            name = f"theirs-{next(numbers)}"
            await api.pod(name)
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "a"}}
            await api.create(f"{PODS}/{name}/binding", binding)
            return log.read_text(encoding="utf-8")

        async with _running(f"{SHADOW.replace('10260', '0')} > {log}", files):
            assert '"pod":"default/theirs-' in await eventually(compared)
            web = await api.get(f"{PODS}/web")
        assert "nodeName" not in web["spec"]


def test_each_command_completes_its_options_in_bash(files: Path) -> None:
    for name in ("KUBESCHED_EXPLAIN", "KUBESCHED_FAKEAPI", "KUBESCHED_CONFORMANCE"):
        command = name.lower().replace("_", "-")
        assert "complete -o nosort" in _run(f"_{name}_COMPLETE=bash_source {command}", files)
    (own,) = re.findall(r"`(complete -W .*? kubesched)`", TEXT)
    assert "--leader-elect-lease-duration" in _run(f"{own}; complete -p kubesched", files)


async def test_the_story_of_a_pod_is_printed(files: Path) -> None:
    async with FakeApiServer() as server, Api.of(server) as api:
        (files / ".kube").mkdir()
        (files / ".kube" / "config").write_text(server.kubeconfig, encoding="utf-8")
        await api.node("a")
        await api.pod("web")
        async with _running(OPEN, files):
            assert await api.node_of("web") == "a"
            told = await asyncio.to_thread(_run, STORY, files)
    assert "attempt 1: a, one of 1 feasible of 1 evaluated nodes" in told


def test_the_test_with_an_api_server_passes(files: Path) -> None:
    printed = _run("python -m pytest -q -p no:cacheprovider test_my_program.py", files)
    assert "1 passed" in printed


def test_the_api_server_lives_in_a_program(files: Path) -> None:
    (program,) = (block.text for block in BLOCKS if block.language == "python" and not block.name)
    (files / "program.py").write_text(program, encoding="utf-8")
    url, kubeconfig = _run("python program.py", files).split("\n", 1)
    assert yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]["server"] == url


async def test_the_api_server_is_a_command(files: Path) -> None:
    written = files / "fake.kubeconfig"

    async def text_of_kubeconfig() -> str:
        return written.read_text(encoding="utf-8") if written.exists() else ""

    async with _running(FAKE_API, files):
        await eventually(text_of_kubeconfig)
        explain = "kubesched-explain --kubeconfig fake.kubeconfig"
        printed = await asyncio.to_thread(_run, explain, files)
    assert "default/web scheduled on costly, 1 of 2 nodes feasible" in _lines(printed)


def test_a_trace_is_replayed(files: Path) -> None:
    nodes = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,32000,262144,2,T4\n"
    pods = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
        "pod-0,12000,16384,1,1000,T4,LS\npod-1,6000,1024,0,0,,BE\npod-2,64000,1024,0,0,,BE\n"
    )
    (files / "openb_node_list_all_node.csv").write_text(nodes, encoding="utf-8")
    (files / "openb_pod_list_default.csv").write_text(pods, encoding="utf-8")
    printed = _run(REPLAY, files)
    assert "3 pods on 1 nodes: 2 bound, 1 unschedulable, 0 undecided" in printed
