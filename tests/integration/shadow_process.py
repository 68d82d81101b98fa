"""A scheduler in shadow mode over real HTTP, and 500 mixed pods on which it judges another one."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from scheduler import Plugin
from scheduler.assembly.app import SchedulerApp
from scheduler.assembly.core import SchedulerOptions
from scheduler.assembly.shadow import ShadowOptions
from scheduler.client import connect
from scheduler.clock import SystemClock
from scheduler.config import default_config
from scheduler.plugins import SCHEME
from scheduler.serving.serve import serve_for_tests

Json = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
DEADLINE_SECONDS = 120.0
#: The same node, one of the equally good ones, or one that was so when the other decided.
AGREED = {"same", "pending", "concurrent"}


class ShadowProcess:
    """A scheduler in shadow mode, and its page."""

    def __init__(self, url: str, log: Path) -> None:
        self._url = url
        self._log = log

    async def get(self, path: str) -> str:
        async with aiohttp.ClientSession() as session, session.get(self._url + path) as answer:
            assert answer.status == 200
            return await answer.text()

    async def counts(self) -> dict[str, int]:
        counts = json.loads(await self.get("/debug/shadow"))["decisions"]
        return dict(counts.get("default-scheduler", {}))

    async def compared(self, number: int) -> list[Json]:
        """Return the comparisons in the log, once there are so many."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while sum((await self.counts()).values()) < number:  # noqa: ASYNC110 - a process
                await asyncio.sleep(0.05)
        return [json.loads(line) for line in self._log.read_text(encoding="utf-8").splitlines()]


@contextlib.asynccontextmanager
async def shadow_of(
    kubeconfig: Path, directory: Path, plugins: Sequence[type[Plugin]] = ()
) -> AsyncIterator[ShadowProcess]:
    """Run a scheduler in shadow mode until the block is left; it has synced."""
    clock, config = SystemClock(), default_config(SCHEME)
    log = directory / "shadow.jsonl"
    with log.open("ab") as file:
        app = SchedulerApp(
            config,
            connect(kubeconfig=str(kubeconfig), clock=clock),
            clock=clock,
            options=SchedulerOptions(plugins=plugins, shadow=ShadowOptions(file)),
        )
        async with serve_for_tests(config, app, clock=clock) as port:
            running = asyncio.ensure_future(app.run())
            try:
                async with asyncio.timeout(DEADLINE_SECONDS):
                    while not app.is_idle:  # noqa: ASYNC110 - no event to wait for
                        await asyncio.sleep(0.01)
                yield ShadowProcess(port.url, log)
            finally:
                running.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await running


def _mixed_pod(rng: random.Random, number: int) -> Json:
    """Return a pod: sizes, spreading, affinity, selectors, priorities."""
    labels = {"app": f"app{number % 12}"}
    selector = {"labelSelector": {"matchLabels": labels}}
    spec: Json = {}
    match rng.randrange(6):
        case 0:
            spread = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **selector}
            spec["topologySpreadConstraints"] = [{**spread, "topologyKey": "zone"}]
        case 1:
            term = {"topologyKey": "kubernetes.io/hostname", **selector}
            rule = {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 50, "podAffinityTerm": term}
            ]}  # fmt: skip
            spec["affinity"] = {"podAntiAffinity": rule}
        case 2:
            spec["nodeSelector"] = {"zone": rng.choice(["z0", "z1", "z2"])}
        case 3:
            term = {"topologyKey": "zone", **selector}
            rule = {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 20, "podAffinityTerm": term}
            ]}  # fmt: skip
            spec["affinity"] = {"podAffinity": rule}
    requests = {
        "cpu": f"{rng.choice([100, 250, 500, 1000])}m",
        "memory": f"{rng.choice([64, 256, 512])}Mi",
    }
    container = {"name": "c", "image": "app:v1", "resources": {"requests": requests}}
    metadata = {"name": f"p{number}", "labels": labels}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


async def judge_500_mixed_pods(
    create: Callable[[str, Json], Awaitable[object]],
    bound: Callable[[str], Awaitable[object]],
    shadow: ShadowProcess,
) -> dict[str, int]:
    """Create 50 nodes and 500 pods for the scheduler that runs beside the shadow.

    Check that the shadow agrees with 98 of 100 decisions and explains all others; return the
    number of comparisons by agreement. `bound` waits until the pod of that name has a node.
    """
    rng = random.Random(7)
    for number in range(50):
        labels = {"zone": f"z{number % 3}", "kubernetes.io/hostname": f"n{number}"}
        allocatable = {"cpu": str(rng.choice([4, 8, 16])), "memory": "32Gi", "pods": "110"}
        status = {"capacity": allocatable, "allocatable": allocatable}
        node = {"metadata": {"name": f"n{number}", "labels": labels}, "status": status}
        await create("/api/v1/nodes", node)
    # Once it has bound a pod it takes all others in the order of their creation.
    container = {"name": "c", "image": "app:v1", "resources": {"requests": {"cpu": "1"}}}
    await create(PODS, {"metadata": {"name": "first"}, "spec": {"containers": [container]}})
    await bound("first")
    for number in range(499):
        await create(PODS, _mixed_pod(rng, number))
    found = await shadow.compared(500)
    counts = await shadow.counts()
    agreed = sum(counts.get(agreement, 0) for agreement in AGREED)
    different = [item for item in found if item["agreement"] not in AGREED]
    print("comparisons by agreement:", counts)
    for item in different:
        print(item["pod"], item["answer"])
    assert agreed >= 0.98 * sum(counts.values())
    for item in different:
        assert item["differences"] or item["rejectedBy"], item
    return counts
