"""Settings and order of all tests."""

import gc
import itertools
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.thoroughness import load_hypothesis_profile

load_hypothesis_profile()
# A job in the background ignores Ctrl-C, and so would the programs that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# The bundle of the machine's certificate authorities takes each process a tenth of its start, and
# the tests talk to loopback. OpenSSL and Go still find single authorities in their directories.
os.environ["SSL_CERT_FILE"] = os.devnull
# The pytest of a test finds here what Hypothesis has read of our modules; elsewhere it reads anew.
os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(Path(__file__).parent.parent / ".hypothesis")

WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
#: The number of this worker, from 0.
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from all that collected tests hold: it is a tenth of the time."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Have each worker begin with other modules: it finds those of the others compiled."""
    report = yield
    if collector.path == Path(__file__).parent:
        first = len(report.result) * WORKER // WORKERS
        report.result = [*report.result[first:], *report.result[:first]]
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Put slow tests first, and as many of them at the head of each worker's share."""
    items.sort(key=lambda item: item.path)
    yield
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    modules = [list(tests) for _, tests in itertools.groupby(items, key=lambda item: item.path)]
    shares = (modules[first::WORKERS] for first in range(WORKERS))
    items[:] = [item for share in shares for module in share for item in module]
