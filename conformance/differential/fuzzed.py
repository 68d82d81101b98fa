"""Random scenarios from `conformance.strategies`, the same scenarios for the same seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings

from ..strategies import cases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..format.case import Case

_NODES_MAX: Final = 6
_PODS_MAX: Final = 6


def fuzzed_cases(number: int, *, seed_value: int, advances: Sequence[str]) -> list[Case]:
    """Draw scenarios with different histories; `advances` are the pauses in them."""
    drawn: list[Case] = []

    @seed(seed_value)
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(nodes_max=_NODES_MAX, pods_max=_PODS_MAX, advances=advances))
    def draw(case: Case) -> None:
        drawn.append(msgspec.structs.replace(case, area="fuzz", name=f"{len(drawn)}"))

    draw()
    return drawn
