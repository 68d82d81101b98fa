"""The numbers that the scheduler keeps, under upstream's names.

    instruments          counters, gauges and histograms: numbers by label values
    scheduler_metrics    the table of all metrics; the parts of a scheduler write to its fields
    pod_resources        requests and limits of all pods, for /metrics/resources
    exposition           all of them in Prometheus' text format

Nothing here is global: two schedulers in one process have separate numbers.
"""

from scheduler.metrics.instruments import Histogram, HistogramVec, Sampler
from scheduler.metrics.scheduler_metrics import SchedulerMetrics, Stopwatch

__all__ = ["Histogram", "HistogramVec", "Sampler", "SchedulerMetrics", "Stopwatch"]
