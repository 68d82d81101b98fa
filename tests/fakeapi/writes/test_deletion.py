"""Deleting: grace periods, finalizers, preconditions, propagation, collections, namespaces."""

import asyncio
import itertools
from typing import Any

import pytest

from fakeapi import FakeApiServer, ManualClock
from fakeapi.types.times import epoch_seconds

from ..api_client import ApiClient
from ..objects import CONFIG_MAPS, NAMESPACES, NODES, PODS, config_map, pod

HOLD = "example.com/hold"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def running(name: str = "p", **metadata: Any) -> dict[str, Any]:
    return pod(name, spec={"nodeName": "n1"}, **metadata)


async def test_a_pod_without_a_node_is_gone_at_once_marked_first(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    async with api.watch(PODS) as stream:
        await stream.next()
        reply = await api.delete(f"{PODS}/p")
        marked, gone = await stream.next(), await stream.next()
    assert marked is not None
    assert gone is not None
    assert (marked["type"], gone["type"]) == ("MODIFIED", "DELETED")
    metadata = reply.body["metadata"]
    assert (metadata["deletionGracePeriodSeconds"], metadata["generation"]) == (0, 2)
    assert marked["object"]["metadata"] == metadata
    assert int(gone["object"]["metadata"]["resourceVersion"]) == reply.version + 1
    assert (await api.get(f"{PODS}/p")).code == 404


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_has_finished_is_gone_at_once(api: ApiClient, phase: str) -> None:
    await api.create(PODS, running())
    await api.patch(f"{PODS}/p/status", {"status": {"phase": phase}})
    assert (await api.delete(f"{PODS}/p")).code == 200
    assert (await api.get(f"{PODS}/p")).code == 404


async def test_a_bound_pod_stays_until_it_is_deleted_without_grace(
    api: ApiClient, clock: ManualClock
) -> None:
    await api.create(PODS, running())
    reply = await api.delete(f"{PODS}/p")
    metadata = reply.body["metadata"]
    assert (reply.code, metadata["deletionGracePeriodSeconds"]) == (200, 30)
    assert epoch_seconds(metadata["deletionTimestamp"]) == clock.now() + 30
    clock.advance(3600)
    assert (await api.get(f"{PODS}/p")).body["metadata"] == metadata
    assert (await api.delete(f"{PODS}/p", gracePeriodSeconds=0)).code == 200
    assert (await api.get(f"{PODS}/p")).code == 404


@pytest.mark.parametrize(
    ("own", "wish", "period"),
    [(30, None, 30), (5, None, 5), (30, 7, 7), (30, 60, 60), (30, -1, 1)],
)
async def test_the_grace_period_is_the_wish_or_the_pods_own(
    api: ApiClient, own: int, wish: int | None, period: int
) -> None:
    spec = {"nodeName": "n1", "terminationGracePeriodSeconds": own}
    await api.create(PODS, pod("p", spec=spec))
    body = {} if wish is None else {"gracePeriodSeconds": wish}
    reply = await api.delete(f"{PODS}/p", body)
    assert reply.body["metadata"]["deletionGracePeriodSeconds"] == period


async def test_a_grace_period_can_only_be_shortened(api: ApiClient, clock: ManualClock) -> None:
    await api.create(PODS, running())
    first = await api.delete(f"{PODS}/p")
    shorter = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 5})
    assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 5
    assert epoch_seconds(shorter.body["metadata"]["deletionTimestamp"]) == clock.now() + 5
    assert shorter.body["metadata"]["generation"] == first.body["metadata"]["generation"] == 2
    longer = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 50})
    assert longer.body == shorter.body
    same = await api.delete(f"{PODS}/p")
    assert same.body == shorter.body


async def test_shortening_never_puts_the_end_into_the_past(
    api: ApiClient, clock: ManualClock
) -> None:
    await api.create(PODS, running())
    await api.delete(f"{PODS}/p")
    clock.advance(20)
    reply = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 10})
    metadata = reply.body["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 1
    assert epoch_seconds(metadata["deletionTimestamp"]) == clock.now()


async def test_an_equal_wish_moves_nothing_even_when_the_time_is_over(
    api: ApiClient, clock: ManualClock
) -> None:
    await api.create(PODS, running())
    first = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 10})
    clock.advance(20)
    assert (await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 10})).body == first.body


async def test_what_has_no_grace_is_deleted_in_one_event(api: ApiClient) -> None:
    created = await api.create(CONFIG_MAPS, config_map("c"))
    version = int(created["metadata"]["resourceVersion"])
    async with api.watch(CONFIG_MAPS, resourceVersion=version) as stream:
        await api.delete(f"{CONFIG_MAPS}/c")
        event = await stream.next()
    assert event is not None
    assert event["type"] == "DELETED"
    assert int(event["object"]["metadata"]["resourceVersion"]) == version + 1
    assert "deletionTimestamp" not in event["object"]["metadata"]


async def test_a_finalizer_holds_the_object_until_it_is_removed(api: ApiClient) -> None:
    await api.create(PODS, running(finalizers=[HOLD]))
    reply = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert reply.body["metadata"]["deletionGracePeriodSeconds"] == 0
    labelled = await api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.code == 200
    async with api.watch(PODS, resourceVersion=labelled.version) as stream:
        released = await api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
        event = await stream.next()
    assert event is not None
    assert (released.code, released.version) == (200, labelled.version)
    assert event["type"] == "DELETED"
    assert int(event["object"]["metadata"]["resourceVersion"]) > labelled.version
    assert (await api.get(f"{PODS}/p")).code == 404


