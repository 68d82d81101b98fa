"""Virtual time: two runs are the same to the byte, and nothing in them is dated by a real clock.

The whole suite, twice, is `kubesched-conformance run --event-log FILE` with two files and `cmp`;
here it is a part of it, with victims whose end brings pods back.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from conformance.clock import START_SECONDS
from conformance.format.case import BUILT_IN

PARTS = ("preemption/victims.yaml",)
#: All but when a pod is to be gone.
TIMESTAMP = re.compile(r'(?<!"deletionTimestamp":")\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z')


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Run the suite twice side by side, with the same cases and seed; return the event logs."""
    directory = tmp_path_factory.mktemp("logs")
    paths = [directory / "first.jsonl", directory / "second.jsonl"]
    with (
        _run(paths[0], hash_seed=1, workers=0) as first,
        _run(paths[1], hash_seed=2, workers=2) as second,
    ):
        for run in (first, second):
            output, _ = run.communicate()
            assert run.returncode == 0, output
    return [path.read_bytes() for path in paths]


def _run(log: Path, *, hash_seed: int, workers: int) -> subprocess.Popen[str]:
    cases = [option for part in PARTS for option in ("--cases", str(BUILT_IN / part))]
    command = [sys.executable, "-m", "conformance", "run", "--workers", str(workers)]
    return subprocess.Popen(
        [*command, "--event-log", str(log), *cases],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


def test_two_runs_are_the_same_to_the_byte(logs: list[bytes]) -> None:
    first, second = (log.splitlines() for log in logs)
    differing = [pair for pair in zip(first, second, strict=False) if pair[0] != pair[1]]
    assert differing[:1] == []
    assert logs[0] == logs[1]
    assert len(first) > 300


def test_nothing_is_dated_before_or_after_it_happened(logs: list[bytes]) -> None:
    dates = list(_dates(logs[0]))
    assert len(dates) > 300
    strange = [
        (at, text)
        for at, text in dates
        if not START_SECONDS <= datetime.fromisoformat(text).timestamp() <= START_SECONDS + at
    ]
    assert strange[:5] == []


def _dates(log: bytes) -> Iterator[tuple[float, str]]:
    """Every timestamp of every object, and when the object was written."""
    for line in log.splitlines():
        entry = msgspec.json.decode(line)
        if "change" in entry:
            text = line.decode()
            yield from ((entry["at"], found[0]) for found in TIMESTAMP.finditer(text))
