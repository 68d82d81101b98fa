"""The commands of the pages in docs/ that need processes are run, as their readers would."""

import asyncio
import itertools
import re
from pathlib import Path

import pytest
import yaml

from fakeapi import FakeApiServer
from tests.documentation import Page
from tests.integration.api_client import PODS, Api, eventually
from tests.newcomer import lines, run, run_here, running, write_kubeconfig
from tests.sources import ROOT

OPEN, STORY, SHADOW = Page("docs/operating.md").of("sh")
EXPLAIN = Page("docs/explain.md")


@pytest.mark.parametrize(
    "path", ["README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_every_link_leads_somewhere(path: str) -> None:
    page = Page(path)
    links = re.findall(r'\]\((?!http|#)([^)"]+)\)', page.text)
    assert [link for link in links if not (page.folder / link.partition("#")[0]).exists()] == []


def _summarised() -> list[dict[str, object]]:
    """Return the objects whose summary the page shows."""
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


def test_a_dump_gets_the_summary_that_the_text_shows(tmp_path: Path) -> None:
    dump_command, *_ = EXPLAIN.of("sh")
    dump = yaml.safe_dump({"kind": "List", "items": _summarised()})
    assert dump_command.startswith(run_here("kubesched-explain --dump-command", tmp_path).strip())
    explain = dump_command.partition(" | ")[2]
    (shown,) = EXPLAIN.of("text")
    assert lines(run_here(explain, tmp_path, stdin=dump)) == lines(shown)


async def test_the_story_of_a_pod_is_printed(tmp_path: Path) -> None:
    async with FakeApiServer() as server, Api.of(server) as api:
        write_kubeconfig(tmp_path, server.kubeconfig)
        await api.node("a")
        await api.pod("web")
        async with running(OPEN, tmp_path):
            assert await api.node_of("web") == "a"
            told = await asyncio.to_thread(run, STORY, tmp_path)
    assert "attempt 1: a, one of 1 feasible of 1 evaluated nodes" in told


async def test_shadow_mode_binds_no_pod(tmp_path: Path) -> None:
    async with FakeApiServer() as server, Api.of(server) as api:
        write_kubeconfig(tmp_path, server.kubeconfig)
        await api.node("a")
        await api.pod("web")
        log = tmp_path / "shadow.log"
        log.touch()
        numbers = itertools.count()

        async def compared() -> str:
            """Bind another pod; only those that are bound later than the start are compared."""
            name = f"theirs-{next(numbers)}"
            await api.pod(name)
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "a"}}
            await api.create(f"{PODS}/{name}/binding", binding)
            return log.read_text(encoding="utf-8")

        async with running(f"{SHADOW.replace('10260', '0')} > {log}", tmp_path):
            assert '"pod":"default/theirs-' in await eventually(compared)
            web = await api.get(f"{PODS}/web")
        assert "nodeName" not in web["spec"]


def test_the_test_with_an_api_server_passes(tmp_path: Path) -> None:
    files = {**Page("README.md").files, **Page("docs/api-server.md").files}
    for name in ("cluster.yaml", "test_my_program.py"):
        (tmp_path / name).write_text(files[name], encoding="utf-8")
    printed = run("python -m pytest -q -p no:cacheprovider test_my_program.py", tmp_path)
    assert "1 passed" in printed


def test_a_trace_is_replayed(tmp_path: Path) -> None:
    (replay,) = Page("docs/histories.md").of("sh")
    nodes = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,32000,262144,2,T4\n"
    pods = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
        "pod-0,12000,16384,1,1000,T4,LS\npod-1,6000,1024,0,0,,BE\npod-2,64000,1024,0,0,,BE\n"
    )
    (tmp_path / "openb_node_list_all_node.csv").write_text(nodes, encoding="utf-8")
    (tmp_path / "openb_pod_list_default.csv").write_text(pods, encoding="utf-8")
    imported, replayed = replay.splitlines()
    run_here(imported, tmp_path)
    printed = run_here(replayed, tmp_path)
    assert "3 pods on 1 nodes: 2 bound, 1 unschedulable, 0 undecided" in printed
