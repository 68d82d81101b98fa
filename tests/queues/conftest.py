"""A cluster for each test of the ledger and the plugin."""

from collections.abc import Iterator

import pytest

from tests.queues.cluster import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """An empty cluster; writes of statuses that were begun are dropped at the end."""
    made = Cluster()
    yield made
    for work in made.handle.spawned:
        work.close()
