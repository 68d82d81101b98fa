"""Our queue against the recorded states of upstream's queue after the same scripts.

`recorded.jsonl.gz` holds random scripts and, after each step, the state of the queue of
kube-scheduler v1.36.3: the place and the attributes of each pod, the pods in flight, the nominated
pods; and its metrics at the end. `recorded_without_hints.jsonl.gz` holds those of a scheduler that
emulates 1.33 with SchedulerQueueingHints off, and `recorded_without_early_pops.jsonl.gz` those with
SchedulerPopFromBackoffQ off. `recorder/main.go` explains how to record again.
"""

import functools
import gzip
import json
from pathlib import Path

import pytest

from tests.queue.recorded import Player


@functools.cache
def recorded(file: str) -> list[bytes]:
    with gzip.open(Path(__file__).with_name(file)) as lines:
        return lines.readlines()


@pytest.mark.parametrize(
    ("file", "number"),
    [
        *(("recorded.jsonl.gz", number) for number in range(60)),
        *(("recorded_without_hints.jsonl.gz", number) for number in range(20)),
        *(("recorded_without_early_pops.jsonl.gz", number) for number in range(20)),
    ],
)
def test_our_queue_has_the_states_of_upstreams(file: str, number: int) -> None:
    played = json.loads(recorded(file)[number])
    player = Player(played["script"])
    for index, (step, expected) in enumerate(
        zip(played["script"]["steps"], played["states"], strict=True)
    ):
        assert player.take(step) == expected, f"step {index}: {step}"
    assert player.metrics() == played["metrics"]
