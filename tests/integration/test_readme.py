"""Everything in README.md is run, as a newcomer would run it; nothing there goes untested."""

import asyncio
import configparser
import re
from pathlib import Path

import pytest
import yaml

from fakeapi import FakeApiServer
from tests.documentation import Page
from tests.first_command import first_command
from tests.integration.api_client import Api, eventually
from tests.newcomer import (
    lines,
    run,
    run_here,
    running,
    write_kubeconfig,
)
from tests.sources import ROOT

PAGE = Page("README.md")
FILES = PAGE.files
(
    CONFORMANCE,
    TOX,
    SCENARIO,
    EXPLAIN,
    _,  # tests/simulate/test_readme.py
    VERSIONS,
    SECOND,
    FAKE_API,
) = PAGE.of("sh")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with every file that the README has one write."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_it_holds_these_blocks_and_no_others() -> None:
    assert [(block.language, block.name) for block in PAGE.blocks] == [
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
        ("yaml", "api.yaml"),
        ("sh", ""),
        ("sh", ""),
        ("yaml", "second.yaml"),
        ("sh", ""),
        ("python", ""),
        ("sh", ""),
    ]


def test_the_plugin_and_the_scenario_take_ten_lines() -> None:
    assert len(lines(FILES["gpu_guard.py"])) <= 10
    assert len(lines(FILES["gpu.yaml"])) <= 11


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
    assert "1 passed in" in run(SCENARIO, files)


def test_the_scenario_and_the_test_of_the_plugin_are_tests_of_pytest(files: Path) -> None:
    pytest_command = "python -m pytest -q -rA -p no:cacheprovider -o kubesched_cases=gpu.yaml"
    everything = run(pytest_command, files)
    for name in ("gpu.yaml", "test_gpus.py", "test_gpu_guard.py"):
        assert re.search(rf"^PASSED {name}::", everything, re.MULTILINE), everything


def test_without_the_plugin_the_scenario_fails(files: Path) -> None:
    plain = FILES["gpu.yaml"].replace('plugins: ["gpu_guard:GpuGuard"]', "")
    (files / "plain.yaml").write_text(plain, encoding="utf-8")
    command = "kubesched-conformance run --cases plain.yaml --workers 0"
    printed = run_here(command, files, status=1)
    assert "is bound to costly" in printed


def test_explain_prints_what_the_text_shows(files: Path) -> None:
    (shown,) = PAGE.of("text")
    assert lines(run_here(EXPLAIN, files)) == lines(shown)


def test_versions_are_compared_and_an_upgrade_is_reported(files: Path) -> None:
    decide, compare, upgrade = VERSIONS.split("\n", 2)
    assert run_here(decide, files).startswith("default/web  unschedulable: 0/2 nodes")
    assert run_here(compare, files).startswith("1 pod, 1.36 to 1.37: ")
    output = run_here(upgrade.replace("\\\n", " "), files, status=1)
    assert output.startswith("from kube-scheduler 1.35 to 1.37\n1 pod: ")
    assert "GangScheduling" in (files / "upgrade.html").read_text(encoding="utf-8")


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
    printed = run_here(f"kubesched-explain --manifests disks.yaml {plugin}", files)
    assert "default/web scheduled on quick, 3 of 3 nodes feasible" in lines(printed)


async def test_a_second_scheduler_takes_its_own_pods_only(files: Path) -> None:
    async with FakeApiServer() as server, Api.of(server) as api:
        write_kubeconfig(files, server.kubeconfig)
        config = FILES["second.yaml"].replace("/home/me", str(files))
        (files / "second.yaml").write_text(config, encoding="utf-8")
        await api.node("a")
        await api.pod("theirs")
        await api.pod("ours", schedulerName="kubesched")
        async with running(SECOND, files):
            assert await api.node_of("ours") == "a"
        theirs = await api.get("/api/v1/namespaces/default/pods/theirs")
        assert "nodeName" not in theirs["spec"]


def test_each_command_completes_its_options_in_bash(files: Path) -> None:
    for name in ("KUBESCHED_EXPLAIN", "KUBESCHED_FAKEAPI", "KUBESCHED_CONFORMANCE"):
        command = name.lower().replace("_", "-")
        assert "complete -o nosort" in run(f"_{name}_COMPLETE=bash_source {command}", files)
    (own,) = re.findall(r"`(complete -W .*? kubesched)`", PAGE.text)
    assert "--leader-elect-lease-duration" in run(f"{own}; complete -p kubesched", files)


def test_the_api_server_lives_in_a_program(files: Path) -> None:
    (program,) = PAGE.of("python")
    (files / "program.py").write_text(program, encoding="utf-8")
    url, kubeconfig = run("python program.py", files).split("\n", 1)
    assert yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]["server"] == url


async def test_the_api_server_is_a_command(files: Path) -> None:
    written = files / "fake.kubeconfig"

    async def text_of_kubeconfig() -> str:
        return written.read_text(encoding="utf-8") if written.exists() else ""

    async with running(FAKE_API, files):
        await eventually(text_of_kubeconfig)
        explain = "kubesched-explain --kubeconfig fake.kubeconfig"
        printed = await asyncio.to_thread(run, explain, files)
    assert "default/web scheduled on costly, 1 of 2 nodes feasible" in lines(printed)
