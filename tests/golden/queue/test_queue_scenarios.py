"""The life of pods in the queue, as files: see `stage` for the commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden.queue.stage import Scenario

HERE = Path(__file__).parent


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_the_output_of_the_queue_is_that_of_the_file(
    path: Path, play: Callable[[Path, Callable[[str], str]], None]
) -> None:
    play(path, Scenario().run)
