"""Send random requests to `kubesched-fakeapi`, made from its own OpenAPI documents.

    python -m tests.fuzz.api_server --requests 20000 --seed 1

The server is a process of its own. After each batch it must be alive, quick and no larger than its
event log and caches explain; no answer may be a 5xx that upstream would not give, and nothing may
be written to stderr. Each failure is printed with the request in bytes, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.fakeapi import custom_resources

from .asking import Asked, Asker, resources_of
from .connections import Answer, Connection, Hang
from .failures import shape_of, status_in

BATCH: Final = 500
#: Of one request; a list that waits for a version that never comes takes three seconds.
LATENCY_SECONDS_MAX: Final = 10.0
#: What the event log, the caches and the objects may add to the server's memory.
GROWTH_MEBIBYTES_MAX: Final = 250.0
#: Small, so that it is full, and the memory at rest, long before the end.
_EVENT_LOG: Final = 200
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_PROBLEMS_MAX: Final = 20


@dataclasses.dataclass
class Findings:
    """The results of a run."""

    requests: int = 0
    codes: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    problems: list[str] = dataclasses.field(default_factory=list)
    failures: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    #: The same, each with its request, byte by byte.
    failed: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    slowest_seconds: float = 0.0
    mebibytes: list[float] = dataclasses.field(default_factory=list)

    def report(self) -> str:
        """A few lines for people."""
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(self.codes.items()))
        memory = ", ".join(f"{value:.0f}" for value in self.mebibytes)
        lines = [f"{self.requests} requests; {codes}", f"slowest {self.slowest_seconds:.2f} s"]
        lines.append(f"MiB after each batch: {memory}")
        lines += [f"as upstream, {count} times: {text}" for text, count in self.failures.items()]
        return "\n".join([*lines, *self.problems])


class Server:
    """The server under test, and its observable state: port, stderr, memory."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process = process
        self._errors = errors
        assert process.stdout is not None
        self.port = int(process.stdout.readline().strip().rpartition(":")[2])

    @property
    def is_alive(self) -> bool:
        """True if the process runs."""
        return self._process.poll() is None

    def complaints(self) -> str:
        """Return the text on stderr."""
        return self._errors.read_text(encoding="utf-8", errors="replace")

    def mebibytes(self) -> float:
        """Return the resident memory."""
        statm = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="utf-8")
        return int(statm.split()[1]) * _PAGE_BYTES / 2**20


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """Run `kubesched-fakeapi` as a user starts it; it must stop after SIGTERM."""
    with tempfile.TemporaryDirectory() as directory:
        errors = Path(directory) / "stderr"
        command = [sys.executable, "-m", "fakeapi", "--event-log-size", str(_EVENT_LOG)]
        with (
            errors.open("w", encoding="utf-8") as sink,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=sink, encoding="utf-8"
            ) as process,
        ):
            try:
                yield Server(process, errors)
            finally:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise


def fuzz(server: Server, *, requests: int, seed: int) -> Findings:
    """Send that many requests and return the findings."""
    chance = random.Random(seed)
    connection = Connection(server.port, patience_seconds=LATENCY_SECONDS_MAX * 2)
    findings = Findings()
    prepare(connection)
    asker = asker_for(connection, chance)
    version = _version(connection)
    findings.mebibytes.append(server.mebibytes())
    while findings.requests < requests and len(findings.problems) < _PROBLEMS_MAX:
        for _ in range(min(BATCH, requests - findings.requests)):
            _ask(connection, asker, findings)
        complaints = server.complaints()
        if not server.is_alive:
            findings.problems.append(f"the server is dead: {complaints[-3000:]}")
            break
        if complaints:
            findings.problems.append(f"on stderr: {complaints[:6000]}")
            break
        findings.mebibytes.append(server.mebibytes())
        now = _version(connection)
        if now <= version:
            findings.problems.append(f"the resourceVersion went from {version} to {now}")
        version = now
    if findings.mebibytes[-1] - findings.mebibytes[0] > GROWTH_MEBIBYTES_MAX:
        findings.problems.append("it grew more than its log and caches explain")
    connection.close()
    return findings


