"""Decoding of objects, lists and watch events; tolerated and invalid input."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from scheduler.client import decoding
from scheduler.client.decoding import EventType, ObjectDecoder, decoder_of
from scheduler.client.errors import ApiError, DecodeError, Forbidden
from scheduler.client.kinds import KINDS, NAMESPACES, PODS, GroupVersionResource
from scheduler.clock import Turns
from scheduler.testing import VirtualClock
from tests.client.objects import event_json, pod, pod_json, pod_list_json
from tests.client.scripted_server import status

URL = "http://server/api/v1/pods"


def line(kind: str, obj: Mapping[str, object]) -> bytes:
    return json.dumps(event_json(kind, obj)).encode()


@pytest.mark.parametrize(
    "extra",
    [
        {"spec": {"nodeName": None, "containers": None, "tolerations": [{"key": None}]}},
        {"spec": None, "status": None},
        {"status": {"conditions": [{"type": None, "lastTransitionTime": None}], "phase": None}},
    ],
)
def test_null_means_absent(extra: dict[str, object]) -> None:
    found = ObjectDecoder(PODS).object(json.dumps({**pod_json("p"), **extra}).encode(), url=URL)

    assert (found.metadata, found.spec.node_name) == (pod("p").metadata, "")
    assert found.spec.containers == ()


def test_null_means_absent_in_lists_and_watches_too() -> None:
    decoder = ObjectDecoder(PODS)
    listed = pod_list_json("7", "p")
    listed["items"][0]["spec"] = {"nodeName": None}  # type: ignore[index]
    empty = {**pod_list_json("8"), "items": None}
    event = decoder.event(line("ADDED", pod_json("p", spec={"nodeName": None})), url=URL)

    assert decoder.page(json.dumps(listed).encode(), url=URL).items == [pod("p")]
    assert decoder.page(json.dumps(empty).encode(), url=URL).items == []
    assert event is not None
    assert event.object == pod("p")


def test_unknown_fields_are_skipped() -> None:
    body = json.dumps(pod_json("p", novelty={"deep": [1, None]})).encode()

    assert ObjectDecoder(PODS).object(body, url=URL) == pod("p")


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"spec":{"nodeName":1}}', "Expected `str`, got `int` - at `$.spec.nodeName`"),
        (
            b'{"spec":{"nodeName":null,"priority":"high"}}',
            "Expected `int | null`, got `str` - at `$.spec.priority`",
        ),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"spec":', "Input data was truncated"),
        (b"", "Input data was truncated"),
    ],
)
def test_invalid_input_is_an_error_with_place_and_reason(body: bytes, detail: str) -> None:
    with pytest.raises(DecodeError) as caught:
        ObjectDecoder(PODS).object(body, url=URL)

    assert str(caught.value) == f"{URL}: not a valid Pod: {detail}"


@pytest.mark.parametrize("kind", ["Table", "NodeList", "Pod"])
def test_a_list_of_something_else_is_an_error(kind: str) -> None:
    with pytest.raises(DecodeError, match=f"expected kind PodList, got '{kind}'"):
        ObjectDecoder(PODS).page(json.dumps({"kind": kind, "items": []}).encode(), url=URL)


def test_the_order_of_fields_in_an_event_does_not_matter() -> None:
    usual = line("MODIFIED", pod_json("p", "5"))
    reversed_object = dict(reversed(pod_json("p", "5").items()))
    reversed_event = json.dumps({"object": reversed_object, "type": "MODIFIED"}).encode()
    decoder = ObjectDecoder(PODS)

    first, second = decoder.event(usual, url=URL), decoder.event(reversed_event, url=URL)

    assert first == second
    assert first is not None
    assert (first.type, first.object) == (EventType.MODIFIED, pod("p", "5"))


def test_an_object_of_another_kind_is_no_event_however_well_it_fits() -> None:
    other = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}
    same_kind_other_group = {"kind": "Namespace", "apiVersion": "x/v1", "metadata": {}}
    decoder = ObjectDecoder(NAMESPACES)

    assert decoder.event(line("ADDED", other), url=URL) is None
    assert decoder.event(line("ADDED", same_kind_other_group), url=URL) is None
    assert decoder.event(line("ADDED", {"kind": "Namespace", "apiVersion": "v1"}), url=URL)


@pytest.mark.parametrize("body", [b'{"type":"ERROR","object":[]}', b'{"type":"ERROR","object":{}}'])
def test_an_error_in_a_watch_that_is_no_status_is_shown(body: bytes) -> None:
    with pytest.raises(ApiError, match="the watch ended with an error that is no Status"):
        ObjectDecoder(NAMESPACES).event(body, url=URL)


class _Ticking(VirtualClock):
    """A clock on which all work takes long."""

    def monotonic(self) -> float:
        self._now += 60
        return self._now


async def test_a_large_list_is_decoded_object_by_object_among_other_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoding, "_LARGE_BYTES", 0)
    turns, steps = Turns(_Ticking()), []
    pods = [pod_json(name, "5") for name in "ab"]
    body = {"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": pods}
    decoder = ObjectDecoder(PODS)
    asyncio.get_running_loop().call_soon(steps.append, "another task")
    page = await decoder.page_in_turns(json.dumps(body).encode(), url=URL, turns=turns)
    assert page == decoder.page(json.dumps(body).encode(), url=URL)
    assert steps == ["another task"]
    wrong = json.dumps({"kind": "NodeList", "items": []}).encode()
    with pytest.raises(DecodeError, match="expected kind PodList, got 'NodeList'"):
        await decoder.page_in_turns(wrong, url=URL, turns=turns)


def test_an_error_is_an_error_even_where_its_status_fits_the_kind() -> None:
    # A Status has metadata and nothing else that a Namespace would trip over.
    with pytest.raises(Forbidden):
        ObjectDecoder(NAMESPACES).event(line("ERROR", status(403, "Forbidden")), url=URL)


QUOTAS = GroupVersionResource("example.com", "v1", "quotas").resource("Quota", namespaced=True)


def _quota(name: str = "a") -> dict[str, object]:
    metadata = {"name": name, "creationTimestamp": None}
    return {"kind": "Quota", "apiVersion": "example.com/v1", "metadata": metadata, "spec": {"n": 1}}


def test_objects_without_a_type_of_their_own_are_whole() -> None:
    decoder = ObjectDecoder(QUOTAS)
    listed = {"kind": "ListOfQuotas", "metadata": {}, "items": [_quota()]}
    with pytest.raises(DecodeError):
        decoder.page(json.dumps({**listed, "kind": "Table"}).encode(), url=URL)
    page = decoder.page(json.dumps(listed).encode(), url=URL)
    event = decoder.event(line("ADDED", _quota("b")), url=URL)
    assert [(obj.metadata.name, obj["spec"]["n"]) for obj in page.items] == [("a", 1)]
    assert event is not None
    assert (event.object.metadata.name, event.object["spec"]["n"]) == ("b", 1)
    assert decoder.event(line("ADDED", {**_quota(), "kind": "Other"}), url=URL) is None
    with pytest.raises(DecodeError):
        decoder.object(b"[]", url=URL)


def test_fields_of_any_type_are_decoded_as_they_are() -> None:
    opaque = {"driver": "d", "parameters": {"any": [1, {"x": "y"}]}}
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"config": [{"opaque": opaque}]}}}
    for each in (body, {**body, "metadata": {"name": "c", "annotations": None}}):
        claim = ObjectDecoder(KINDS["resourceclaims"]).object(json.dumps(each).encode(), url=URL)
        assert claim.spec.devices.config[0].opaque == opaque


def test_objects_keep_their_json_without_kind_and_a_pod_without_managed_fields() -> None:
    decoder = decoder_of(replace(PODS, keeps_json=True))
    whole = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "a", "managedFields": [{"manager": "x"}], "creationTimestamp": None},
        "unread": {"field": 1},
    }
    kept = {"metadata": {"name": "a", "creationTimestamp": None}, "unread": {"field": 1}}
    listed = {"kind": "PodList", "items": [whole]}
    (item,) = decoder.page(json.dumps(listed).encode(), url="").items
    event = decoder.event(line("ADDED", whole), url="")
    assert event is not None
    for pod_of in (item, event.object, decoder.object(json.dumps(whole).encode(), url="")):
        assert json.loads(pod_of.json) == kept
    assert decoder.page(b'{"kind": "PodList", "items": null}', url="").items == []
    with pytest.raises(DecodeError, match="expected kind PodList"):
        decoder.page(b'{"kind": "NodeList", "items": []}', url="")
