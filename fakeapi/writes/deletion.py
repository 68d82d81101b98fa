"""Deleting: at once, after a grace period, or when the last finalizer is gone.

    stored ──delete, grace 0, no finalizers──────────────────────> gone
       │                                                            ^
       ├──grace > 0──> marked (deletionTimestamp, period) ──grace 0──┤
       │                      │ a shorter period moves the mark      │
       └──finalizers─────> marked, period 0 ──last finalizer gone────┘

Only pods have a grace period. The server does not count it down: a kubelet deletes the pod again
with period 0. A pod that is deleted with period 0 is MODIFIED (marked) and then DELETED.

Source: apiserver pkg/registry/rest/delete.go, pkg/registry/generic/registry/store.go and
pkg/registry/core/{pod,namespace} of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.decoding.options import WriteOptions
from fakeapi.store.registry import Operation, Registry, Review, Target
from fakeapi.types import times
from fakeapi.types.errors import Conflict, Forbidden, NotFound
from fakeapi.types.kind import GarbagePolicy
from fakeapi.types.objects import (
    Json,
    finalizers_of,
    is_deleting,
    mapping,
    metadata_of,
    name_of,
    namespace_of,
    text,
    with_metadata,
)
from fakeapi.writes.pipeline import remove

if TYPE_CHECKING:
    from fakeapi.decoding.options import DeleteOptions
    from fakeapi.store.store import Revision
    from fakeapi.types.kind import Kind

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_FINISHED_PHASES: Final = ("Succeeded", "Failed")


@dataclasses.dataclass(frozen=True, slots=True)
class Deleted:
    """The outcome of a deletion: the present or the last state of the object."""

    object: Json
    gone: bool


def delete(
    registry: Registry, kind: Kind, namespace: str, name: str, options: DeleteOptions
) -> Deleted:
    """Delete one object, or mark it. Raises ApiError."""
    why = kind.rules.deletion_problem(name)
    if why:
        raise Forbidden(kind.plural, kind.group, name, why)
    return _delete_any(registry, kind, namespace, name, options)


def _delete_any(
    registry: Registry, kind: Kind, namespace: str, name: str, options: DeleteOptions
) -> Deleted:
    existing = registry.find(kind, namespace, name)
    target = Target(kind, namespace, name, WriteOptions(dry_run=options.dry_run))
    registry.admission.validate(Review(registry, target, Operation.DELETE, existing.object))
    check_preconditions(kind, existing, options)
    finalizers = _finalizers(kind, existing.object, options)
    marked = kind.rules.marked_for_deletion(existing.object, finalizers, registry.now())
    if marked is not None:
        return _mark(registry, kind, existing, marked, options)
    return _delete(registry, target, existing, options)


def check_preconditions(kind: Kind, existing: Revision, options: DeleteOptions) -> None:
    """Raise Conflict unless the object has the uid and the version that the caller names."""
    uid, version = metadata_of(existing.object).get("uid"), str(existing.resource_version)
    for name, wanted, found, event in (
        ("UID", options.uid, text(uid), "deleted and then recreated"),
        ("ResourceVersion", options.resource_version, version, "modified"),
    ):
        if wanted is not None and wanted != found:
            raise Conflict(
                kind.kind,
                kind.group,
                name_of(existing.object),
                f"the {name} in the precondition ({wanted}) does not match the {name} in record "
                f"({found}). The object might have been {event}",
            )


def _delete(
    registry: Registry, target: Target, existing: Revision, options: DeleteOptions
) -> Deleted:
    kind, old = target.kind, existing.object
    finalizers = _finalizers(kind, old, options)
    graceful = kind.deletes_gracefully and not _is_overdue(old)
    if graceful and is_deleting(old):
        shortened = _shortened(registry, old, options)
        if shortened is None:
            return Deleted(old, gone=False)
        marked, period = shortened
    elif graceful:
        period = _grace_period(old, options)
        marked = _marked(registry, old, period)
    else:
        period = 0
        marked = _marked(registry, old, 0) if finalizers else old
    if finalizers != finalizers_of(old):
        marked = with_metadata(marked, finalizers=finalizers or None)
    stored = existing
    if marked != old:
        if options.dry_run:
            return Deleted(marked, gone=not finalizers and period == 0)
        stored = registry.store.put(kind.storage_key, existing.key, marked)
    if finalizers or period > 0:
        return Deleted(stored.object, gone=False)
    if not options.dry_run:
        remove(registry, kind, existing.key)
    return Deleted(stored.object, gone=True)


def _is_overdue(obj: Json) -> bool:
    """True if the object is marked for deletion with no grace left."""
    return is_deleting(obj) and not metadata_of(obj).get("deletionGracePeriodSeconds")


def _grace_period(pod: Json, options: DeleteOptions) -> int:
    """Return the grace period: the caller's, else the pod's; 0 for pods that run nowhere."""
    spec, status = mapping(pod.get("spec")), mapping(pod.get("status"))
    if not spec.get("nodeName") or status.get("phase") in _FINISHED_PHASES:
        return 0
    own = spec.get("terminationGracePeriodSeconds")
    wish = options.grace_period_seconds
    period = wish if wish is not None else own if isinstance(own, int) else 0
    return period if period >= 0 else 1


def _marked(registry: Registry, obj: Json, period: int) -> Json:
    """Return the object marked for deletion; the first mark increases the generation."""
    metadata = metadata_of(obj)
    now = registry.clock.now()
    changes: Json = {"deletionGracePeriodSeconds": period}
    stamp = metadata.get("deletionTimestamp")
    if stamp is None or times.epoch_seconds(text(stamp)) > now:
        changes["deletionTimestamp"] = times.timestamp(now + period)
    generation = metadata.get("generation")
    if stamp is None and isinstance(generation, int) and generation > 0:
        changes["generation"] = generation + 1
    return with_metadata(obj, **changes)


def _shortened(registry: Registry, obj: Json, options: DeleteOptions) -> tuple[Json, int] | None:
    """Return the object with a shorter grace period, None if the caller's is not shorter."""
    metadata = metadata_of(obj)
    current = metadata.get("deletionGracePeriodSeconds")
    wish = options.grace_period_seconds
    if wish is None or not isinstance(current, int):
        return None
    period = wish if wish >= 0 else 1
    if period >= current:
        return None
    end = times.epoch_seconds(text(metadata.get("deletionTimestamp"))) - current + period
    now = registry.clock.now()
    if end < now:
        end, period = now, min(period, 1)
    stamp = times.timestamp(end)
    changed = with_metadata(obj, deletionTimestamp=stamp, deletionGracePeriodSeconds=period)
    return changed, period


