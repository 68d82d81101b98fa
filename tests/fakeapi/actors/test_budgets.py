"""Disruption budgets count the pods they select."""

import pytest

from fakeapi import KubeletOptions

from ..actor_cluster import PODS, cluster
from ..objects import BUDGETS
from .test_owners import APPS, owner


@pytest.mark.parametrize(
    ("spec", "expected", "desired", "allowed"),
    [
        ({"minAvailable": 2}, 4, 2, 2),
        ({"minAvailable": "30%"}, 4, 2, 2),
        ({"maxUnavailable": 1}, 4, 3, 1),
        ({"maxUnavailable": "50%"}, 4, 2, 2),
        ({"minAvailable": "100%"}, 4, 4, 0),
    ],
)
async def test_a_budget_counts(
    spec: dict[str, object], expected: int, desired: int, allowed: int
) -> None:
    async with cluster(kubelet=True, owners=True, disruption_budgets=True) as c:
        await c.create(f"{APPS}/deployments", owner("d", replicas=4))
        selector = {"matchLabels": {"app": "d"}}
        body = {"metadata": {"name": "b"}, "spec": {**spec, "selector": selector}}
        await c.create(BUDGETS, body)
        assert (await c.read(f"{BUDGETS}/b"))["status"]["disruptionsAllowed"] == 0
        await c.advance(1)
        status = (await c.read(f"{BUDGETS}/b"))["status"]
        fields = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
        assert [status[name] for name in fields] == [expected, desired, 4, allowed]
        reason = "SufficientPods" if allowed else "InsufficientPods"
        assert status["conditions"][0]["reason"] == reason


async def test_evictions_go_on_once_the_pods_are_back() -> None:
    options = KubeletOptions(termination_seconds=0)
    async with cluster(kubelet=options, owners=True, disruption_budgets=True) as c:
        await c.create(f"{APPS}/replicasets", owner("d", replicas=2))
        selector = {"matchLabels": {"app": "d"}}
        spec = {"maxUnavailable": 1, "selector": selector}
        await c.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
        await c.advance(1)
        first, second = [one["metadata"]["name"] for one in await c.items(PODS)]
        path = PODS + "/{}/eviction"
        body = {"metadata": {"name": first}}
        assert (await c.api.post(path.format(first), body)).code == 201
        await c.settle()
        body = {"metadata": {"name": second}}
        assert (await c.api.post(path.format(second), body)).code == 429
        await c.advance(1)
        assert (await c.api.post(path.format(second), body)).code == 201
