"""Evictions and the budgets that allow or deny them."""

from typing import Any

import pytest

from fakeapi import ManualClock

from ..api_client import ApiClient
from ..objects import BUDGETS, PODS, pod

READY = [{"type": "Ready", "status": "True"}]


def eviction(name: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"},
        **more,
    }


async def running_pod(api: ApiClient, name: str, *, ready: bool = True) -> None:
    await api.create(PODS, pod(name, spec={"nodeName": "n1"}, labels={"app": "web"}))
    status = {"phase": "Running", "conditions": READY if ready else []}
    await api.patch(f"{PODS}/{name}/status", {"status": status})


async def budget(api: ApiClient, name: str = "pdb", *, allowed: int | None, **spec: Any) -> None:
    selector = {"matchLabels": {"app": "web"}}
    await api.create(
        BUDGETS,
        {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": selector} | spec},
    )
    if allowed is not None:
        status = {
            "observedGeneration": 1,
            "disruptionsAllowed": allowed,
            "currentHealthy": 1 + allowed,
            "desiredHealthy": 1,
            "expectedPods": 1 + allowed,
        }
        await api.patch(f"{BUDGETS}/{name}/status", {"status": status})


async def test_without_a_budget_a_pod_is_evicted(api: ApiClient) -> None:
    await running_pod(api, "p")
    reply = await api.post(f"{PODS}/p/eviction", eviction("p"))
    assert (reply.code, reply.body["status"]) == (201, "Success")
    evicted = (await api.get(f"{PODS}/p")).body
    assert evicted["metadata"]["deletionGracePeriodSeconds"] == 30
    condition = evicted["status"]["conditions"][-1]
    assert condition["type"] == "DisruptionTarget"
    assert condition["reason"] == "EvictionByEvictionAPI"
    assert condition["message"] == "Eviction API: evicting"


async def test_an_eviction_spends_one_disruption(api: ApiClient) -> None:
    await budget(api, allowed=1)
    await running_pod(api, "p")
    given = eviction("p", deleteOptions={"gracePeriodSeconds": 3})
    assert (await api.post(f"{PODS}/p/eviction", given)).code == 201
    evicted = (await api.get(f"{PODS}/p")).body
    assert evicted["metadata"]["deletionGracePeriodSeconds"] == 3
    status = (await api.get(f"{BUDGETS}/pdb")).body["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["p"]
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionAllowed",
        "False",
        "InsufficientPods",
    )


async def test_a_spent_budget_denies_without_retry_after(api: ApiClient) -> None:
    await budget(api, allowed=0)
    await running_pod(api, "p")
    reply = await api.post(f"{PODS}/p/eviction", eviction("p"))
    assert (reply.code, reply.reason) == (429, "TooManyRequests")
    assert reply.causes == [("DisruptionBudget", "")]
    assert reply.body["details"]["causes"][0]["message"] == (
        "The disruption budget pdb needs 1 healthy pods and has 1 currently"
    )
    assert "Retry-After" not in reply.headers
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/p")).body["metadata"]


@pytest.mark.parametrize(
    ("healthy", "condition", "words"),
    [
        (1, {"reason": "SyncFailed", "message": "m"}, "currently because it failed sync: m"),
        (5, {"reason": "InsufficientPods", "message": "m"}, "currently (InsufficientPods): m"),
        (5, {"reason": "InsufficientPods", "message": ""}, "pods currently"),
        (5, {"reason": "x", "message": "m", "status": "True"}, "pods currently"),
        (1, {"reason": "x", "message": "m"}, "needs 1 healthy pods and has 1 currently"),
    ],
)
async def test_a_denial_has_the_message_of_the_budgets_condition(
    api: ApiClient, healthy: int, condition: dict[str, Any], words: str
) -> None:
    await budget(api, allowed=0)
    stamp = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [{"type": "DisruptionAllowed", "status": "False", **stamp, **condition}]
    status = {"currentHealthy": healthy, "conditions": conditions}
    assert (await api.patch(f"{BUDGETS}/pdb/status", {"status": status})).code == 200
    await running_pod(api, "p")
    reply = await api.post(f"{PODS}/p/eviction", eviction("p"))
    assert reply.code == 429
    assert reply.body["details"]["causes"][0]["message"].endswith(words)


async def test_a_budget_that_is_not_observed_asks_for_ten_seconds(api: ApiClient) -> None:
    await budget(api, allowed=None)
    await running_pod(api, "p")
    reply = await api.post(f"{PODS}/p/eviction", eviction("p"))
    assert (reply.code, reply.headers["Retry-After"]) == (429, "10")
    assert reply.body["details"]["retryAfterSeconds"] == 10


async def test_two_budgets_for_one_pod_are_too_many(api: ApiClient) -> None:
    await budget(api, "one", allowed=1)
    await budget(api, "two", allowed=1)
    await running_pod(api, "p")
    reply = await api.post(f"{PODS}/p/eviction", eviction("p"))
    assert (reply.code, reply.reason) == (500, "")
    assert reply.message.startswith("This pod has more than one PodDisruptionBudget")


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_pods_that_do_not_run_are_no_disruption(api: ApiClient, phase: str) -> None:
    await budget(api, allowed=0)
    await running_pod(api, "p")
    await api.patch(f"{PODS}/p/status", {"status": {"phase": phase}})
    assert (await api.post(f"{PODS}/p/eviction", eviction("p"))).code == 201


async def test_a_pod_that_is_going_already_is_no_disruption(
    api: ApiClient, clock: ManualClock
) -> None:
    await budget(api, allowed=1)
    await running_pod(api, "p")
    await api.post(f"{PODS}/p/eviction", eviction("p"))
    going = (await api.get(f"{PODS}/p")).body
    clock.advance(5)
    assert (await api.post(f"{PODS}/p/eviction", eviction("p"))).code == 201
    assert (await api.get(f"{PODS}/p")).body == going  # the condition's time has not moved


@pytest.mark.parametrize(
    ("policy", "healthy", "code"),
    [
        (None, 1, 201),
        ("IfHealthyBudget", 1, 201),
        (None, 0, 429),
        ("IfHealthyBudget", 0, 429),
        ("AlwaysAllow", 0, 201),
    ],
)
async def test_a_pod_that_is_not_ready_is_evicted_if_the_policy_allows_it(
    api: ApiClient, policy: str | None, healthy: int, code: int
) -> None:
    await budget(api, allowed=0, **({"unhealthyPodEvictionPolicy": policy} if policy else {}))
    await api.patch(f"{BUDGETS}/pdb/status", {"status": {"currentHealthy": healthy}})
    await running_pod(api, "p", ready=False)
    assert (await api.post(f"{PODS}/p/eviction", eviction("p"))).code == code
    assert (await api.get(f"{BUDGETS}/pdb")).body["status"]["disruptionsAllowed"] == 0


async def test_a_budget_for_others_does_not_count(api: ApiClient) -> None:
    await budget(api, allowed=0, selector={"matchLabels": {"app": "db"}})
    await running_pod(api, "p")
    assert (await api.post(f"{PODS}/p/eviction", eviction("p"))).code == 201


async def test_a_dry_run_spends_nothing(api: ApiClient) -> None:
    await budget(api, allowed=1)
    await running_pod(api, "p")
    assert (await api.post(f"{PODS}/p/eviction", eviction("p"), dryRun="All")).code == 201
    assert (await api.get(f"{BUDGETS}/pdb")).body["status"]["disruptionsAllowed"] == 1
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/p")).body["metadata"]


async def test_names_must_agree(api: ApiClient) -> None:
    await running_pod(api, "p")
    reply = await api.post(f"{PODS}/p/eviction", eviction("q"))
    assert (reply.code, reply.message) == (
        400,
        "name in URL does not match name in Eviction object",
    )


async def test_a_pod_that_is_not_there_cannot_be_evicted(api: ApiClient) -> None:
    reply = await api.post(f"{PODS}/nope/eviction", eviction("nope"))
    assert (reply.code, reply.reason) == (404, "NotFound")


async def test_an_eviction_for_another_uid_is_refused(api: ApiClient) -> None:
    await running_pod(api, "p")
    before = (await api.get(f"{PODS}/p")).body
    options = {"preconditions": {"uid": "bad"}}
    reply = await api.post(f"{PODS}/p/eviction", eviction("p", deleteOptions=options))
    assert (reply.code, reply.reason) == (409, "Conflict")
    assert (await api.get(f"{PODS}/p")).body == before
