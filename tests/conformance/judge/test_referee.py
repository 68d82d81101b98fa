"""Answers of `kubesched-explain`, as the comparison of two schedulers reads them."""

from typing import Any

import pytest

from conformance.judge.referee import Question, answers_to

pytestmark = pytest.mark.slow

NODE = {
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "2", "pods": "9"}},
}


def pod(name: str, cpu: str, **spec: object) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": containers, **spec},
    }


async def test_answers_have_nodes_scores_rejections_and_victims() -> None:
    low = pod("low", "2", nodeName="n")
    asked = [
        Question(objects=[NODE, *others], pod=waiting, config=None, gates={}, plugins=())
        for others, waiting in (
            ([], pod("fits", "1")),
            ([low], pod("high", "1", priority=10)),
            ([], pod("gated", "1", schedulingGates=[{"name": "g"}])),
        )
    ]
    fits, high, gated = (await answers_to(asked)).answers
    assert fits is not None
    assert fits.best == ("n",)
    assert fits.about("n").startswith(f"n: {fits.total['n']}, the best (")
    assert high is not None
    assert high.post_filter is not None
    assert (high.post_filter.nominated_node, high.post_filter.victims) == ("n", ("default/low",))
    assert high.about("n") == "n: rejected by NodeResourcesFit: Insufficient cpu"
    assert high.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert gated is not None
    assert gated.result == "gated"
    assert gated.about("n") == "n: rejected by SchedulingGates: waiting for scheduling gates: [g]"
