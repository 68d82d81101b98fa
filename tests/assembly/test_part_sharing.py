"""Shared parts: equal parts of pods are one object, and the pods stay equal."""

import msgspec
import pytest

from scheduler.api.core import Pod
from scheduler.assembly import part_sharing
from scheduler.assembly.part_sharing import PartSharing
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod


def _pod(name: str) -> Pod:
    return make_pod(
        name,
        labels={"app": "web"},
        requests={"cpu": "1"},
        node_selector={"disk": "ssd"},
        tolerations=[{"key": "a", "operator": "Exists"}],
    )


def test_equal_parts_are_one_object_and_the_pods_stay_equal() -> None:
    share = PartSharing()
    first, second = share(_pod("p")), share(_pod("q"))
    assert first == _pod("p")
    assert second == _pod("q")
    assert first.metadata.labels is second.metadata.labels
    assert first.spec.containers is second.spec.containers
    assert first.spec.tolerations is second.spec.tolerations
    assert first.spec.node_selector is second.spec.node_selector


def test_equal_texts_in_different_fields_are_different_parts() -> None:
    share = PartSharing()
    pod = make_pod("p", labels={"a": "b"}, node_selector={"a": "b"})
    other = share(
        make_pod(
            "p",
            containers=[{"name": "x"}],
            volumes=[{"name": "x"}],
            labels={"a": "b"},
            node_selector={"a": "b"},
        )
    )
    assert type(other.spec.volumes[0]) is not type(other.spec.containers[0])
    assert share(pod) == pod


def test_sharing_does_not_validate_quantities_again(monkeypatch: pytest.MonkeyPatch) -> None:
    share, pods = PartSharing(), [_pod("p"), _pod("q")]

    def fail(text: str) -> int:
        raise AssertionError(f"{text} is parsed again")

    monkeypatch.setattr("scheduler.api.core.parse_quantity", fail)
    assert share(pods[0]).spec.containers is share(pods[1]).spec.containers


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_sharing, "PARTS_MAX", 2)
    share = PartSharing()
    pods = [make_pod(f"p{number}", labels={"n": str(number % 3)}) for number in range(9)]
    assert [share(pod) for pod in pods] == pods


def test_the_json_of_a_pod_with_a_node_is_kept_on_request_only() -> None:
    def shared(node_name: str, *, keeps_json: bool) -> bytes:
        pod = msgspec.structs.replace(make_pod("web", node_name=node_name), json=b"{}")
        return PartSharing(keeps_json=keeps_json)(pod).json

    assert shared("", keeps_json=False) == b"{}"
    assert shared("a", keeps_json=False) == b""
    assert shared("a", keeps_json=True) == b"{}"


def test_pods_have_their_own_requests_where_replaced_parts_were_in_memory() -> None:
    share = PartSharing()
    share(make_pod("first", requests={"cpu": "1"}))
    other = make_pod("other", requests={"cpu": "7"})
    early = make_pod("early", requests={"cpu": "1"})
    PodInfo(early)
    share(early)
    # One of these tuples is where the replaced one was.
    tuples = [(other.spec.containers[0],) for _ in range(100)]
    specs = [msgspec.structs.replace(other.spec, containers=containers) for containers in tuples]
    pods = [PodInfo(msgspec.structs.replace(other, spec=spec)) for spec in specs]
    assert {pod.requests.resources["cpu"] for pod in pods} == {7000}
