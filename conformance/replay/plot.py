"""Draw allocation over arrived load as an SVG without external references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .allocation import Sample

__all__ = ["write_plot"]

#: A curve's name, its field of Sample, and its colour.
_CURVES: Final = (
    ("GPU", "gpu_percent", "#1b7837"),
    ("CPU", "cpu_percent", "#2166ac"),
    ("memory", "memory_percent", "#7b3294"),
    ("unschedulable", "unschedulable_percent", "#b2182b"),
    ("fragmented", "fragmentation_percent", "#e08214"),
)
#: The first run has solid lines.
_DASHES: Final = ("", "6,4", "2,3", "10,3,2,3")


def write_plot(path: Path, runs: Mapping[str, Sequence[Sample]], *, title: str) -> None:
    """Draw the curves of one or more runs by name; each line has its label. Raises OSError.

    x is the arrived load in percent of the cluster. Unschedulable pods are in percent of the
    arrived pods, all other curves in percent of the cluster. Needs the package pygal.
    """
    import pygal
    from pygal.style import Style

    chart = pygal.XY(
        title=title,
        x_title="arrived load, percent of the cluster",
        y_title="percent",
        range=(0, 100),
        width=1100,
        height=650,
        include_x_axis=True,
        show_dots=True,
        dots_size=0.1,
        print_labels=True,
        show_legend=False,
        margin_right=160,
        x_value_formatter=lambda load: f"{load:g} %",
        value_formatter=lambda percent: f"{percent:g} %",
        js=[],
        style=Style(
            background="white",
            plot_background="white",
            guide_stroke_color="#dddddd",
            guide_stroke_dasharray="1,0",
            major_guide_stroke_color="#bbbbbb",
            major_guide_stroke_dasharray="1,0",
            value_label_font_size=12,
            colors=tuple(color for _, _, color in _CURVES) * len(runs),
            value_colors=tuple(color for _, _, color in _CURVES) * len(runs),
        ),
    )
    for number, (run, samples) in enumerate(runs.items()):
        suffix = f", {run}" if len(runs) > 1 else ""
        stroke = {"width": 2, "dasharray": _DASHES[number % len(_DASHES)]}
        for name, field, _ in _CURVES:
            label = f"{name}{suffix}"
            points: list[object] = [(item.load_percent, getattr(item, field)) for item in samples]
            # The labels of each run are at another place, so that they do not overlap.
            labelled = round((len(points) - 1) * (1 - number * 0.35 % 1))
            points[labelled] = {"value": points[labelled], "label": label}
            chart.add(label, points, stroke_style=stroke)
    path.write_bytes(chart.render())
