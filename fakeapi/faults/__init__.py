"""Fault injection: failures of requests, watches and the server; logged and repeatable.

    async with FakeApiServer(faults=["faults.yaml"], seed=7) as server:
        server.faults.add(
            Fault(match=Match(verb="create", resource="pods/binding"), when=When(nth=2),
                  reset=Reset(after_write=True))
        )
        ...
        assert server.faults.count("fault-1") == 1

Three ways in: this API, YAML files (`--faults FILE`, the format is schema.json), and HTTP
(`/_fakeapi/faults`, see admin.py). model.py has all faults and their fields; README.md has an
example for each.
"""

from __future__ import annotations

from fakeapi.faults.files import fault_of, faults_of, read_faults, schema
from fakeapi.faults.injector import FaultOptions, Faults
from fakeapi.faults.log import Injection, script_from
from fakeapi.faults.model import (
    AnswerWith,
    Compact,
    Cut,
    Delay,
    DropWatches,
    Duplicate,
    Expire,
    Fault,
    FaultError,
    Garble,
    Lose,
    Match,
    Observe,
    Outage,
    Outdated,
    RefuseWatchList,
    Reset,
    Restart,
    Retype,
    Stale,
    Stall,
    Strip,
    When,
)

__all__ = [
    "AnswerWith",
    "Compact",
    "Cut",
    "Delay",
    "DropWatches",
    "Duplicate",
    "Expire",
    "Fault",
    "FaultError",
    "FaultOptions",
    "Faults",
    "Garble",
    "Injection",
    "Lose",
    "Match",
    "Observe",
    "Outage",
    "Outdated",
    "RefuseWatchList",
    "Reset",
    "Restart",
    "Retype",
    "Stale",
    "Stall",
    "Strip",
    "When",
    "fault_of",
    "faults_of",
    "read_faults",
    "schema",
    "script_from",
]