async def test_a_finalizer_of_a_pod_with_time_left_does_not_end_it_early(
    api: ApiClient,
) -> None:
    await api.create(PODS, running(finalizers=[HOLD]))
    await api.delete(f"{PODS}/p")
    await api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    assert (await api.get(f"{PODS}/p")).code == 200
    await api.delete(f"{PODS}/p", gracePeriodSeconds=0)
    assert (await api.get(f"{PODS}/p")).code == 404


async def test_deleting_again_what_only_waits_for_finalizers_changes_nothing(
    api: ApiClient,
) -> None:
    await api.create(CONFIG_MAPS, config_map("c", finalizers=[HOLD]))
    first = await api.delete(f"{CONFIG_MAPS}/c")
    assert (await api.delete(f"{CONFIG_MAPS}/c")).body == first.body


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"orphanDependents": True}, ["orphan"]),
    ],
)
async def test_some_propagation_policies_leave_a_finalizer_for_the_garbage_collector(
    api: ApiClient, options: dict[str, Any], finalizers: list[str]
) -> None:
    await api.create(PODS, pod("p"))
    reply = await api.delete(f"{PODS}/p", options)
    assert reply.body["metadata"]["finalizers"] == finalizers
    assert (await api.get(f"{PODS}/p")).code == 200


async def test_jobs_orphan_their_pods_unless_told_otherwise(api: ApiClient) -> None:
    template = {"spec": {**pod()["spec"], "restartPolicy": "Never"}}
    for name in ("plain", "told"):
        await api.create(JOBS, {"metadata": {"name": name}, "spec": {"template": template}})
    await api.delete(f"{JOBS}/plain")
    assert (await api.get(f"{JOBS}/plain")).body["metadata"]["finalizers"] == ["orphan"]
    await api.delete(f"{JOBS}/told", {"propagationPolicy": "Background"})
    assert (await api.get(f"{JOBS}/told")).code == 404


@pytest.mark.parametrize(
    "options", [{"propagationPolicy": "Background"}, {"orphanDependents": False}, {}]
)
async def test_other_propagation_policies_leave_none(
    api: ApiClient, options: dict[str, Any]
) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    assert (await api.delete(f"{CONFIG_MAPS}/c", options)).code == 200
    assert (await api.get(f"{CONFIG_MAPS}/c")).code == 404


async def test_a_delete_with_orphan_dependents_false_of_a_pod_with_grace_is_accepted(
    api: ApiClient,
) -> None:
    await api.create(PODS, running())
    assert (await api.delete(f"{PODS}/p", {"orphanDependents": False})).code == 202


async def test_kinds_without_grace_answer_with_a_status(api: ApiClient) -> None:
    created = await api.create(NODES, {"metadata": {"name": "n"}})
    reply = await api.delete(f"{NODES}/n")
    assert reply.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "n", "kind": "nodes", "uid": created["metadata"]["uid"]},
    }


async def test_a_collection_is_deleted_by_selector_and_listed_as_it_was(api: ApiClient) -> None:
    for name, team in (("a", "x"), ("b", "y"), ("c", "x")):
        await api.create(PODS, pod(name, labels={"team": team}))
    reply = await api.delete(PODS, labelSelector="team=x")
    assert (reply.code, reply.names) == (200, ["a", "c"])
    assert all("deletionTimestamp" not in item["metadata"] for item in reply.body["items"])
    assert (await api.get(PODS)).names == ["b"]


async def test_a_namespace_terminates_and_waits_to_be_finalized(api: ApiClient) -> None:
    await api.create(NAMESPACES, {"metadata": {"name": "ns"}})
    await api.create(f"{NAMESPACES}/ns/configmaps", config_map("early"))
    reply = await api.delete(f"{NAMESPACES}/ns")
    early = await api.patch(f"{NAMESPACES}/ns/configmaps/early", {"data": {"a": "b"}})
    assert early.code == 200  # existing objects may still change
    assert (reply.code, reply.body["status"]["phase"]) == (200, "Terminating")
    assert reply.body["spec"]["finalizers"] == ["kubernetes"]
    assert "deletionTimestamp" in reply.body["metadata"]
    late = await api.post(f"{NAMESPACES}/ns/configmaps", config_map("late"))
    assert (late.code, late.reason) == (403, "Forbidden")
    assert late.causes == [("NamespaceTerminating", "metadata.namespace")]
    assert (await api.delete(f"{NAMESPACES}/ns")).body == reply.body
    finalized = {**reply.body, "spec": {}}
    assert (await api.put(f"{NAMESPACES}/ns/finalize", finalized)).code == 200
    assert (await api.get(f"{NAMESPACES}/ns")).code == 404


async def test_a_namespaces_finalizers_change_only_through_finalize(api: ApiClient) -> None:
    created = await api.create(NAMESPACES, {"metadata": {"name": "ns"}})
    reply = await api.put(f"{NAMESPACES}/ns", {**created, "spec": {}})
    assert reply.body["spec"] == {"finalizers": ["kubernetes"]}


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_are_immortal(api: ApiClient, name: str) -> None:
    reply = await api.delete(f"{NAMESPACES}/{name}")
    assert reply.code == 403
    assert reply.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


async def test_the_deletion_of_many_objects_lets_others_in(
    server: FakeApiServer, api: ApiClient
) -> None:
    server.load(
        [{"apiVersion": "v1", "kind": "ConfigMap", **config_map(f"c{n}")} for n in range(250)]
    )
    turns = []
    deleting = asyncio.ensure_future(api.request("DELETE", CONFIG_MAPS))
    while not deleting.done():
        turns.append(server.statistics().objects)
        await asyncio.sleep(0)
    assert len((await deleting).body["items"]) == 250
    steps = [before - after for before, after in itertools.pairwise(turns)]
    assert max(steps) == 100
