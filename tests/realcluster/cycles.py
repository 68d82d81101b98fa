"""Cycles a second of ours and of kube-scheduler, for the same nodes and pods, without API server.

    python -m tests.realcluster.cycles [--nodes 1000 5000] [--rounds 3] [--into FILE]

Both look at all nodes (percentageOfNodesToScore: 100), in turn, and the best of the rounds counts.
kube-scheduler is the program in upstream_cycle/, which Go builds; it filters and scores with 16
goroutines on all cores, ours in one thread. `--into` replaces the table between marks in a file.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tests.bench.__main__ import BUSY, GROWTH_PODS
from tests.bench.cycles import Workload, basic_workload, cycles_per_second
from tests.realcluster.binaries import UPSTREAM_CYCLE
from tests.realcluster.throughput import write_table

WORKLOADS: Final[dict[str, Callable[[int, int], Workload]]] = {"plain": basic_workload, **BUSY}


def upstream_cycles_per_second(workload: Workload) -> float:
    """Schedule all pods of a workload with kube-scheduler. Raises NoBinary without Go."""
    objects = {"Nodes": workload.nodes, "Running": workload.running, "Pods": workload.pods}
    done = subprocess.run(
        [UPSTREAM_CYCLE.find()],
        input=msgspec.json.encode(objects),
        stdout=subprocess.PIPE,
        check=True,
    )
    return float(done.stdout)


def compared(name: str, nodes: int, rounds: int) -> str:
    """Return the row of a table."""
    ours = stock = 0.0
    for _ in range(rounds):
        workload = WORKLOADS[name](nodes, GROWTH_PODS)
        ours = max(ours, cycles_per_second(workload))
        stock = max(stock, upstream_cycles_per_second(workload))
    return f"| {name} | {nodes:,} | {ours:,.0f} | {stock:,.0f} | {ours / stock:.1f} |"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--into", type=Path)
    arguments = parser.parse_args()
    lines = ["| pods | nodes | ours | kube-scheduler | ratio |", "|---|--:|--:|--:|--:|"]
    for name in WORKLOADS:
        for nodes in arguments.nodes:
            lines.append(compared(name, nodes, arguments.rounds))
            print(lines[-1], file=sys.stderr, flush=True)
    table = "\n".join(lines) + "\n"
    if arguments.into is None:
        print(table, end="")
    else:
        write_table(arguments.into, table, name="cycles")


if __name__ == "__main__":
    main()