def _ask(connection: Connection, asker: Asker, findings: Findings) -> None:
    asked = asker.next()
    findings.requests += 1
    try:
        answer = connection.exchange(asked.method, asked.raw, reads_streams=_ends(asked))
    except Hang as error:
        findings.problems.append(f"{error}: {asked}")
        return
    findings.codes[answer.code] += 1
    findings.slowest_seconds = max(findings.slowest_seconds, answer.seconds)
    if answer.seconds > LATENCY_SECONDS_MAX:
        findings.problems.append(f"{answer.seconds:.1f} s: {asked}")
    problem = _wrong_with(answer)
    if problem:
        findings.problems.append(f"{problem}: {asked}")
    elif answer.code >= 500:
        status = status_in(answer.body)
        findings.failures[shape_of(status) or str(status.get("reason"))] += 1
        findings.failed.append({"asked": asked.raw.decode("latin-1"), "answered": status})
    elif answer.code < 300:
        asker.learn(asked, answer.body)


def _ends(asked: Asked) -> bool:
    """True if the watch ends soon enough to be read to its end."""
    return asked.takes_time and "timeoutSeconds=1" in asked.target and "1e9" not in asked.target


def _wrong_with(answer: Answer) -> str:
    """Return the error in an answer, or nothing; failures that upstream has too are allowed."""
    if not answer.code:
        return f"no answer ({answer.body.decode()})"
    if answer.code < 500:
        return ""
    try:
        status = status_in(answer.body)
    except ValueError:
        return f"{answer.code} {answer.body[:300]!r}"
    is_known = answer.code == 504 or (answer.code == 500 and shape_of(status))
    return "" if is_known else f"{answer.code} {status}"


def prepare(connection: Connection) -> None:
    """Store objects that requests can find; existing ones stay."""
    definition = {
        **custom_resources.definition(),
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
    }
    _post(connection, custom_resources.DEFINITIONS, definition)
    _post(connection, "/api/v1/namespaces", {"metadata": {"name": "other"}})
    _post(connection, "/api/v1/nodes", {"metadata": {"name": "n1"}})


def asker_for(connection: Connection, chance: random.Random) -> Asker:
    """Read the served resources, and return an asker for them."""
    documents = _get(connection, "/openapi/v3")["paths"]
    resources = []
    for path in documents:
        resources += resources_of(_get(connection, f"/openapi/v3/{path}"), chance)
    assert any("widgets" in resource.path for resource in resources)
    return Asker(chance, resources)


def _version(connection: Connection) -> int:
    """The newest resourceVersion, after a write."""
    made = _post(connection, "/api/v1/namespaces", {"metadata": {"generateName": "v-"}})
    name = made["metadata"]["name"]
    head = f"DELETE /api/v1/namespaces/{name} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    connection.exchange("DELETE", head.encode(), reads_streams=False)
    return int(made["metadata"]["resourceVersion"])


def _get(connection: Connection, path: str) -> Any:
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n".encode()
    answer = connection.exchange("GET", head, reads_streams=False)
    assert answer.code == 200, (path, answer)
    return json.loads(answer.body)


def _post(connection: Connection, path: str, value: Any) -> Any:
    raw = json.dumps(value).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(raw)}\r\n\r\n"
    answer = connection.exchange("POST", head.encode() + raw, reads_streams=False)
    assert answer.code in (201, 409), (path, answer)
    return json.loads(answer.body)


def main() -> None:
    """The entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dump-500", type=Path, help="write answers 500 and their requests here")
    options = parser.parse_args()
    began = time.monotonic()
    with running_server() as server:
        findings = fuzz(server, requests=options.requests, seed=options.seed)
    if options.dump_500:
        lines = [json.dumps(each) + "\n" for each in findings.failed]
        options.dump_500.write_text("".join(lines), encoding="utf-8")
    print(findings.report())
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(1 if findings.problems else 0)


if __name__ == "__main__":
    main()
