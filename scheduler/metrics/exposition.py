"""The metrics in Prometheus' text format.

The client library of Prometheus writes the page /metrics. `family_text` is for pages that are
computed anew for each request, and writes numbers exactly as Go's library does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from scheduler.api.field import go_float
from scheduler.metrics.instruments import (
    CellVec,
    Histogram,
    HistogramVec,
    Kind,
    Metric,
    NumberVec,
    StateVec,
)
from scheduler.metrics.scheduler_metrics import METRICS, SchedulerMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric as Family

    from scheduler.metrics.instruments import LabelValues

_bound_text: Final[Callable[[float], str]] = floatToGoString  # it has no types of its own
_UNEXPECTED: Final = "unexpected"
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOptions:
    """The hidden metrics, and the shown values of labels, by metric and label.

    Any other value of such a label is shown as `unexpected`. The metrics are those of
    kube-scheduler 1.`version`; with `shows_hidden` also the deprecated ones that it hides.
    """

    disabled: frozenset[str] = frozenset()
    allowed_values: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    version: int = 36
    shows_hidden: bool = False


ALL_METRICS: Final = MetricsOptions()


class Exposition:
    """Writes out the metrics of the scheduler and of its process."""

    def __init__(self, metrics: SchedulerMetrics, options: MetricsOptions) -> None:
        self._metrics: Final = metrics
        self._options: Final = options
        self._rows: Final = {
            name: row.as_of(options.version)
            for name, row in METRICS.items()
            if row.is_shown(options.version, shows_hidden=options.shows_hidden)
            and row.name not in options.disabled
        }
        self._everything: Final = CollectorRegistry(auto_describe=False)
        self._everything.register(_SchedulerCollector(metrics, self._rows, options))
        ProcessCollector(registry=self._everything)

    def text(self, names: Collection[str] = ()) -> bytes:
        """Return the whole page, or only the metrics of these names."""
        if not names:
            return generate_latest(self._everything)
        rows = {name: metric for name, metric in self._rows.items() if metric.name in names}
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_SchedulerCollector(self._metrics, rows, self._options))
        return generate_latest(registry)


class _SchedulerCollector(Collector):
    """Converts rows of the table of metrics to the library's types."""

    def __init__(
        self, metrics: SchedulerMetrics, rows: Mapping[str, Metric], options: MetricsOptions
    ) -> None:
        self._metrics: Final = metrics
        self._rows: Final = rows
        self._options: Final = options

    def collect(self) -> Iterator[Family]:
        """Yield each metric that has values."""
        for name, metric in self._rows.items():
            family = _family(metric, getattr(self._metrics, name))
            if not family.samples:
                continue
            if self._options.allowed_values:
                _replace_unexpected(family, metric, self._options)
            yield family


def _replace_unexpected(family: Family, metric: Metric, options: MetricsOptions) -> None:
    """Replace the label values that are not allowed; equal label values are summed."""
    allowed = {
        label: options.allowed_values[metric.name, label]
        for label in metric.labels
        if (metric.name, label) in options.allowed_values
    }
    if not allowed:
        return
    sums: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for sample in family.samples:
        labels = {
            label: _UNEXPECTED if label in allowed and value not in allowed[label] else value
            for label, value in sample.labels.items()
        }
        key = (sample.name, tuple(labels.items()))
        sums[key] = sums.get(key, 0.0) + sample.value
    family.samples = []
    for (name, pairs), number in sums.items():
        family.add_sample(name, dict(pairs), number)


def _family(metric: Metric, instrument: object) -> Family:
    match instrument:
        case Histogram():
            return _histograms(metric, {(): instrument})
        case HistogramVec():
            return _histograms(metric, instrument.by_labels)
        case NumberVec():
            return _numbers(metric, instrument.items())
        case CellVec():
            return _numbers(metric, instrument.numbers().items())
        case StateVec():
            return _numbers(metric, instrument.read())
    raise AssertionError(f"{metric.name} has no instrument")


def _numbers(metric: Metric, numbers: Iterable[tuple[LabelValues, float]]) -> Family:
    kind = CounterMetricFamily if metric.kind == Kind.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help_text, labels=metric.labels)
    for values, number in sorted(numbers):
        metric.check(values)
        family.add_metric(values, number)
    return family


def _histograms(metric: Metric, histograms: Mapping[LabelValues, Histogram]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help_text, labels=metric.labels)
    for values, histogram in sorted(histograms.items()):
        family.add_metric(values, _cumulative(histogram), histogram.sum)
    return family


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    """Return the buckets of the text format: each counts all values up to its bound.

    Bounds are written as Go writes them, for dashboards that ask for `le="1"`.
    """
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        total += count
        buckets.append((_bound_text(bound).removesuffix(".0"), float(total)))
    return buckets


def family_text(metric: Metric, samples: Iterable[tuple[LabelValues, float]]) -> str:
    """Return the text of one metric, its samples sorted; no text without samples."""
    lines = []
    for values, number in sorted(samples):
        labels = ",".join(
            f'{name}="{value.translate(_ESCAPES)}"'
            for name, value in zip(metric.labels, values, strict=True)
        )
        lines.append(f"{metric.name}{{{labels}}} {go_float(number)}\n")
    if not lines:
        return ""
    header = f"# HELP {metric.name} {metric.help_text}\n# TYPE {metric.name} {metric.kind}\n"
    return header + "".join(lines)
