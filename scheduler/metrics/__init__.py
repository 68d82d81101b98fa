"""What the scheduler counts and measures, under upstream's names.

`instruments` are the numbers, `scheduler_metrics` those that the parts of a scheduler write to,
`exposition` puts them into Prometheus' text format when /metrics is asked for. Nothing here is
global: two schedulers in one process count for themselves.
"""

from scheduler.metrics.instruments import Histogram, HistogramVec, NumberVec
from scheduler.metrics.scheduler_metrics import SchedulerMetrics, Stopwatch

__all__ = ["Histogram", "HistogramVec", "NumberVec", "SchedulerMetrics", "Stopwatch"]
