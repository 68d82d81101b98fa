"""The API server in memory: changes reach the informers, and conflicts are refused."""

import pytest
from msgspec.structs import replace

from scheduler.api.core import ObjectMeta, Pod
from scheduler.api.dynamic_resources import ResourceClaim
from scheduler.assembly.in_memory_api import InMemoryApi
from scheduler.client import PODS
from scheduler.framework.handle import ObjectNotFoundError, WriteConflictError
from scheduler.reports.decision import result_of
from scheduler.testing import VirtualClock, make_pod


class Seen:
    """The changes that an informer has delivered."""

    def __init__(self, api: InMemoryApi) -> None:
        self.changes: list[str] = []
        self.lister = (informer := api.informer(PODS)).lister
        informer.add_event_handler(
            on_add=lambda pod, is_initial: self.changes.append(f"add {pod.key}"),
            on_update=lambda old, new: self.changes.append(f"update {new.key}"),
            on_delete=lambda pod, final_state_unknown: self.changes.append(f"delete {pod.key}"),
        )


@pytest.fixture
def api() -> InMemoryApi:
    return InMemoryApi(VirtualClock())


def test_a_write_reaches_the_handlers_before_it_returns(api: InMemoryApi) -> None:
    seen = Seen(api)
    api.put(PODS.plural, make_pod("p"))
    result_of(api.bind(make_pod("p"), "n"))
    assert seen.changes == ["add default/p", "update default/p"]
    assert [pod.spec.node_name for pod in seen.lister.list()] == ["n"]


def test_a_pod_that_has_finished_is_deleted_for_the_informer(api: InMemoryApi) -> None:
    seen, pod = Seen(api), make_pod("p")
    api.put(PODS.plural, pod)
    api.put(PODS.plural, replace(pod, status=replace(pod.status, phase="Succeeded")))
    assert seen.changes == ["add default/p", "delete default/p"]
    assert len(api.objects(PODS.plural)) == 1


@pytest.mark.parametrize(("grace_seconds", "is_gone"), [(0, True), (30, False), (None, False)])
def test_a_deleted_pod_ends_after_its_grace_period(
    api: InMemoryApi, grace_seconds: int | None, *, is_gone: bool
) -> None:
    pod = make_pod("p")
    pod = replace(pod, spec=replace(pod.spec, termination_grace_period_seconds=grace_seconds))
    api.put(PODS.plural, pod)
    assert result_of(api.delete_pod(pod))
    left: Pod | None = api.objects(PODS.plural).get("p", "default")
    assert (left is None) == is_gone
    assert left is None or left.metadata.deletion_timestamp is not None
    assert api.victims == ["default/p"]


def test_a_pod_that_was_created_again_is_another_one(api: InMemoryApi) -> None:
    pod = make_pod("p")
    api.put(PODS.plural, replace(pod, metadata=replace(pod.metadata, uid="another")))
    assert not result_of(api.delete_pod(pod))


def test_the_writes_of_claims_have_versions(api: InMemoryApi) -> None:
    metadata = ObjectMeta(name="c", namespace="default", resource_version="0")
    api.put("resourceclaims", ResourceClaim(metadata))
    claims = api.resource_claims
    read = result_of(claims.get(ResourceClaim(metadata)))
    assert result_of(claims.update(read)).metadata.resource_version != "0"
    with pytest.raises(WriteConflictError, match="the object has been modified"):
        result_of(claims.update(read))
    result_of(claims.delete(read))
    with pytest.raises(ObjectNotFoundError, match='"c" not found'):
        result_of(claims.get(read))
    assert claims.writes[-1] == "delete resourceclaims default/c"


def test_objects_are_loaded_by_name_and_pods_in_their_order(api: InMemoryApi) -> None:
    names = ["b", "c", "a"]
    api.load(
        {
            PODS.plural: [make_pod(name) for name in names],
            "resourceclaims": [ResourceClaim(ObjectMeta(name=name)) for name in names],
        }
    )
    assert [pod.metadata.name for pod in api.objects(PODS.plural).list()] == names
    assert [claim.metadata.name for claim in api.objects("resourceclaims").list()] == [
        "a",
        "b",
        "c",
    ]
