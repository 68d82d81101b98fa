"""Draw the allocation over time as an SVG without external references."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pygal
from pygal.style import Style

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .allocation import Sample

__all__ = ["write_plot"]


def write_plot(path: Path, samples: Sequence[Sample], *, title: str) -> None:
    """Draw CPU, memory and GPU in percent of the cluster over seconds. Raises OSError."""
    chart = pygal.XY(
        title=title,
        x_title="seconds since the first pod was created",
        y_title="percent of the cluster",
        range=(0, 100),
        include_x_axis=True,
        show_dots=False,
        stroke_style={"width": 2},
        legend_at_bottom=True,
        legend_at_bottom_columns=3,
        x_value_formatter=lambda seconds: f"{seconds:g} s",
        value_formatter=lambda percent: f"{percent:g} %",
        js=[],
        style=Style(background="white", plot_background="white"),
    )
    chart.add("GPU", [(sample.seconds, sample.gpu_percent) for sample in samples])
    chart.add("CPU", [(sample.seconds, sample.cpu_percent) for sample in samples])
    chart.add("memory", [(sample.seconds, sample.memory_percent) for sample in samples])
    path.write_bytes(chart.render())
