"""The cost of persistent state: pod creates with and without a database or a recording.

Rates are per second of the server's CPU time, as in `api_server`, one watch open; each is the
median of several servers, taken in turn so that a machine that gets busier does so for all.
`python -m tests.bench.state` prints the table.
"""

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path

from . import api_server
from .api_server import creates, rate_of, running_server, send_all, watched

__all__ = ["state_numbers"]

WRITES = 3000
WARM_UP = 200
ROUNDS = 5
CONNECTIONS = (1, 8, 64)
#: The flags of each measured variant; FILE is a new file each time.
KEPT = {
    "nothing": (),
    "--data": ("--data", "FILE"),
    "--record": ("--record", "FILE"),
}


async def create_rate(flags: tuple[str, ...]) -> float:
    """Pod creates per second of the CPU of a new server."""
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "state")
        with running_server(*(path if flag == "FILE" else flag for flag in flags)) as server:
            async with watched(server, 1):
                await send_all(server, creates(0, WARM_UP), 201)
                return await rate_of(server, creates(WARM_UP, WRITES))


def state_numbers() -> dict[str, float]:
    """All numbers, printed as they come."""
    numbers: dict[str, float] = {}
    for connections in CONNECTIONS:
        api_server.CONNECTIONS = connections
        rates: dict[str, list[float]] = {name: [] for name in KEPT}
        for _ in range(ROUNDS):
            for name, flags in KEPT.items():
                rates[name].append(asyncio.run(create_rate(flags)))
        for name, measured in rates.items():
            title = f"pod creates, {connections} connections, {name} kept"
            numbers[title] = round(statistics.median(measured), 1)
            print(f"{title:<44}{numbers[title]:>10.1f} /s", flush=True)
    return numbers


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.state", description=__doc__)
    parser.parse_args()
    state_numbers()
