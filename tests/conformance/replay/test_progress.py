"""The progress bar: there for a person, silent for a file."""

import io

import pytest
from rich.console import Console

from conformance.replay.driver import Counts
from conformance.replay.progress import progress_bar


@pytest.mark.parametrize("is_terminal", [True, False])
def test_it_is_shown_to_a_terminal_only(is_terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=is_terminal, width=100)
    with progress_bar(console, 120) as show:
        show(Counts(created=100, bound=70, unschedulable=3))
    text = out.getvalue()
    assert bool(text) == is_terminal
    for word in ("created", "100/120", "bound", "70/120", "unschedulable", "3/120"):
        assert (word in text) == is_terminal
