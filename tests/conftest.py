"""Settings and order of all tests."""

from __future__ import annotations

import itertools
import os

import pytest

from tests.thoroughness import load_hypothesis_profile

load_hypothesis_profile()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put slow tests first, and as many of them at the head of each worker's share."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    modules = [list(tests) for _, tests in itertools.groupby(items, key=lambda item: item.path)]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    shares = (modules[first::workers] for first in range(workers))
    items[:] = [item for share in shares for module in share for item in module]
