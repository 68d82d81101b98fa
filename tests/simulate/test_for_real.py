"""The answers of `kubesched-simulate`, confirmed by doing the same on an API server over HTTP.

The API server has actors (owners, kubelets, disruption budgets); the scheduler is our process's.
Both sides break ties by name. Actors and scheduler take turns, so that the order of requests is not
left to chance: each works until nothing is left to be done at this moment, and the requests of a
cycle are answered before the next one. The tests compare the nodes of each owner's pods, the
waiting pods, and the pods that were evicted.
"""

import asyncio
import contextlib
import dataclasses
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from fakeapi import Actors, FakeApiServer
from fakeapi.actors.controller import WorkQueue
from scheduler.assembly import build as assembly
from scheduler.config import DEFAULT_FEATURE_GATES, default_config, load_text
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.explain.manifests import read_manifests
from scheduler.explain.references import MissingKinds
from scheduler.explain.templates import read_templates
from scheduler.plugins import SCHEME
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.queue import QueuedPodInfo
from scheduler.reports.build import owner_of
from scheduler.reports.decision import FirstByName
from scheduler.simulate.answers import Outcome
from scheduler.simulate.commands.capacity import capacity
from scheduler.simulate.commands.change import change
from scheduler.simulate.commands.drain import drain
from scheduler.simulate.commands.grow import grow
from scheduler.simulate.commands.lose import lose
from scheduler.simulate.commands.place import place
from scheduler.simulate.shapes import NodeShape
from scheduler.simulate.simulation import Situation
from scheduler.testing import Simulation, VirtualClock
from tests.fakeapi.api_client import ApiClient
from tests.simulate.what_if import budget, deployment, node, write
from tests.thoroughness import IS_THOROUGH, SEED

Json = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
PODS = "/api/v1/namespaces/default/pods"
CREATED = "2025-12-01T00:00:00Z"
SEEDS = range(SEED, SEED + 50) if IS_THOROUGH else range(1)
#: A drain tries again after so many seconds.
STEP_SECONDS = 5.0
#: 30 s of grace and 10 s of backoff, and one step more.
STEPS_WITHOUT_CHANGE = 9
CLASSES = {"low": 0, "middle": 10, "high": 100}


