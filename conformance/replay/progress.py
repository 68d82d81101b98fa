"""The progress bar of a replay; silent without a terminal."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from .driver import Counts

__all__ = ["progress_bar"]

#: The bar's CPU time slows down the replay.
_REFRESHES_PER_SECOND: Final = 4


@contextlib.contextmanager
def progress_bar(console: Console, pods: int) -> Iterator[Callable[[Counts], None]]:
    """Show three bars (created, bound, unschedulable); the yielded function updates them."""
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        refresh_per_second=_REFRESHES_PER_SECOND,
        transient=True,
    ) as progress:
        bars = [
            progress.add_task(phase, total=pods) for phase in ("created", "bound", "unschedulable")
        ]

        def show(counts: Counts) -> None:
            for bar, completed in zip(bars, counts, strict=True):
                progress.update(bar, completed=completed)

        yield show
