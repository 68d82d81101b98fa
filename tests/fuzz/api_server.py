"""Send random and hostile requests to a fake API server in this process, and judge each answer.

    python -m tests.fuzz.api_server --requests 200000 --seed 1

The server has RBAC; requests come from an administrator, from a user with few rights, and from
anonymous clients. A finding is an answer 5xx that upstream would not give, a connection closed
without an answer, a logged error, a change or an answer that its user has no right to, a request
that holds the event loop beyond its budget, and memory that grows. Each is printed with its
request, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import ctypes
import dataclasses
import gc
import os
import random
import sys
import time
import urllib.parse
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from .asking import Asked, Asker
from .hostile import Hostile
from .served import ADMIN, ANONYMOUS, READABLE, READER, Served, Turn, serving
from .verdicts import Finding, is_beyond_budget, shape, shown, wrong_with
from .wire import Meter, Stretch

#: Created objects are removed after so many requests.
_CLEANED_AFTER: Final = 500
_MEASURED_AFTER: Final = 10_000
_HOSTILE_SHARE: Final = 0.5
_FINDINGS_MAX: Final = 40
_SLOWEST: Final = 10
#: After the first quarter; some caches take longer to fill.
_GROWTH_MEBIBYTES_MAX: Final = 12.0
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclasses.dataclass
class Findings:
    """The results of a run."""

    requests: int = 0
    #: Of processor time.
    seconds: float = 0.0
    codes: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    shapes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    #: The first requests of each finding.
    found: dict[str, str] = dataclasses.field(default_factory=dict)
    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    slowest: list[tuple[Stretch, str]] = dataclasses.field(default_factory=list)
    #: In MiB.
    memory: list[float] = dataclasses.field(default_factory=list)

    def observe(self, turn: Turn) -> None:
        """Count the answers of a turn."""
        self.requests += len(turn.asked)
        for answer in turn.answers:
            self.codes[answer.code] += 1
            if answer.code >= 500:
                self.shapes[shape(answer) or "none of upstream's"] += 1
        held = turn.stretch
        if len(self.slowest) < _SLOWEST or held > self.slowest[-1][0]:
            self.slowest = sorted([*self.slowest, (held, shown(turn))], reverse=True)[:_SLOWEST]

    def add(self, findings: Iterable[Finding]) -> None:
        """Count findings, and keep the first of each."""
        for finding in findings:
            self.counts[finding.headline] += 1
            self.found.setdefault(finding.headline, finding.requests)

    def measure(self) -> None:
        """Measure the memory."""
        with contextlib.suppress(AttributeError):  # of glibc; others have no such function
            ctypes.CDLL(None).malloc_trim(0)
        statm = Path("/proc/self/statm").read_text(encoding="ascii")
        self.memory.append(int(statm.split()[1]) * _PAGE_BYTES / 2**20)

    @property
    def growth(self) -> float:
        """Return how much the memory grew after the first quarter."""
        later = self.memory[len(self.memory) // 4 :]
        return later[-1] - later[0] if len(later) > 1 else 0.0

    def report(self) -> str:
        """A few lines for people."""
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(self.codes.items()))
        lines = [f"{self.requests} requests in {self.seconds:.0f} s of CPU time; {codes}"]
        lines += [f"as upstream, {count} times: {text}" for text, count in self.shapes.items()]
        memory = ", ".join(f"{each:.0f}" for each in self.memory)
        lines.append(f"MiB of memory, after each {_MEASURED_AFTER} requests: {memory}")
        lines.append("the longest stretches of the event loop (CPU time, all but waiting for CPU):")
        lines += [f"  {held}: {requests}" for held, requests in self.slowest]
        lines += [
            f"FINDING, {self.counts[headline]} times: {headline}\n    {requests}"
            for headline, requests in self.found.items()
        ]
        return "\n".join(lines)


def fuzz(*, requests: int, seed: int) -> Findings:
    """Send that many requests and return the findings."""
    meter = Meter()
    loop = asyncio.SelectorEventLoop(meter)
    try:
        return loop.run_until_complete(_fuzz(meter, requests=requests, seed=seed))
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _fuzz(meter: Meter, *, requests: int, seed: int) -> Findings:
    findings = Findings()
    chance = random.Random(seed)
    async with serving(meter) as served:
        asker = await _asker(served, chance)
        hostile = Hostile(chance)
        began = time.process_time()
        gc.collect()
        gc.disable()  # a collection in the middle of a request is not the request's
        try:
            while findings.requests < requests and len(findings.found) < _FINDINGS_MAX:
                before = findings.requests
                turn = await served.turn(*_next(chance, asker, hostile))
                findings.observe(turn)
                findings.add(wrong_with(turn))
                findings.add(await _slow(served, turn))
                if turn.user == ADMIN:
                    for asked, answer in zip(turn.asked, turn.answers, strict=True):
                        if answer.code in (200, 201):
                            asker.learn(asked, answer.body)
                await _housekeeping(served, findings, before)
        finally:
            gc.enable()
        findings.seconds = time.process_time() - began
    is_exact = not sys.getallocatedblocks()  # without Python's own allocator
    if is_exact and findings.growth > _GROWTH_MEBIBYTES_MAX:
        findings.add([Finding("the memory grows", f"by {findings.growth:.0f} MiB")])
    return findings


async def _asker(served: Served, chance: random.Random) -> Asker:
    """Read the served resources, and return an asker for them."""
    paths = (await served.document("/openapi/v3"))["paths"]
    documents = [await served.document(f"/openapi/v3/{path}") for path in paths]
    assert any("widgets" in path for document in documents for path in document["paths"])
    return Asker(chance, documents)


def _next(chance: random.Random, asker: Asker, hostile: Hostile) -> tuple[str, list[Asked]]:
    """Return the next requests, and their user."""
    user = chance.choices((ADMIN, READER, ANONYMOUS), (76, 16, 8))[0]
    found: list[Asked] = []
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        asked = asker.next("" if user == ADMIN else chance.choice(("", *READABLE)))
        if chance.random() < _HOSTILE_SHARE:
            asked = hostile.changed(asked)
        if asked.administers:
            return user, [asked]
        found.append(asked)
    if any(_changes_roles(asked) for asked in found):
        user = ANONYMOUS  # an administrator would give rights to others
    return user, found


def _changes_roles(asked: Asked) -> bool:
    path = urllib.parse.unquote(urllib.parse.unquote(asked.target)).lower()
    return asked.method not in ("GET", "HEAD") and "rbac.authorization" in path


async def _slow(served: Served, turn: Turn) -> list[Finding]:
    """Return which requests of a turn that took too long take too long alone.

    If none does, as the first of them has changed what the others find, it is the turn, unless a
    busy machine is reason enough.
    """
    if not is_beyond_budget(turn):
        return []
    alone = [await served.turn(turn.user, [asked]) for asked in turn.asked]
    guilty = [each for each in alone if is_beyond_budget(each)]
    if not guilty and is_beyond_budget(turn, factor=2):
        guilty = [turn]
    return [_held(each) for each in guilty]


def _held(turn: Turn) -> Finding:
    kinds = {
        f"{each.method} {each.headers.get('Content-Type', '')} "
        f"{'' if each.resource is None else each.resource.kind}"
        for each in turn.asked
    }
    return Finding(
        f"the loop is held by {' | '.join(sorted(kinds))}", f"{turn.stretch}\n    {shown(turn)}"
    )


async def _housekeeping(served: Served, findings: Findings, before: int) -> None:
    """Remove objects, collect garbage and measure memory every so many requests."""
    now = findings.requests
    if before // _CLEANED_AFTER == now // _CLEANED_AFTER:
        return
    await served.clean()
    gc.collect()
    if before // _MEASURED_AFTER != now // _MEASURED_AFTER or not findings.memory:
        findings.measure()


def main() -> None:
    """The entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if "PYTHONMALLOC" not in os.environ:  # Python's own allocator keeps what a large request took
        command = [sys.executable, "-m", __spec__.name, *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONMALLOC": "malloc"})  # noqa: S606
    findings = fuzz(requests=options.requests, seed=options.seed)
    print(findings.report())
    sys.exit(1 if findings.found else 0)


if __name__ == "__main__":
    main()
