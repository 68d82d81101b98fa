"""Counters, gauges and histograms: numbers by label values, and nothing else.

Counting is on the hot path, so it is a dictionary and an addition; `exposition` writes the numbers
out. There is no clock here: callers measure durations.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Label values, in the order of the metric's label names.
LabelValues: TypeAlias = tuple[str, ...]

_RUNS_PER_SAMPLE: Final = 10
_NEVER: Final = 2**31


class Kind(enum.StrEnum):
    """The type of a metric in the text format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Other texts of a metric in kube-scheduler 1.`since` to 1.`until`; an empty one is as ever."""

    since: int = 0
    until: int = _NEVER
    stability: str = ""
    help: str = ""


class Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The definition of a metric. `buckets` are the upper bounds of a histogram.

    `stability` is upstream's promise (STABLE, BETA, ALPHA) and part of the help text; it is empty
    for metrics that upstream does not have. Kube-scheduler 1.`since` to 1.`until` have the metric,
    and up to 1.`hidden_until` if hidden metrics are shown; `changes` are other texts of some of
    these versions.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    stability: str
    help: str
    buckets: tuple[float, ...] = ()
    since: int = 0
    until: int = _NEVER
    hidden_until: int = 0
    changes: tuple[MetricChange, ...] = ()

    def is_shown(self, version: int, *, shows_hidden: bool) -> bool:
        """Return True if kube-scheduler 1.`version` shows the metric."""
        until = max(self.until, self.hidden_until) if shows_hidden else self.until
        return self.since <= version <= until

    def as_of(self, version: int) -> Metric:
        """Return the definition of kube-scheduler 1.`version`."""
        metric = self
        for change in self.changes:
            if change.since <= version <= change.until:
                stability, text = change.stability or metric.stability, change.help or metric.help
                metric = msgspec.structs.replace(metric, stability=stability, help=text)
        return metric

    @property
    def help_text(self) -> str:
        return f"[{self.stability}] {self.help}" if self.stability else self.help

    def check(self, values: LabelValues) -> None:
        """Raise ValueError if there is not one value for each label."""
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name} has labels {self.labels}, not {values}")


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Upper bounds, each `factor` times the one before (`prometheus.ExponentialBuckets`)."""
    bounds = []
    bound = start
    for _ in range(count):
        bounds.append(bound)
        bound *= factor
    return tuple(bounds)


class NumberVec(dict[LabelValues, float]):
    """The values of a counter or gauge: `numbers["scheduled", profile] += 1`.

    Label values appear with their first write; the number of a metric without labels is there
    from the start.
    """

    def __init__(self, metric: Metric) -> None:
        super().__init__()
        self._metric: Final = metric
        if not metric.labels:
            self[()] = 0

    def __missing__(self, values: LabelValues) -> float:
        self._metric.check(values)
        return 0


class CellVec:
    """Counters whose cells are looked up once and then added to.

    cell = counters.cell("NodeName", "Filter")
    cell[0] += 5
    """

    __slots__ = ("_cells", "_metric")

    def __init__(self, metric: Metric) -> None:
        self._metric: Final = metric
        self._cells: Final[dict[LabelValues, list[int]]] = {}

    def cell(self, *values: str) -> list[int]:
        """Return the list that holds the number of these label values, at first 0."""
        self._metric.check(values)
        return self._cells.setdefault(values, [0])

    def numbers(self) -> dict[LabelValues, int]:
        return {values: cell[0] for values, cell in self._cells.items()}


class StateVec:
    """Numbers that are state of the scheduler, read when they are written out.

    `read` returns label values and number of each.
    """

    __slots__ = ("read",)

    def __init__(self, metric: Metric) -> None:
        del metric
        self.read: Callable[[], Iterable[tuple[LabelValues, float]]] = tuple


class Histogram:
    """The number of observations in each bucket, and the sum of their values.

    `counts` has one entry more than `bounds`: the values above the last bound.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds: Final = bounds
        self.counts: Final = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value; a value equal to a bound belongs to the bucket below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def total(self) -> int:
        return sum(self.counts)


class HistogramVec:
    """Histograms by label values, created when they are first needed."""

    __slots__ = ("_metric", "by_labels")

    def __init__(self, metric: Metric) -> None:
        self._metric: Final = metric
        self.by_labels: Final[dict[LabelValues, Histogram]] = {}

    def observe(self, value: float, *labels: str) -> None:
        self.of(*labels).observe(value)

    def of(self, *labels: str) -> Histogram:
        """Return the histogram of these label values; create it if it does not exist."""
        histogram = self.by_labels.get(labels)
        if histogram is None:
            self._metric.check(labels)
            histogram = self.by_labels[labels] = Histogram(self._metric.buckets)
        return histogram


class Sampler:
    """Selects the runs of plugins that are measured: the first of every ten.

    Measuring all of them would cost more than it is worth. Upstream selects at random
    (`pluginMetricsSamplePercent`); every tenth gives the same numbers for the same cluster.
    """

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs = 0

    def picks(self) -> bool:
        """Return True if the run that begins now is measured; call it once for each run."""
        self._runs += 1
        return self._runs % _RUNS_PER_SAMPLE == 1