class World:
    """A random cluster: nodes in zones, ReplicaSets with their pods, budgets."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        zones = self.rng.choice(("ab", "abc"))
        count = self.rng.randint(4, 6)
        self.nodes = [
            node(f"n{i}", str(self.rng.randint(2, 4)), **{ZONE: zones[i % len(zones)]})
            for i in range(count)
        ]
        self._free = {n["metadata"]["name"]: self._millis(n) for n in self.nodes}
        self.objects: list[Json] = [
            *(_priority_class(name, value) for name, value in CLASSES.items()),
            *self.nodes,
        ]
        for number in range(self.rng.randint(3, 5)):
            self._add_set(f"app{number}")

    def spec(self, app: str) -> Json:
        """Return a random pod spec."""
        rng, millis = self.rng, self.rng.choice((300, 500, 800, 1200))
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": f"{millis}m"}}}
        spec: Json = {"containers": [container], "priorityClassName": rng.choice((*CLASSES,))}
        selector = {"matchLabels": {"app": app}}
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        rule = rng.random()
        if rule < 0.2:
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            spec["affinity"] = {"podAntiAffinity": required}
        elif rule < 0.4:
            spread = {"maxSkew": 1, "topologyKey": ZONE, "labelSelector": selector}
            when = rng.choice(("DoNotSchedule", "ScheduleAnyway"))
            spec["topologySpreadConstraints"] = [{**spread, "whenUnsatisfiable": when}]
        elif rule < 0.5:
            spec["nodeSelector"] = {ZONE: "a"}
        return spec

    def _add_set(self, app: str) -> None:
        spec, labels, pods = self.spec(app), {"app": app}, []
        millis = int(spec["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m"))
        for number in range(self.rng.randint(2, 4)):
            rooms = [name for name, free in self._free.items() if free >= millis]
            if not rooms:
                break
            on = self.rng.choice(rooms)
            self._free[on] -= millis
            pods.append(_pod(f"{app}-{number}", app, spec, on))
        template = {"metadata": {"labels": labels}, "spec": spec}
        self.objects.append(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": _metadata(app),
                "spec": {
                    "replicas": len(pods),
                    "selector": {"matchLabels": labels},
                    "template": template,
                },
            }
        )
        self.objects += pods
        if pods and self.rng.random() < 0.7:
            limits: list[Json] = [
                {"maxUnavailable": 1},
                {"minAvailable": max(len(pods) - 1, 1)},
                {"minAvailable": "50%"},
            ]
            self.objects.append(budget(app, **self.rng.choice(limits)))

    def add_waiting(self, app: str, count: int) -> None:
        """Add pods without a node and without an owner."""
        spec = self.spec(app)
        self.objects += [_pod(f"{app}-{number}", app, spec) for number in range(count)]

    def _millis(self, of: Json) -> int:
        return 1000 * int(of["status"]["allocatable"]["cpu"])


def _metadata(name: str) -> Json:
    return {
        "name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": CREATED
    }  # fmt: skip


def _priority_class(name: str, value: int) -> Json:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value}


def _pod(name: str, app: str, spec: Json, on: str = "") -> Json:
    """Return a pod of a ReplicaSet on a node, or a pod without both."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"uid-{app}"}
    priority = CLASSES[spec["priorityClassName"]]
    references = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    ready = [{"type": kind, "status": "True"} for kind in ("Ready", "PodScheduled")]
    metadata = {**_metadata(name), "labels": {"app": app}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    if not on:
        return {**pod, "spec": {**spec, "priority": priority}, "status": {"phase": "Pending"}}
    return {
        **pod,
        "metadata": {**metadata, "ownerReferences": references},
        "spec": {**spec, "nodeName": on, "priority": priority},
        "status": {"phase": "Running", "startTime": CREATED, "conditions": ready},
    }


class Turns:
    """Lets actors work, or the scheduler for one cycle."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.actors, self.scheduler = asyncio.Event(), asyncio.Event()
        self.has_popped = False
        take = WorkQueue.take

        async def take_in_turn(queue: WorkQueue) -> str:
            key = await take(queue)
            await self.actors.wait()
            return key

        async def pop_in_turn(queue: SchedulingQueue) -> QueuedPodInfo:
            queued = None
            while queued is None:
                await self.scheduler.wait()
                queued = queue.pop_nowait()
                self.has_popped = queued is not None
                self.scheduler.clear()
            return queued

        monkeypatch.setattr(WorkQueue, "take", take_in_turn)
        monkeypatch.setattr(SchedulingQueue, "pop", pop_in_turn)
        is_idle = property(lambda _: not self.scheduler.is_set())
        monkeypatch.setattr(SchedulingQueue, "is_idle", is_idle)


class Real:
    """The same cluster on an API server."""

    def __init__(
        self,
        server: FakeApiServer,
        actors: Actors,
        api: ApiClient,
        turns: Turns,
        stack: AsyncExitStack,
    ) -> None:
        self.server, self.actors, self.api, self.stack = server, actors, api, stack
        self.turns = turns
        self.scheduler: Simulation | None = None

    async def start_scheduler(self, **args: Json) -> None:
        simulation = Simulation(self.server, args=args)
        self.scheduler = await self.stack.enter_async_context(simulation)
        await self.settle()

    async def settle(self) -> None:
        """Let actors and scheduler take turns until nothing is left to be done at this moment."""
        while True:
            self.turns.actors.set()
            await self.actors.wait_until_idle()
            self.turns.actors.clear()
            if self.scheduler is None:
                return
            await self.scheduler.idle()
            self.turns.has_popped = True
            while self.turns.has_popped:
                self.turns.scheduler.set()
                await self.scheduler.idle()
            if self.actors.is_idle:
                return

    async def pass_time(self) -> None:
        """Let `STEP_SECONDS` pass."""
        assert self.scheduler is not None
        for _ in range(int(STEP_SECONDS)):
            await self.scheduler.advance(1.0)
            await self.settle()

    async def rest(self) -> None:
        """Let time pass until no pod changes within a grace period and a backoff."""
        steps, before = 0, await self.state()
        while steps < STEPS_WITHOUT_CHANGE:
            await self.pass_time()
            now = await self.state()
            steps, before = (steps + 1 if now == before else 0), now

    async def state(self) -> list[tuple[str | None, ...]]:
        """Return the pods, their nodes and the times at which they end."""
        return [
            (
                pod["metadata"]["uid"],
                pod["spec"].get("nodeName"),
                pod["metadata"].get("deletionTimestamp"),
            )
            for pod in await self.items()
        ]

    async def items(self, path: str = PODS) -> list[Json]:
        items: list[Json] = (await self.api.get(path)).body["items"]
        return items

    async def request(self, method: str, path: str, body: Any = None, **query: Any) -> int:
        """Send a request once; 429 (a budget) and 404 are answers."""
        reply = await self.api.request(method, path, body, **query)
        assert reply.code < 300 or reply.code in (404, 429), reply.body
        return reply.code

    async def place(self, wanted: Json) -> None:
        await self.request("POST", "/apis/apps/v1/namespaces/default/deployments", wanted)
        await self.settle()
        await self.rest()

    async def lose(self, names: Iterable[str]) -> None:
        for name in names:
            await self.request("DELETE", f"/api/v1/nodes/{name}")
        pods = [pod for pod in await self.items() if pod["spec"].get("nodeName") in names]
        for pod in sorted(pod["metadata"]["name"] for pod in pods):
            await self.request("DELETE", f"{PODS}/{pod}", gracePeriodSeconds=0)
            await self.settle()
        # The scheduler sees the whole loss at once.
        await self.start_scheduler()
        await self.rest()

    async def drain(self, names: Iterable[str]) -> None:
        """Cordon and evict as kubectl does; a node whose pods stay is left in the end."""
        for name in names:
            [found] = [
                n for n in await self.items("/api/v1/nodes") if n["metadata"]["name"] == name
            ]
            found["spec"]["unschedulable"] = True
            await self.request("PUT", f"/api/v1/nodes/{name}", found)
        await self.settle()
        for name in names:
            pods = [p for p in await self.items() if p["spec"].get("nodeName") == name]
            left = sorted(pod["metadata"]["name"] for pod in pods)
            steps, before = 0, await self.state()
            while left and steps < STEPS_WITHOUT_CHANGE:
                left = [pod for pod in left if not await self._evict(pod)]
                await self.pass_time()
                now = await self.state()
                steps, before = (steps + 1 if now == before else 0), now
            await self.rest()

    async def _evict(self, name: str) -> bool:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        if await self.request("POST", f"{PODS}/{name}/eviction", eviction) == 429:
            return False
        await self.settle()
        return True


@pytest.fixture(autouse=True)
def without_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Break ties by name, and begin the search for victims at the first node."""
    monkeypatch.setattr(assembly, "RandomTie", lambda rng: FirstByName())
    monkeypatch.setattr(DefaultPreemption, "offset_and_num_candidates", lambda _, total: (0, total))


@contextlib.asynccontextmanager
async def real(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Real]:
    turns = Turns(monkeypatch)
    clock = VirtualClock()
    async with (
        FakeApiServer(clock=clock, seed=1, load=world.objects) as server,
        Actors(server, owners=True, kubelet=True, disruption_budgets=True, events=False) as actors,
        aiohttp.ClientSession() as session,
        AsyncExitStack() as stack,
    ):
        running = Real(server, actors, ApiClient(session, server.url), turns, stack)
        await running.settle()
        yield running


def situation(world: World, tmp_path: Path) -> Situation:
    cluster, _ = read_manifests([write(tmp_path / "cluster.yaml", *world.objects)])
    return Situation(
        cluster=cluster,
        missing=MissingKinds(cluster),
        config=default_config(SCHEME),
        feature_gates=DEFAULT_FEATURE_GATES,
    )


def _of_simulation(of: Situation, outcome: Outcome) -> tuple[Counter[Any], set[str]]:
    """Return where the pods of each owner are, and the keys of the pods that were evicted."""
    evicted = {pod.pod for pod in outcome.evicted}
    present = {pod.key: (owner_of(pod), pod.spec.node_name) for pod in of.cluster.pods}
    placed = {pod.pod: (pod.owner, pod.node) for pod in outcome.placed}
    waiting = {pod.pod: (pod.owner, "") for pod in outcome.waiting}
    found = {**present, **placed, **waiting}
    states = Counter(state for key, state in found.items() if key not in evicted)
    return states, evicted & present.keys()


async def _of_server(of: Situation, running: Real) -> tuple[Counter[Any], set[str]]:
    pods = [msgspec.convert(each, type(of.cluster.pods[0])) for each in await running.items()]
    states = Counter((owner_of(pod), pod.spec.node_name) for pod in pods)
    return states, {pod.key for pod in of.cluster.pods} - {pod.key for pod in pods}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow
async def test_pods_are_placed_as_for_real(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(seed)
    of = situation(world, tmp_path)
    wanted = deployment("new", world.rng.randint(1, 5))
    wanted["spec"]["template"]["spec"] = {**world.spec("new"), "priorityClassName": "high"}
    templates = read_templates(write(tmp_path / "new.yaml", wanted), of.cluster)
    answer = await place(of, templates)
    async with real(world, monkeypatch) as running:
        await running.start_scheduler()
        await running.place(wanted)
        assert answer.place is not None
        assert _of_simulation(of, answer.place) == await _of_server(of, running)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow
async def test_nodes_are_drained_as_for_real(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(seed)
    of = situation(world, tmp_path)
    names = [each["metadata"]["name"] for each in world.rng.sample(world.nodes, 2)]
    chosen = [each for name in names for each in of.cluster.nodes if each.metadata.name == name]
    answer = await drain(of, chosen)
    async with real(world, monkeypatch) as running:
        await running.start_scheduler()
        await running.drain(names)
        assert answer.drain is not None
        assert _of_simulation(of, answer.drain.outcome) == await _of_server(of, running)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow
async def test_a_zone_is_lost_as_for_real(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(seed)
    of = situation(world, tmp_path)
    lost = [each for each in of.cluster.nodes if each.metadata.labels[ZONE] == "a"]
    answer = await lose(of, {"a": lost})
    async with real(world, monkeypatch) as running:
        await running.lose([each.metadata.name for each in lost])
        [loss] = answer.losses
        assert _of_simulation(of, loss.outcome) == await _of_server(of, running)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow
async def test_as_many_copies_fit_as_for_real(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(seed)
    of = situation(world, tmp_path)
    wanted = deployment("new", 1)
    # The lowest priority evicts no other pod, as copies do.
    wanted["spec"]["template"]["spec"] = {**world.spec("new"), "priorityClassName": "low"}
    templates = read_templates(write(tmp_path / "new.yaml", wanted), of.cluster)
    [found] = (await capacity(of, templates)).capacities
    async with real(world, monkeypatch) as running:
        await running.start_scheduler()
        wanted["spec"]["replicas"] = found.copies + 1
        await running.place(wanted)
        assert _of_simulation(of, found.outcome) == await _of_server(of, running)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow
async def test_the_grown_cluster_is_as_for_real(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(seed)
    world.add_waiting("new", world.rng.randint(4, 9))
    of = situation(world, tmp_path)
    shapes = [
        NodeShape(
            f"new-{zone}-{cpu}",
            amounts={"cpu": str(cpu), "memory": "8Gi", "pods": "110"},
            labels=f"{ZONE}={zone}",
        )
        for zone in "ab"
        for cpu in (1, 2)
    ]
    _, growth = (await grow(of, shapes, by_price=False)).growths
    for shape in shapes:
        added = sum(each.count for each in growth.added if each.shape == shape.name)
        kind = {"apiVersion": "v1", "kind": "Node"}
        world.objects += [
            {**kind, **msgspec.to_builtins(shape.node(number))} for number in range(added)
        ]
    async with real(world, monkeypatch) as running:
        await running.start_scheduler()
        await running.rest()
        assert _of_simulation(of, growth.outcome) == await _of_server(of, running)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow
async def test_another_configuration_decides_as_for_real(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(seed)
    world.add_waiting("new", world.rng.randint(2, 5))
    of = situation(world, tmp_path)
    resources = [{"name": "cpu", "weight": 1}]
    args = {"scoringStrategy": {"type": "MostAllocated", "resources": resources}}
    profile = {"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    packed = dataclasses.replace(of, config=load_text(json.dumps(document), SCHEME))
    changes = (await change(of, packed)).changes
    assert changes is not None
    async with real(world, monkeypatch) as running:
        await running.start_scheduler(NodeResourcesFit=args)
        await running.rest()
        nodes = {
            pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in await running.items()
        }
    waiting = [pod for pod in changes.pods if pod.pod.startswith("default/new-")]
    assert {pod.pod: pod.after for pod in waiting} == {
        pod.pod: nodes[pod.pod.removeprefix("default/")] or "" for pod in waiting
    }
