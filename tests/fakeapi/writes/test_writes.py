"""Creates and updates: metadata the server owns, concurrency, dry runs, bodies."""

import re
from typing import Any

import aiohttp
import pytest

from fakeapi import FakeApiServer, ManualClock
from fakeapi.types.identity import IdSource

from ..api_client import ApiClient
from ..objects import (
    BUDGETS,
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    config_map,
    pod,
    with_resources,
)

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def deployment(name: str = "d") -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


async def test_the_server_sets_its_own_fields(api: ApiClient, clock: ManualClock) -> None:
    given = pod("p", uid="mine", generation=7, creationTimestamp="2020-01-01T00:00:00Z")
    created = await api.create(PODS, {**given, "status": {"phase": "Running"}})
    metadata = created["metadata"]
    assert UUID.fullmatch(metadata["uid"])
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert (created["kind"], created["apiVersion"]) == ("Pod", "v1")


async def test_versions_grow_by_one_over_all_kinds(api: ApiClient, server: FakeApiServer) -> None:
    before = server.resource_version
    first = await api.create(PODS, pod("p"))
    second = await api.create(NODES, {"metadata": {"name": "n"}})
    versions = [int(item["metadata"]["resourceVersion"]) for item in (first, second)]
    assert versions == [before + 1, before + 2]


async def test_versions_begin_at_the_time_of_day(clock: ManualClock) -> None:
    earlier = FakeApiServer(clock=clock)
    clock.advance(1)
    later = FakeApiServer(clock=clock)
    # A second leaves room for more writes than any server can make in it.
    assert later.resource_version - earlier.resource_version == 100_000


async def test_the_same_seed_invents_the_same_uids(session: aiohttp.ClientSession) -> None:
    uids = []
    for _ in range(2):
        async with FakeApiServer(seed=7) as server:
            api = ApiClient(session, server.url)
            made = await api.create(CONFIG_MAPS, {"metadata": {"generateName": "x-"}})
            uids.append((made["metadata"]["uid"], made["metadata"]["name"]))
    assert uids[0] == uids[1]


async def test_a_generated_name_is_the_prefix_and_five_characters(api: ApiClient) -> None:
    names = set()
    for _ in range(20):
        made = await api.create(PODS, pod("", generateName="web-"))
        names.add(made["metadata"]["name"])
        assert made["metadata"]["generateName"] == "web-"
    assert len(names) == 20
    assert all(re.fullmatch(r"web-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


async def test_a_generated_name_that_is_taken_is_generated_again(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    suffixes = iter(["1", "1", "1", "2", *("1" * 8)])
    monkeypatch.setattr(IdSource, "name", lambda _, prefix: prefix + next(suffixes))
    given = {"metadata": {"generateName": "p-"}}
    names = [(await api.create(CONFIG_MAPS, given))["metadata"]["name"] for _ in range(2)]
    assert names == ["p-1", "p-2"]
    unlucky = await api.post(CONFIG_MAPS, given)
    assert (unlucky.code, unlucky.reason) == (409, "AlreadyExists")


async def test_a_long_prefix_is_cut_to_fit_a_label(api: ApiClient) -> None:
    made = await api.create(PODS, pod("", generateName="x" * 80))
    assert len(made["metadata"]["name"]) == 63


async def test_an_unconditional_update_that_changes_nothing_writes_nothing(
    api: ApiClient, server: FakeApiServer
) -> None:
    created = await api.create(PODS, pod("p"))
    before = server.resource_version
    del created["metadata"]["resourceVersion"]
    assert (await api.put(f"{PODS}/p", created)).version == before
    assert server.resource_version == before


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (LEASES, {"metadata": {"name": "x"}, "spec": {"holderIdentity": "h"}}),
        (BUDGETS, {"metadata": {"name": "x"}, "spec": {"maxUnavailable": 1}}),
        ("/apis/storage.k8s.io/v1/csidrivers", {"metadata": {"name": "x"}, "spec": {}}),
    ],
)
async def test_some_kinds_must_be_updated_with_their_version(
    api: ApiClient, path: str, body: dict[str, Any]
) -> None:
    await api.create(path, body)
    reply = await api.put(f"{path}/x", {**body, "metadata": {"name": "x", "labels": {"a": "b"}}})
    assert (reply.code, reply.causes) == (422, [("FieldValueInvalid", "metadata.resourceVersion")])
    assert reply.message.endswith("must be specified for an update")


async def test_leases_are_created_by_updating_them(api: ApiClient) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "h"}}
    reply = await api.put(f"{LEASES}/l", lease)
    assert (reply.code, reply.body["spec"]) == (201, {"holderIdentity": "h"})
    deleted = await api.delete(f"{LEASES}/l")
    assert deleted.code == 200
    gone = await api.put(f"{LEASES}/l", reply.body)
    assert (gone.code, gone.reason) == (409, "Conflict")
    assert gone.message.endswith("UID in object meta: ")


