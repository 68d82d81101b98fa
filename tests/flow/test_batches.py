"""Random batches: by flow no fewer pods get a node than one by one, nor is their total score lower.

`tox -e thorough` tries 1,000 batches.
"""

from __future__ import annotations

import pytest

from tests.flow.batches import random_batch
from tests.flow.clusters import cluster_of, nodes_of
from tests.thoroughness import IS_THOROUGH


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000 if IS_THOROUGH else 15))
async def test_the_flow_is_never_below_one_by_one(seed: int) -> None:
    batch = random_batch(seed)
    pods = [*batch.running, *batch.waiting]
    single, flow = [
        batch.score(await nodes_of(cluster_of(batch.nodes, pods, flow=by_flow)))
        for by_flow in (False, True)
    ]
    assert flow >= single