def _finalizers(kind: Kind, obj: Json, options: DeleteOptions) -> list[str]:
    """Return the object's finalizers; the options decide about the garbage collector's."""
    present = finalizers_of(obj)
    orphans, waits = _garbage_wishes(kind, present, options)
    wanted = [name for name in present if name not in (ORPHAN, FOREGROUND)]
    if orphans:
        wanted.append(ORPHAN)
    if waits:
        wanted.append(FOREGROUND)
    return present if set(wanted) == set(present) else wanted


def _garbage_wishes(kind: Kind, present: list[str], options: DeleteOptions) -> tuple[bool, bool]:
    """Return whether dependents are orphaned, and whether they are deleted first."""
    if kind.garbage_policy is GarbagePolicy.UNSUPPORTED:
        return False, False
    if options.orphan_dependents is not None:
        return options.orphan_dependents, False
    if options.propagation_policy:
        return options.propagation_policy == "Orphan", options.propagation_policy == "Foreground"
    for name in present:
        if name in (ORPHAN, FOREGROUND):
            return name == ORPHAN, name == FOREGROUND
    return kind.garbage_policy is GarbagePolicy.ORPHAN, False


def _mark(
    registry: Registry, kind: Kind, existing: Revision, marked: Json, options: DeleteOptions
) -> Deleted:
    """Store an object that is marked for deletion; a controller removes it later."""
    if options.dry_run or marked == existing.object:
        return Deleted(marked, gone=False)
    stored = registry.store.put(kind.storage_key, existing.key, marked)
    return Deleted(stored.object, gone=False)


def delete_all(
    registry: Registry, kind: Kind, revisions: list[Revision], options: DeleteOptions
) -> None:
    """Delete each object of a list that still exists. Raises ApiError.

    As upstream, the system's own objects are not protected here.
    """
    for revision in revisions:
        obj = revision.object
        try:
            _delete_any(registry, kind, namespace_of(obj), name_of(obj), options)
        except NotFound:
            continue
