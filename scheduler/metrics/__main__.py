"""Print the names of kube-scheduler's metrics in a version: `python -m scheduler.metrics 1.35`."""

import sys

from scheduler.config import SchedulerVersion
from scheduler.metrics.scheduler_metrics import METRICS


def main() -> None:
    """Run the command."""
    version = SchedulerVersion.parse(sys.argv[1])
    for name, metric in METRICS.items():
        if metric.since <= version <= metric.until:
            print(name)


if __name__ == "__main__":
    main()
