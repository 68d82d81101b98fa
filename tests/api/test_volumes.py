"""Claims and volumes, one by one."""

import pytest
from msgspec.structs import replace

from scheduler.api import volumes
from scheduler.api.core import OwnerReference
from scheduler.api.storage import PersistentVolumeClaim
from scheduler.testing import make_pod
from tests.plugins.volumes import make_claim, make_volume

BETA = {"volume.beta.kubernetes.io/storage-class": "old"}


def test_the_annotation_of_old_names_the_class_before_the_field_does() -> None:
    assert volumes.claim_class(make_claim(storage_class="new", annotations=BETA)) == "old"
    assert volumes.claim_class(make_claim(storage_class="new")) == "new"
    assert volumes.claim_class(make_claim(storage_class=None)) == ""
    assert volumes.volume_class(make_volume(storage_class="new", annotations=BETA)) == "old"
    assert volumes.volume_class(make_volume(storage_class="new")) == "new"
    assert volumes.claim_class(make_claim(annotations={next(iter(BETA)): ""})) == ""


def test_the_claims_of_a_pod_are_named_or_made_for_its_ephemeral_volumes() -> None:
    pod = make_pod(
        volumes=[
            {"name": "scratch"},
            {"name": "data", "ephemeral": {}},
            {"name": "shared", "persistentVolumeClaim": {"claimName": "claim"}},
        ]
    )
    assert list(volumes.claim_names(pod)) == ["pod-data", "claim"]


@pytest.mark.parametrize(
    ("owners", "namespace", "is_for_pod"),
    [
        ((OwnerReference(uid="uid-default-pod", controller=True),), "default", True),
        ((OwnerReference(uid="uid-default-pod", controller=True),), "other", False),
        ((OwnerReference(uid="uid-default-pod"),), "default", False),
        ((OwnerReference(uid="uid-other", controller=True),), "default", False),
        ((), "default", False),
    ],
)
def test_a_claim_is_for_the_pod_that_controls_it(
    owners: tuple[OwnerReference, ...], namespace: str, is_for_pod: bool
) -> None:
    claim = make_claim()
    metadata = replace(claim.metadata, owner_references=owners, namespace=namespace)
    assert volumes.is_for_pod(replace(claim, metadata=metadata), make_pod()) is is_for_pod


def test_a_claim_is_bound_only_with_the_annotation_of_the_controller() -> None:
    assert volumes.is_fully_bound(make_claim(volume_name="volume"))
    assert not volumes.is_fully_bound(make_claim(volume_name="volume", bound=False))
    assert not volumes.is_fully_bound(make_claim(bound=True))


@pytest.mark.parametrize(
    ("kept_for", "is_bound"),
    [
        (None, False),
        (make_claim(), True),
        (make_claim(uid=""), True),
        (make_claim(uid="uid-earlier"), False),
        (make_claim("other", uid="uid-claim"), False),
    ],
)
def test_a_volume_is_kept_for_a_claim_by_name_and_if_known_by_uid(
    kept_for: PersistentVolumeClaim | None, is_bound: bool
) -> None:
    volume = make_volume(claim=kept_for)
    assert volumes.is_bound_to_claim(volume, make_claim()) is is_bound


def test_a_bound_volume_names_its_claim_and_the_controller() -> None:
    bound, changed = volumes.bound_to_claim(make_volume(), make_claim(version="5"))
    assert changed
    reference = bound.spec.claim_ref
    assert reference is not None
    assert (reference.name, reference.resource_version) == ("claim", "5")
    assert bound.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert volumes.bound_to_claim(bound, make_claim()) == (bound, False)


def test_binding_a_volume_that_a_user_kept_for_the_claim_only_fills_in_the_uid() -> None:
    bound, changed = volumes.bound_to_claim(make_volume(claim=make_claim(uid="")), make_claim())
    assert changed
    assert bound.spec.claim_ref is not None
    assert bound.spec.claim_ref.uid == "uid-claim"
    assert not bound.metadata.annotations


def test_a_volume_without_a_mode_is_a_file_system() -> None:
    block = make_volume(source={"volumeMode": "Block"})
    assert volumes.volume_modes_differ(make_claim(), block)
    assert not volumes.volume_modes_differ(make_claim(), make_volume())
    files = make_volume(source={"volumeMode": "Filesystem"})
    assert not volumes.volume_modes_differ(make_claim(), files)


def test_a_volume_must_offer_every_access_mode_asked_for() -> None:
    volume = make_volume(access_modes=("ReadWriteOnce", "ReadOnlyMany"))
    assert volumes.access_modes_met(make_claim(access_modes=()), volume)
    assert volumes.access_modes_met(make_claim(access_modes=("ReadOnlyMany",)), volume)
    both = make_claim(access_modes=("ReadWriteOnce", "ReadWriteMany"))
    assert not volumes.access_modes_met(both, volume)


def test_sizes_are_exact_and_nothing_asked_for_is_nothing() -> None:
    assert volumes.requested_storage(make_claim(size="1Gi")) == 2**30 * 10**9
    assert volumes.requested_storage(make_claim(size=None)) == 0
    assert volumes.storage_capacity(make_volume(size="1500m")) == 1500 * 10**6
