"""The results of a study over seeds: a table, and a plot for each trace and metric."""

from __future__ import annotations

import csv
import importlib.util
import statistics
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

COLUMNS: Final = ("trace", "policy", "metric", "arrived_gpu_load_percent", "seeds", "mean", "sd")
#: The loads of the table, in percent.
_LOADS: Final = range(0, 131, 10)

#: The title of each metric, in percent.
TITLES: Final[Mapping[str, str]] = {
    "allo": "allocated GPUs, % of all",
    "frag": "fragmented idle GPUs, % of all",
    "frag_ratio": "fragmented GPUs, % of the idle ones",
}


class Curve(NamedTuple):
    """The values of one metric by load, for one seed. Loads without a value are NaN."""

    trace: str
    policy: str
    metric: str
    values: NDArray[np.float64]


def by_key(curves: Iterable[Curve]) -> dict[tuple[str, str, str], list[NDArray[np.float64]]]:
    """Return the values of all seeds by trace, policy and metric."""
    grouped: dict[tuple[str, str, str], list[NDArray[np.float64]]] = {}
    for trace, policy, metric, values in curves:
        grouped.setdefault((trace, policy, metric), []).append(values)
    return grouped


def write_table(path: Path, curves: Iterable[Curve]) -> None:
    """Write mean and standard deviation over the seeds, at every tenth percent of load."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for key, values in by_key(curves).items():
            writer.writerows((*key, *numbers) for numbers in _statistics(values))


def _statistics(
    of_seeds: Sequence[NDArray[np.float64]],
) -> Iterator[tuple[int, int, float, float]]:
    for load in _LOADS:
        values = [float(v[load]) for v in of_seeds if not np.isnan(v[load])]
        if values:
            deviation = statistics.stdev(values) if len(values) > 1 else 0.0
            yield load, len(values), round(statistics.fmean(values), 3), round(deviation, 3)


def can_plot() -> bool:
    """Return True if the package for plots is installed (the extra `replay`)."""
    return importlib.util.find_spec("pygal") is not None


def write_plots(directory: Path, curves: Iterable[Curve]) -> None:
    """Write an SVG for each trace and metric: a line for each policy, the mean over the seeds."""
    import pygal  # an extra

    charts: dict[tuple[str, str], pygal.XY] = {}
    for (trace, policy, metric), values in by_key(curves).items():
        chart = charts.get((trace, metric))
        if chart is None:
            chart = charts[trace, metric] = pygal.XY(
                title=f"{trace}: {TITLES[metric]}",
                x_title="arrived GPU load, %",
                show_dots=False,
                js=(),
                disable_xml_declaration=True,
            )
        means = np.mean(values, axis=0)
        points = [(x, round(y, 3)) for x, y in enumerate(means.tolist()) if y == y]
        chart.add(policy, points)
    for (trace, metric), chart in charts.items():
        picture: str = chart.render(is_unicode=True)
        (directory / f"{trace}-{metric}.svg").write_text(picture, encoding="utf-8")
