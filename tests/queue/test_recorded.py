"""Our queue against the recorded states of upstream's queue after the same scripts.

`recorded.jsonl.gz` holds random scripts and, after each step, the state of the queue of
kube-scheduler v1.36.3: the place and the attributes of each pod, the pods in flight, the nominated
pods; and its metrics at the end. `recorder/main.go` explains how to record again.
"""

import functools
import gzip
import json
from pathlib import Path

import pytest

from tests.queue.recorded import Player

RECORDED = Path(__file__).parent / "recorded.jsonl.gz"


@functools.cache
def recorded() -> list[bytes]:
    with gzip.open(RECORDED) as lines:
        return lines.readlines()


@pytest.mark.parametrize("number", range(60))
def test_our_queue_has_the_states_of_upstreams(number: int) -> None:
    played = json.loads(recorded()[number])
    player = Player(played["script"])
    for index, (step, expected) in enumerate(
        zip(played["script"]["steps"], played["states"], strict=True)
    ):
        assert player.take(step) == expected, f"step {index}: {step}"
    assert player.metrics() == played["metrics"]
