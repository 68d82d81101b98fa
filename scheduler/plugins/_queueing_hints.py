"""Parts of queueing hints that several plugins share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.api.core import Pod
from scheduler.api.storage import PersistentVolumeClaim
from scheduler.api.volumes import claim_names
from scheduler.framework.events import QueueingHint, as_kind
from scheduler.framework.interface import same_parts

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from scheduler.snapshot.pod_info import PodInfo


def updated_self(pod: PodInfo, old: object, new: object) -> Pod | None:
    """Return the new object of a pod event if it is the waiting pod itself, else None."""
    _, modified = as_kind(Pod, old, new)
    return modified if modified is not None and modified.metadata.uid == pod.uid else None


def queue_for_itself(pod: PodInfo, old: object, new: object) -> QueueingHint:
    """Queue if the waiting pod itself was updated."""
    return QueueingHint(updated_self(pod, old, new) is not None)


def queue_for_claim(pod: PodInfo, old: object, new: object) -> QueueingHint:
    """Queue if a claim of the pod's volumes was added or updated, also of ephemeral ones."""
    return _queue_for_claims(pod, claim_names(pod.pod), old, new)


def queue_for_named_claim(pod: PodInfo, old: object, new: object) -> QueueingHint:
    """Queue if a claim that the pod names was added or updated."""
    return _queue_for_claims(pod, pod.volumes.claims, old, new)


def _queue_for_claims(pod: PodInfo, names: Iterable[str], old: object, new: object) -> QueueingHint:
    _, claim = as_kind(PersistentVolumeClaim, old, new)
    if claim is None or claim.metadata.namespace != pod.namespace:
        return QueueingHint.QUEUE_SKIP
    return QueueingHint(claim.metadata.name in names)


def volumes_and_namespace(pod: PodInfo) -> Hashable:
    """Return all that hints about volumes read of a waiting pod, for `hints_depend_on`.

    Claims of ephemeral volumes are named after the pod, so such a pod shares no hints with others.
    """
    volumes = pod.spec.volumes
    if any(volume.ephemeral is not None for volume in volumes):
        return pod.uid
    return pod.namespace, same_parts(volumes)
