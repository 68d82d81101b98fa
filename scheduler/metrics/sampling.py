"""Which runs of a plugin are measured: measuring all of them would cost more than it tells.

Upstream leaves it to chance (`pluginMetricsSamplePercent`); here it is every tenth, so that the
same cluster gives the same numbers.
"""

from __future__ import annotations

from typing import Final

_RUNS_PER_SAMPLE: Final = 10


class Sampler:
    """Picks the first of every ten runs."""

    def __init__(self) -> None:
        self._runs = 0

    def picks(self) -> bool:
        """Whether the run that begins now is one of them; to be asked once for each run."""
        self._runs += 1
        return self._runs % _RUNS_PER_SAMPLE == 1
