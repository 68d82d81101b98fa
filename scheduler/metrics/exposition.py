"""The numbers in Prometheus' text format, written by its own client library.

Apart from the instruments, because only whoever serves /metrics needs the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from scheduler.metrics.catalogue import Family, Kind
from scheduler.metrics.instruments import Histogram, HistogramVec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

#: The text format that every scraper reads.
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_text_of: Final[Callable[[float], str]] = floatToGoString  # it has no types of its own


class _Families(Collector):
    """Families as the library's registry wants them."""

    def __init__(self, families: Callable[[], Iterable[Family]]) -> None:
        self._families: Final = families

    def collect(self) -> Iterator[Metric]:
        """One metric of the library's for each family with values; called by the registry."""
        return (metric for f in self._families() if (metric := _metric(f)).samples)


class Exposition:
    """Writes out whatever families there are when it is asked, and the process's own numbers."""

    def __init__(self, families: Callable[[], Iterable[Family]]) -> None:
        self._families: Final = families
        self._everything: Final = CollectorRegistry(auto_describe=False)
        self._everything.register(_Families(families))
        ProcessCollector(registry=self._everything)

    def text(self, names: Collection[str] = ()) -> bytes:
        """The whole page, or the families of these names alone."""
        if not names:
            return generate_latest(self._everything)
        some = CollectorRegistry(auto_describe=False)
        some.register(
            _Families(lambda: (f for f in self._families() if f.definition.name in names))
        )
        return generate_latest(some)


def _metric(family: Family) -> Metric:
    definition, values = family
    stability = f"[{definition.stability}] " if definition.stability else ""
    text = f"{stability}{definition.help}"
    if isinstance(values, Histogram):
        return _histograms(definition.name, text, definition.labels, {(): values})
    if isinstance(values, HistogramVec):
        return _histograms(definition.name, text, definition.labels, values.by_labels)
    metric: CounterMetricFamily | GaugeMetricFamily
    if definition.kind == Kind.COUNTER:
        metric = CounterMetricFamily(definition.name, text, labels=definition.labels)
    else:
        metric = GaugeMetricFamily(definition.name, text, labels=definition.labels)
    for labels, value in sorted(values.items()):
        metric.add_metric(labels, value)
    return metric


def _histograms(
    name: str,
    text: str,
    label_names: tuple[str, ...],
    histograms: Mapping[tuple[str, ...], Histogram],
) -> HistogramMetricFamily:
    metric = HistogramMetricFamily(name, text, labels=label_names)
    for labels, histogram in sorted(histograms.items()):
        metric.add_metric(labels, _cumulative(histogram), histogram.sum)
    return metric


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    """Buckets as the format has them: each counts all that is not above its bound.

    Bounds are written as Go writes them, for dashboards that ask for `le="1"`.
    """
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        total += count
        buckets.append((_text_of(bound).removesuffix(".0"), float(total)))
    return buckets
