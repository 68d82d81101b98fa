"""The queueing hint of plugins that wait for a claim: is it one of the pod's? And what it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.api.storage import PersistentVolumeClaim
from scheduler.framework.events import QueueingHint, as_kind
from scheduler.framework.likeness import same_parts

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from scheduler.snapshot.pod_info import PodInfo


def queue_for_claim(
    pod: PodInfo, old: object, new: object, *, names: Iterable[str]
) -> QueueingHint:
    """Queue if the claim that has come or changed has one of these names, in the pod's namespace.

    Plugins differ in which names count: whether claims made for ephemeral volumes are among them.
    """
    _, claim = as_kind(PersistentVolumeClaim, old, new)
    if claim is None or claim.metadata.namespace != pod.namespace:
        return QueueingHint.QUEUE_SKIP
    return QueueingHint(claim.metadata.name in names)


def volumes_and_namespace(pod: PodInfo) -> Hashable:
    """What hints about volumes read of a waiting pod: for `hints_depend_on`.

    Claims of ephemeral volumes are called after the pod, so no other pod is like one that has any.
    """
    volumes = pod.spec.volumes
    if any(volume.ephemeral is not None for volume in volumes):
        return pod.uid
    return pod.namespace, same_parts(volumes)
