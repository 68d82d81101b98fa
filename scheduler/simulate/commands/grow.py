"""`kubesched-simulate grow`: the nodes after which all waiting pods are bound."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click
from msgspec.structs import replace

from scheduler.api import resources
from scheduler.explain.daemons import daemon_pods
from scheduler.reports.counts import counted
from scheduler.simulate.answers import AddedNodes, Answer, Growth
from scheduler.simulate.packing import Bin, Items, Mix, cheapest_mix
from scheduler.simulate.question import question
from scheduler.simulate.shapes import NodeShape, read_shapes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from scheduler.api.core import Pod
    from scheduler.simulate.answers import Outcome, WaitingPod
    from scheduler.simulate.simulation import Situation

#: The most nodes of one shape, to find the pods that it can help, and the most grown clusters.
_PLENTY: Final = 200
_CHECKS_MAX: Final = 12


@question
@click.option(
    "--node-shapes",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="CSV: name, price, max, labels, taints, and a column for each resource.",
)
@click.option(
    "--by",
    type=click.Choice(["price", "nodes"]),
    default="price",
    show_default=True,
    help="Look for the cheapest nodes, or for the fewest.",
)
async def command(situation: Situation, *, node_shapes: Path, by: str) -> Answer:
    """Show which nodes to add so that all waiting pods are bound.

    There are two answers, without and with preemption, each checked by scheduling on the grown
    cluster.
    """
    return await grow(situation, read_shapes(node_shapes), by_price=by == "price")


async def grow(situation: Situation, shapes: Sequence[NodeShape], *, by_price: bool) -> Answer:
    """Find the nodes to add, first without preemption."""
    waiting = [pod for pod in situation.cluster.pods if not pod.spec.node_name]
    growths = []
    for preemption in (False, True):
        search = _Search(situation, shapes, by_price=by_price, preemption=preemption)
        growths.append(await search.run())
    off, on = growths
    return Answer(
        question="grow",
        summary=f"waiting: {counted(len(waiting), 'pod')}; without preemption {_words(off)}, "
        f"with preemption {_words(on)}",
        warnings=situation.warnings(waiting),
        growths=(off, on),
    )


def _words(growth: Growth) -> str:
    nodes = ", ".join(f"{added.count:,} {added.shape}" for added in growth.added) or "no node"
    price = f" for {growth.price:g}" if growth.price else ""
    return f"{nodes} more{price}" + (f", {len(growth.hopeless):,} hopeless" * bool(growth.hopeless))


class _Check(NamedTuple):
    """The result on a cluster grown by a mix of shapes."""

    mix: Mix
    outcome: Outcome

    def waits(self, hopeless: Collection[str] = ()) -> list[str]:
        """Return the keys of the pods that wait, but for the hopeless ones."""
        return [pod.pod for pod in self.outcome.waiting if pod.pod not in hopeless]


class _Search:
    """Looks for the nodes to add, and checks each proposal by scheduling."""

    def __init__(
        self,
        situation: Situation,
        shapes: Sequence[NodeShape],
        *,
        by_price: bool,
        preemption: bool,
    ) -> None:
        self._situation: Final = situation if preemption else _without_preemption(situation)
        self._preemption: Final = preemption
        self._shapes: Final = {shape.name: shape for shape in shapes}
        has_prices = by_price and all(shape.price > 0 for shape in shapes)
        self._bins: Final = {
            name: Bin(name, self._free(shape), shape.price if has_prices else 1.0, shape.max)
            for name, shape in self._shapes.items()
        }
        self._checks = 0

    def _free(self, shape: NodeShape) -> dict[str, int]:
        """Return the amounts of a new node that the pods of DaemonSets leave."""
        node = shape.node(0)
        free = Counter(resources.node_allocatable(node.status.allocatable))
        for pod in daemon_pods(self._situation.cluster.pods, node):
            free.subtract(_amounts(pod))
        return free

    async def run(self) -> Growth:
        """Return the cheapest nodes after which only hopeless pods wait."""
        best = await self._check(Counter())
        helped, hopeless = await self._helped(best)
        if helped:
            proposal = cheapest_mix(self._items(helped), [*self._bins.values()])
            best = await self._enough(proposal, helped, hopeless)
            best = await self._fewer(best, hopeless)
        added = tuple(
            AddedNodes(shape=name, count=best.mix[name], price=shape.price * best.mix[name])
            for name, shape in self._shapes.items()
            if best.mix[name]
        )
        return Growth(
            preemption=self._preemption,
            added=added,
            price=sum(each.price for each in added),
            hopeless=tuple(hopeless.get(pod.pod, pod) for pod in best.outcome.waiting),
            checks=self._checks,
            outcome=best.outcome,
        )

    async def _helped(
        self, start: _Check
    ) -> tuple[dict[str, frozenset[str]], dict[str, WaitingPod]]:
        """Return the shapes that help each pod, and the other pods as beside many such nodes."""
        keys = frozenset(start.waits())
        number = min(len(keys), _PLENTY)
        mixes = [Counter({name: min(number, b.max)}) for name, b in self._bins.items() if keys]
        if len(mixes) > 1:
            mixes.append(sum(mixes, Counter()))
        helps: dict[str, frozenset[str]] = {}
        check = start
        for mix in mixes:
            check = await self._check(mix)
            for key in keys.difference(check.waits()):
                # All shapes together count for pods that no single one helps.
                if len(mix) == 1 or key not in helps:
                    helps[key] = helps.get(key, frozenset[str]()).union(mix)
        left = {pod.pod: pod for pod in check.outcome.waiting if pod.pod in keys - helps.keys()}
        return helps, left

    def _items(self, helped: Mapping[str, frozenset[str]]) -> list[Items]:
        """Return the pods that can be helped, equal ones together."""
        equal: Counter[tuple[tuple[tuple[str, int], ...], frozenset[str]]] = Counter()
        for pod in self._situation.cluster.pods:
            if pod.key in helped:
                equal[tuple(sorted(_amounts(pod).items())), helped[pod.key]] += 1
        return [Items(dict(requests), n, names) for (requests, names), n in equal.items()]

    async def _enough(
        self, mix: Mix, helped: Mapping[str, frozenset[str]], hopeless: Collection[str]
    ) -> _Check:
        """Add nodes to a mix until no pod waits that can be helped."""
        while True:
            check = await self._check(mix)
            left = check.waits(hopeless)
            shapes = helped.get(left[0], self._bins.keys()) if left else ()
            room = [name for name in shapes if mix[name] < self._bins[name].max]
            if not room or self._checks > _CHECKS_MAX * 4:
                return check
            mix = mix + Counter([min(room, key=lambda name: self._bins[name].cost)])

    async def _fewer(self, best: _Check, hopeless: Collection[str]) -> _Check:
        """Leave out nodes, the dearest first, as long as no further pod waits."""
        limit = self._checks + _CHECKS_MAX
        for name in sorted(best.mix, key=lambda name: -self._bins[name].cost):
            while best.mix[name] and self._checks < limit:
                check = await self._check(+(best.mix - Counter([name])))
                if check.waits(hopeless):
                    break
                best = check
        return best

    async def _check(self, mix: Mix) -> _Check:
        """Schedule all waiting pods on the grown cluster."""
        self._checks += 1
        async with self._situation.simulation(settles=False) as simulation:
            cluster = simulation.cluster
            simulation.course.now("nodes are added")
            for index, shape in ((i, self._shapes[name]) for name in mix for i in range(mix[name])):
                node = shape.node(index)
                cluster.apply(node)
                for pod in daemon_pods(self._situation.cluster.pods, node):
                    cluster.apply(pod)
            await cluster.settle()
            return _Check(mix, simulation.course.outcome())


def _without_preemption(situation: Situation) -> Situation:
    pods = [
        pod
        if pod.spec.node_name
        else replace(pod, spec=replace(pod.spec, preemption_policy="Never"))
        for pod in situation.cluster.pods
    ]
    return dataclasses.replace(situation, cluster=situation.cluster._replace(pods=pods))


def _amounts(pod: Pod) -> dict[str, int]:
    """Return the amounts that a pod requests, as the scheduler counts them, and itself."""
    return {**resources.counted(resources.pod_requests(pod)), resources.PODS: 1}