async def test_a_lease_is_renewed_only_with_its_current_version(api: ApiClient) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "h", "leaseDurationSeconds": 15}}
    created = await api.create(LEASES, lease)
    renewed = {**created, "spec": {**created["spec"], "renewTime": "2026-01-01T00:00:00.000001Z"}}
    assert (await api.put(f"{LEASES}/l", renewed)).code == 200
    assert (await api.put(f"{LEASES}/l", created)).code == 409


async def test_the_generation_counts_changes_of_the_spec(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    generations = []
    for change in (
        {"metadata": {"labels": {"a": "b"}}},
        {"spec": {"activeDeadlineSeconds": 100}},
        {"spec": {"activeDeadlineSeconds": 100}},
        {"spec": {"activeDeadlineSeconds": 50}},
        {"metadata": {"generation": 99}},
    ):
        reply = await api.patch(f"{PODS}/p", change)
        generations.append(reply.body["metadata"]["generation"])
    status = await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    assert [*generations, status.body["metadata"]["generation"]] == [1, 2, 2, 3, 3, 3]


@pytest.mark.parametrize(
    ("path", "body", "generation"),
    [
        (CONFIG_MAPS, config_map("x"), None),
        (NODES, {"metadata": {"name": "x"}}, None),
        (LEASES, {"metadata": {"name": "x"}}, None),
        (NAMESPACES, {"metadata": {"name": "x"}}, None),
        (BUDGETS, {"metadata": {"name": "x"}}, 1),
        (DEPLOYMENTS, deployment("x"), 1),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "x"}, "value": 1}, 1),
        ("/apis/storage.k8s.io/v1/csidrivers", {"metadata": {"name": "x"}}, None),
    ],
)
async def test_which_kinds_have_a_generation(
    api: ApiClient, path: str, body: dict[str, Any], generation: int | None
) -> None:
    created = await api.create(path, body)
    assert created["metadata"].get("generation") == generation


async def test_a_deployments_annotations_move_its_generation(api: ApiClient) -> None:
    await api.create(DEPLOYMENTS, deployment())
    reply = await api.patch(f"{DEPLOYMENTS}/d", {"metadata": {"annotations": {"a": "b"}}})
    assert reply.body["metadata"]["generation"] == 2


async def test_quantities_are_stored_in_canonical_form(api: ApiClient) -> None:
    requests = {"cpu": 0.5, "memory": "1024Mi", "example.com/x": "1000m"}
    spec = with_resources(requests=requests, limits={"example.com/x": 1})
    created = await api.create(PODS, pod("p", spec=spec))
    resources = created["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "500m", "memory": "1Gi", "example.com/x": "1"}


async def test_times_are_stored_in_canonical_form(api: ApiClient) -> None:
    lease = {
        "metadata": {"name": "l"},
        "spec": {"renewTime": "2026-01-01T02:00:00.123456+02:00"},
    }
    created = await api.create(LEASES, lease)
    assert created["spec"]["renewTime"] == "2026-01-01T00:00:00.123456Z"
