"""Events: one store, two APIs."""

from typing import Any

import pytest

from ..api_client import STRATEGIC, ApiClient
from ..objects import CORE_EVENTS, EVENTS

NEW: dict[str, Any] = {
    "metadata": {"name": "p.1"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "default-scheduler",
    "reportingInstance": "default-scheduler-host",
    "action": "Binding",
    "reason": "Scheduled",
    "regarding": {"kind": "Pod", "namespace": "default", "name": "p", "apiVersion": "v1"},
    "note": "Successfully assigned default/p to n1",
    "type": "Normal",
}
OLD: dict[str, Any] = {
    "metadata": {"name": "p.2"},
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    "reason": "Pulled",
    "message": "done",
    "source": {"component": "kubelet"},
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-01T00:00:00Z",
    "count": 1,
    "type": "Normal",
}


async def test_an_event_of_the_new_api_reads_in_both(api: ApiClient) -> None:
    created = await api.create(EVENTS, NEW)
    assert (created["kind"], created["apiVersion"]) == ("Event", "events.k8s.io/v1")
    assert created["note"] == NEW["note"]
    assert created["deprecatedFirstTimestamp"] is None
    core = (await api.get(f"{CORE_EVENTS}/p.1")).body
    assert (core["kind"], core["apiVersion"]) == ("Event", "v1")
    assert core["involvedObject"] == NEW["regarding"]
    assert core["message"] == NEW["note"]
    assert core["reportingComponent"] == "default-scheduler"
    assert (core["source"], core["firstTimestamp"]) == ({}, None)
    assert core["metadata"] == created["metadata"]


async def test_an_event_of_the_old_api_reads_in_both(api: ApiClient) -> None:
    await api.create(CORE_EVENTS, OLD)
    new = (await api.get(f"{EVENTS}/p.2")).body
    assert new["regarding"] == OLD["involvedObject"]
    assert new["note"] == "done"
    assert new["deprecatedSource"] == {"component": "kubelet"}
    assert new["deprecatedCount"] == 1
    assert new["eventTime"] is None


async def test_a_series_is_patched_by_the_new_api(api: ApiClient) -> None:
    await api.create(EVENTS, NEW)
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    reply = await api.patch(f"{EVENTS}/p.1", {"series": series}, STRATEGIC)
    assert (reply.code, reply.body["series"]) == (200, series)
    assert (await api.get(f"{CORE_EVENTS}/p.1")).body["series"] == series


async def test_both_apis_watch_the_same_events_each_in_its_own_form(api: ApiClient) -> None:
    async with api.watch(EVENTS) as new, api.watch(CORE_EVENTS) as core:
        await api.create(CORE_EVENTS, OLD)
        seen_new, seen_core = await new.next(), await core.next()
        await api.delete(f"{EVENTS}/p.2")
        gone_new, gone_core = await new.next(), await core.next()
    assert seen_new is not None
    assert seen_core is not None
    assert (seen_new["object"]["apiVersion"], seen_new["object"]["note"]) == (
        "events.k8s.io/v1",
        "done",
    )
    assert (seen_core["object"]["apiVersion"], seen_core["object"]["message"]) == ("v1", "done")
    assert [event["type"] for event in (gone_new, gone_core) if event] == ["DELETED", "DELETED"]


@pytest.mark.parametrize(
    ("path", "selector"),
    [
        (CORE_EVENTS, "involvedObject.name=p,reason=Scheduled"),
        (CORE_EVENTS, "reportingComponent=default-scheduler"),
        (CORE_EVENTS, "source=default-scheduler"),
        (EVENTS, "regarding.name=p,regarding.kind=Pod,type=Normal,reason=Scheduled"),
        (EVENTS, "reportingController=default-scheduler"),
    ],
)
async def test_events_are_selected_by_their_object(
    api: ApiClient, path: str, selector: str
) -> None:
    await api.create(EVENTS, NEW)
    await api.create(CORE_EVENTS, OLD)
    assert (await api.get(path, fieldSelector=selector)).names == ["p.1"]


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"eventTime": None}, ("FieldValueRequired", "eventTime")),
        ({"type": "Odd"}, ("FieldValueInvalid", "type")),
        ({"reportingController": ""}, ("FieldValueRequired", "reportingController")),
        ({"reportingInstance": ""}, ("FieldValueRequired", "reportingInstance")),
        ({"action": ""}, ("FieldValueRequired", "action")),
        ({"reason": ""}, ("FieldValueRequired", "reason")),
        ({"note": "x" * 1025}, ("FieldValueInvalid", "message")),
        ({"deprecatedCount": 1}, ("FieldValueInvalid", "count")),
        ({"series": {"count": 1, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}},
         ("FieldValueInvalid", "series.count")),
    ],
)  # fmt: skip
async def test_the_new_api_is_strict(
    api: ApiClient, change: dict[str, Any], cause: tuple[str, str]
) -> None:
    reply = await api.post(EVENTS, {**NEW, **change})
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert cause in reply.causes
    assert reply.body["details"]["kind"] == "Event"


async def test_only_the_series_of_a_new_event_moves(api: ApiClient) -> None:
    await api.create(EVENTS, NEW)
    reply = await api.patch(f"{EVENTS}/p.1", {"note": "other"})
    assert (reply.code, reply.causes) == (422, [("FieldValueInvalid", "message")])


async def test_the_old_api_is_lenient(api: ApiClient) -> None:
    bare = {"metadata": {"name": "x"}, "involvedObject": {"namespace": "default"}}
    assert (await api.post(CORE_EVENTS, bare)).code == 201
    elsewhere = {"metadata": {"name": "y"}, "involvedObject": {"namespace": "other"}}
    reply = await api.post(CORE_EVENTS, elsewhere)
    assert (reply.code, reply.causes) == (
        422,
        [("FieldValueInvalid", "involvedObject.namespace")],
    )


async def test_an_event_is_created_by_putting_it(api: ApiClient) -> None:
    reply = await api.put(f"{EVENTS}/p.1", NEW)
    assert (reply.code, reply.body["note"]) == (201, NEW["note"])


async def test_a_micro_time_has_six_digits(api: ApiClient) -> None:
    reply = await api.post(EVENTS, {**NEW, "eventTime": "2026-01-01T00:00:00Z"})
    assert (reply.code, reply.reason) == (400, "BadRequest")
    with_offset = {**NEW, "eventTime": "2026-01-01T01:00:00.000000+01:00"}
    created = await api.create(EVENTS, with_offset)
    assert created["eventTime"] == NEW["eventTime"]
