"""Runs all benchmarks and prints a table; `--history FILE` appends a line of JSON to a file."""

import argparse
import functools
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.affinity import AFFINITIES, affinity_workload
from tests.bench.api_server import api_server_numbers
from tests.bench.cycles import Workload, basic_workload, cycles_per_second
from tests.bench.devices import devices_workload
from tests.bench.gangs import GANG_SIZES, gang_rates
from tests.bench.group_preemption import group_preemption
from tests.bench.growth import growth_exponent
from tests.bench.memory import resident_mebibytes
from tests.bench.mixed import mixed_workload
from tests.bench.preemption import pod_preemption, preemption_cycles_per_second
from tests.bench.spreading import spreading_workload
from tests.bench.stretches import Stretch, large_cluster, requeued
from tests.bench.waiting import REJECTORS, slowdown, useless_events_milliseconds

NODE_COUNTS = (100, 1000, 5000)
PODS = 2000
#: Rules about pods are measured with two running pods to each of so many nodes...
BUSY_NODES = 5000
#: ... and their growth over these, by fewer pods: those that keep apart need a node each.
GROWTH_NODE_COUNTS = (500, 1000, 2000, 5000, 10_000)
GROWTH_PODS = 350
#: From the numbers of nodes and of pods to schedule.
BUSY: dict[str, Callable[[int, int], Workload]] = {
    "spread hard": lambda nodes, pods: spreading_workload(nodes, pods, "DoNotSchedule"),
    "spread soft": lambda nodes, pods: spreading_workload(nodes, pods, "ScheduleAnyway"),
    **{name: functools.partial(affinity_workload, name) for name in AFFINITIES},
}
#: The members of all gangs together.
GANG_MEMBERS = 2000
#: Nodes, devices that each pod claims, and True if selectors choose them.
DEVICES = ((100, 1, True), (1000, 1, False), (1000, 1, True), (1000, 8, True))
#: Nodes and running pods whose memory is measured, and the stretches of the event loop.
LARGE_CLUSTER = (5000, 150_000)
#: Nodes, pods of lower priority with one core each, members of the gang, and cores of each.
GROUP_PREEMPTIONS = ((20, 2000, 8, 10), (200, 20_000, 8, 10), (5000, 150_000, 1000, 20))
#: Waiting pods that an event moves.
WAITING_PODS = 50_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--history", type=Path, help="append the numbers to this file")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the best counts")
    parser.add_argument("--memory", action="store_true", help="and what a large cluster takes")
    parser.add_argument("--waiting", action="store_true", help="and what pods in vain cost others")
    parser.add_argument("--api-server", action="store_true", help="and the fake API server")
    parser.add_argument("--stretches", action="store_true", help="and what holds the event loop")
    parser.add_argument("--gangs", action="store_true", help="and gangs against single pods")
    arguments = parser.parse_args()
    numbers: dict[str, float] = {}
    if arguments.stretches:
        numbers |= _stretches()
    if arguments.gangs:
        for size in GANG_SIZES:
            for with_topology in (False, True):
                numbers |= _gangs(size, arguments.repeat, with_topology=with_topology)
    print(f"{'workload':<16}{'nodes':>8}{'cycles/s':>12}{'us/cycle':>12}")
    for nodes in NODE_COUNTS:
        best = max(cycles_per_second(basic_workload(nodes, PODS)) for _ in range(arguments.repeat))
        numbers[f"basic-{nodes}"] = round(best, 1)
        _print_row("basic", nodes, best)
    for name in BUSY:
        numbers |= _busy(name, arguments.repeat)
    for nodes, devices, with_cel in DEVICES:
        pods = min(PODS, nodes * (9 // devices))
        workload = devices_workload(nodes, pods, devices=devices, with_cel=with_cel)
        best = max(cycles_per_second(workload) for _ in range(arguments.repeat))
        name = f"devices {devices}{' cel' if with_cel else ''}"
        numbers[f"{name}-{nodes}"] = round(best, 1)
        _print_row(name, nodes, best)
    mixed = mixed_workload(BUSY_NODES, PODS)
    best = max(cycles_per_second(mixed) for _ in range(arguments.repeat))
    numbers[f"mixed-{BUSY_NODES}"] = round(best, 1)
    _print_row("mixed", BUSY_NODES, best)
    best = max(preemption_cycles_per_second(BUSY_NODES) for _ in range(arguments.repeat))
    numbers[f"preemption-{BUSY_NODES}"] = round(best, 1)
    _print_row("preemption", BUSY_NODES, best)
    if arguments.waiting:
        for plugin in REJECTORS:
            numbers |= _waiting(plugin)
    if arguments.memory:
        mebibytes = resident_mebibytes(*LARGE_CLUSTER)
        numbers["memory-mebibytes"] = round(mebibytes, 1)
        print("{} nodes, {} running pods: {:.0f} MiB".format(*LARGE_CLUSTER, mebibytes))
    served = api_server_numbers() if arguments.api_server else {}
    if arguments.history:
        line = {
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "cycles_per_second": numbers,
            **({"api_server": served} if served else {}),
        }
        with arguments.history.open("a", encoding="utf-8") as history:
            history.write(json.dumps(line) + "\n")


def _print_row(name: str, nodes: int, cycles: float) -> None:
    print(f"{name:<16}{nodes:>8}{cycles:>12.0f}{1e6 / cycles:>12.0f}")


def _gangs(size: int, repeat: int, *, with_topology: bool) -> dict[str, float]:
    of_gangs, of_single = gang_rates(
        BUSY_NODES, size=size, members=GANG_MEMBERS, with_topology=with_topology, repeat=repeat
    )
    name = f"gangs of {size}{' in domains' if with_topology else ''}"
    ratio = of_gangs / of_single
    print(f"{name}: {of_gangs:.0f} members/s, {ratio:.2f} of the rate of as many single pods")
    key = name.replace(" ", "-")
    return {f"{key}-{BUSY_NODES}": round(of_gangs, 1), f"{key}-ratio": round(ratio, 2)}


def _stretches() -> dict[str, float]:
    measured = [*large_cluster(*LARGE_CLUSTER), requeued(WAITING_PODS)]
    measured.append(pod_preemption(*LARGE_CLUSTER))
    for nodes, lower, members, cores in GROUP_PREEMPTIONS:
        found = group_preemption(nodes, lower, members=members, cores=cores)
        name = f"group preempts {found.victims} on {nodes} nodes"
        measured.append(Stretch(name, lower, found.seconds, found.stretch_seconds))
    numbers: dict[str, float] = {}
    print(f"{'the event loop is held by':<40}{'objects':>10}{'objects/s':>12}{'longest ms':>12}")
    for name, objects, seconds, stretch in measured:
        print(f"{name:<40}{objects:>10}{objects / seconds:>12.0f}{1000 * stretch:>12.0f}")
        key = f"{name}-{objects}".replace(" ", "-")
        numbers |= {key: round(objects / seconds, 1), f"{key}-stretch-ms": round(1000 * stretch, 1)}
    longest = max(measured, key=lambda row: row.stretch_seconds)
    print(f"the longest of all: {longest.name}, {1000 * longest.stretch_seconds:.0f} ms")
    return numbers


def _waiting(plugin: str) -> dict[str, float]:
    ratio = slowdown(plugin)
    costs = useless_events_milliseconds(plugin)
    print(f"10,000 pods wait because of {plugin}: others take {ratio:.2f} times as long;")
    listed = ", ".join(f"{name} {cost:.2f} ms" for name, cost in costs.items())
    print(f"    events that help none of them: {listed}")
    key = f"waiting-{plugin}"
    return {f"{key}-slowdown": round(ratio, 2), f"{key}-event-ms": round(max(costs.values()), 2)}


def _busy(name: str, repeat: int) -> dict[str, float]:
    workload = BUSY[name](BUSY_NODES, PODS)
    best = max(cycles_per_second(workload) for _ in range(repeat))
    _print_row(name, BUSY_NODES, best)
    exponent = growth_exponent(
        lambda nodes: BUSY[name](nodes, GROWTH_PODS),
        node_counts=GROWTH_NODE_COUNTS,
        repeat=repeat,
    )
    print(f"{name}: time grows with nodes to the power of {exponent:.2f}")
    key = name.replace(" ", "-")
    return {f"{key}-{BUSY_NODES}": round(best, 1), f"{key}-exponent": round(exponent, 2)}


if __name__ == "__main__":
    main()
