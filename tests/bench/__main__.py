"""Runs all benchmarks and prints a table; `--history FILE` appends a line of JSON to a file."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path

from tests.bench.cycles import basic_workload, cycles_per_second
from tests.bench.memory import resident_mebibytes
from tests.bench.spreading import growth_exponent, spreading_workload

NODE_COUNTS = (100, 1000, 5000)
PODS = 2000
#: Spreading is measured with two running pods to each of so many nodes...
SPREADING_NODES = 5000
#: ... and its growth over these.
GROWTH_NODE_COUNTS = (500, 1000, 2000, 5000, 10_000)
SPREADING = {"spread hard": "DoNotSchedule", "spread soft": "ScheduleAnyway"}
#: Nodes and running pods whose memory is measured.
LARGE_CLUSTER = (5000, 150_000)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--history", type=Path, help="append the numbers to this file")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the best counts")
    parser.add_argument("--memory", action="store_true", help="and what a large cluster takes")
    arguments = parser.parse_args()
    numbers: dict[str, float] = {}
    print(f"{'workload':<16}{'nodes':>8}{'cycles/s':>12}{'us/cycle':>12}")
    for nodes in NODE_COUNTS:
        best = max(cycles_per_second(basic_workload(nodes, PODS)) for _ in range(arguments.repeat))
        numbers[f"basic-{nodes}"] = round(best, 1)
        print(f"{'basic':<16}{nodes:>8}{best:>12.0f}{1e6 / best:>12.0f}")
    numbers |= _spreading(arguments.repeat)
    if arguments.memory:
        mebibytes = resident_mebibytes(*LARGE_CLUSTER)
        numbers["memory-mebibytes"] = round(mebibytes, 1)
        print("{} nodes, {} running pods: {:.0f} MiB".format(*LARGE_CLUSTER, mebibytes))
    if arguments.history:
        line = {
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "cycles_per_second": numbers,
        }
        with arguments.history.open("a", encoding="utf-8") as history:
            history.write(json.dumps(line) + "\n")


def _spreading(repeat: int) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, when_unsatisfiable in SPREADING.items():
        workload = spreading_workload(SPREADING_NODES, PODS, when_unsatisfiable)
        best = max(cycles_per_second(workload) for _ in range(repeat))
        print(f"{name:<16}{SPREADING_NODES:>8}{best:>12.0f}{1e6 / best:>12.0f}")
        exponent = growth_exponent(
            when_unsatisfiable, PODS // 2, node_counts=GROWTH_NODE_COUNTS, repeat=repeat
        )
        print(f"{name}: time grows with nodes to the power of {exponent:.2f}")
        key = name.replace(" ", "-")
        numbers[f"{key}-{SPREADING_NODES}"] = round(best, 1)
        numbers[f"{key}-exponent"] = round(exponent, 2)
    return numbers


if __name__ == "__main__":
    sys.exit(main())
