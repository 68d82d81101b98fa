"""Dashboards and alerts of kubernetes-mixin have data from a scheduler that has worked."""

import re
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from fakeapi import FakeApiServer
from scheduler.testing import VirtualClock
from scheduler.testing.in_process import run_in_process
from tests.integration.api_client import Api

QUERIES = Path(__file__).parent.parent / "metrics" / "mixin_queries.txt"
#: Metrics that the scrape itself adds.
OF_THE_SCRAPE = {"up"}


def _queries() -> list[tuple[str, str]]:
    lines = QUERIES.read_text(encoding="utf-8").splitlines()
    pairs = (line.partition(": ")[::2] for line in lines if not line.startswith("#"))
    return [(panel, query) for panel, query in pairs]


def _matches(query: str, sample: Sample) -> bool:
    """Return True if the sample is selected, and has the labels by which it is grouped."""
    selector, _, grouping = query.partition(" by ")
    name, _, matchers = selector.partition("{")
    if sample.name != name:
        return False
    for label, operator, value in re.findall(r'(\w+)(=~|=)"([^"]*)"', matchers):
        found = sample.labels.get(label, "")
        if not (re.fullmatch(value, found) if operator == "=~" else found == value):
            return False
    return set(filter(None, grouping.split(","))) <= sample.labels.keys()


async def test_every_panel_and_alert_has_data(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
        encoding="utf-8",
    )
    async with FakeApiServer() as server, Api.of(server) as api:
        server.write_kubeconfig(kubeconfig)
        await api.node("a")
        await api.pod("web")
        running = run_in_process(
            kubeconfig=kubeconfig, config=config, clock=VirtualClock(), serve=True
        )
        async with running as scheduler, aiohttp.ClientSession(scheduler.url) as session:
            assert await api.node_of("web") == "a"
            await api.pod("huge", cpu="64")
            await api.message_of("huge")
            async with session.get("/metrics") as reply:
                text = await reply.text()
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    names = {sample.name for sample in samples}
    filled: dict[str, bool] = {}
    for panel, query in _queries():
        if query.startswith("- "):
            assert query.removeprefix("- ").partition(" ")[0] not in names
            continue
        has_data = query in OF_THE_SCRAPE or any(_matches(query, sample) for sample in samples)
        assert has_data, f"{panel}: {query}"
        filled[panel] = True
    assert len([panel for panel in filled if not panel.startswith(("alert", "rule"))]) == 9
    assert all(filled.values())
