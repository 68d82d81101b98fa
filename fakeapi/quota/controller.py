"""The controller of quotas: `status.hard` and `status.used` of each quota, right after every write.

Upstream's admission adds to `status.used` before an object is stored, and a controller corrects
that number some time after objects were deleted. Here every change of an object that a quota counts
is charged as it happens, and the status is written directly after it.

    quota created or changed           ──> all its objects are counted again
    object created, changed, deleted   ──> the difference is added

A pod that stays beyond the end of its grace period no longer counts. As no change marks that
moment, it is checked when a quota is about to refuse a write.

Source: pkg/controller/resourcequota/resource_quota_controller.go of Kubernetes v1.36.3, and
apiserver pkg/admission/plugin/resourcequota/controller.go (CheckRequest) of v0.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.apply import ownership
from fakeapi.decoding.options import WriteOptions
from fakeapi.quota import scopes
from fakeapi.quota.usage import (
    count_name,
    is_past_its_end,
    missing_in_containers,
    names_of,
    resources_of,
    usage_of,
)
from fakeapi.store.registry import Target
from fakeapi.types.kind import PODS, QUOTAS
from fakeapi.types.objects import (
    Json,
    mapping,
    metadata_of,
    name_of,
    namespace_of,
    text,
    with_metadata,
)
from fakeapi.types.pod_resources import amounts
from fakeapi.types.quantity import Amount

if TYPE_CHECKING:
    from fakeapi.store.registry import Registry, Review
    from fakeapi.store.store import Change, Collection, Revision
    from fakeapi.types.kind import ResourceKey

_MANAGER: Final = "kube-controller-manager"
_NOTHING: Final = Amount(0)


@dataclasses.dataclass(slots=True)
class TrackedQuota:
    """A quota with its use. `used` has the names of `hard` that can be counted."""

    key: str
    quota: Json
    hard: dict[str, Amount]
    used: dict[str, Amount] = dataclasses.field(default_factory=dict)
    _names: dict[ResourceKey, list[str]] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        return name_of(self.quota)

    def names(self, resource: ResourceKey) -> list[str]:
        """Return the names in the quota that objects of a resource count for."""
        cached = self._names.get(resource)
        if cached is None:
            cached = self._names[resource] = names_of(resource, self.hard)
        return cached

    def matches(self, resource: ResourceKey, obj: Json) -> bool:
        """Return True if the quota counts the object."""
        return bool(self.names(resource)) and scopes.matches(self.quota, resource, obj)


class QuotaController:
    """Follows the store of one server and keeps the status of its quotas."""

    def __init__(self, state: Registry) -> None:
        self._state = state
        self._quotas = state.store.collection(QUOTAS)
        self._tracked: dict[str, TrackedQuota] = {}
        #: Those that count objects of a resource, by namespace and resource, then by key.
        self._counting: dict[tuple[str, ResourceKey], dict[str, TrackedQuota]] = {}
        self._stale: set[str] = set()
        self._changed: set[str] = set()
        #: Pods that are not counted though they are there, by uid.
        self._overdue: set[str] = set()
        self._newest_version = 0
        self._is_writing = False
        state.store.observers.append(self._observe)
        state.store.listeners[self] = self._settle
        self._stale.update(self._quotas.revisions)
        self._settle()

    def check(self, review: Review) -> None:
        """Raise Forbidden if the object does not fit into a quota."""
        quotas = self._counting.get((review.target.namespace, review.resource))
        if not quotas or _keeps_its_scope(review):
            return
        pertinent = [
            quotas[key]
            for key in sorted(quotas)
            if quotas[key].matches(review.resource, review.object)
        ]
        if review.resource == PODS:
            for tracked in pertinent:
                _check_containers(review, tracked)
        for tracked in pertinent:
            more = _more(review, tracked)
            if _exceeded(tracked, more):
                tracked = self.recount(tracked)
            exceeded = _exceeded(tracked, more)
            if exceeded:
                raise review.forbid(
                    f"exceeded quota: {tracked.name}, requested: {_listed(more, exceeded)}, "
                    f"used: {_listed(tracked.used, exceeded)}, "
                    f"limited: {_listed(tracked.hard, exceeded)}"
                )

    def recount(self, tracked: TrackedQuota) -> TrackedQuota:
        """Count all objects of a quota again, as time may have passed."""
        self._stale.add(tracked.key)
        self._settle()
        return self._tracked.get(tracked.key, tracked)

    def _observe(self, collection: Collection, change: Change) -> None:
        """Charge a change; called before it is part of the store, so nothing is written yet."""
        if change.resource_version <= self._newest_version:  # the store was rewound
            self._stale.update(self._quotas.revisions)
        self._newest_version = change.resource_version
        resource = collection.resource
        if resource == QUOTAS and not self._is_writing:
            self._stale.add(change.key)
        if not self._tracked:
            return
        namespace, _, _ = change.key.partition("/")
        if quotas := self._counting.get((namespace, resource)):
            for tracked in quotas.values():
                self._charge(tracked, resource, change)
            if change.current is None and change.previous is not None:
                self._overdue.discard(_uid(change.previous))

    def _charge(self, tracked: TrackedQuota, resource: ResourceKey, change: Change) -> None:
        names = tracked.names(resource)
        if not names:
            return
        before = self._usage(tracked, resource, change.previous)
        after = self._usage(tracked, resource, change.current)
        for name in names:
            used = tracked.used.get(name)
            if used is None:  # a kind that was not served when its objects were counted
                self._stale.add(tracked.key)
                return
            difference = after.get(name, _NOTHING).minus(before.get(name, _NOTHING))
            if difference:
                tracked.used[name] = used.plus(difference)
                self._changed.add(tracked.key)

    def _usage(
        self, tracked: TrackedQuota, resource: ResourceKey, revision: Revision | None
    ) -> dict[str, Amount]:
        """Return the use that a revision was charged with."""
        if revision is None or not scopes.matches(tracked.quota, resource, revision.object):
            return {}
        used = usage_of(resource, revision.object)
        if resource == PODS and self._overdue and _uid(revision) in self._overdue:
            counted = count_name(PODS)
            return {counted: used[counted]}
        return used

    def _settle(self) -> None:
        """Write the changed statuses, until none changes any more."""
        if self._is_writing or not (self._stale or self._changed):
            return
        self._is_writing = True
        try:
            while self._stale or self._changed:
                while self._stale:
                    self._open(min(self._stale))
                while self._changed:
                    self._write(min(self._changed))
        finally:
            self._is_writing = False

    def _open(self, key: str) -> None:
        """Count all objects of a quota anew; forget it if it was deleted."""
        self._stale.discard(key)
        namespace = key.partition("/")[0]
        if (known := self._tracked.pop(key, None)) is not None:
            for resource in resources_of(known.hard):
                del self._counting[namespace, resource][key]
        revision = self._quotas.revisions.get(key)
        if revision is None:
            self._changed.discard(key)
            return
        quota = revision.object
        tracked = TrackedQuota(key, quota, amounts(mapping(quota.get("spec")).get("hard")))
        for resource in resources_of(tracked.hard):
            self._counting.setdefault((namespace, resource), {})[key] = tracked
            if any(kind.storage_key == resource for kind in self._state.kinds):
                self._count(tracked, namespace, resource)
        self._tracked[key] = tracked
        self._changed.add(key)

    def _count(self, tracked: TrackedQuota, namespace: str, resource: ResourceKey) -> None:
        used, names = tracked.used, tracked.names(resource)
        for name in names:
            used.setdefault(name, _NOTHING)
        collection, now = self._state.store.collection(resource), self._state.clock.now()
        for key in collection.sorted_keys(f"{namespace}/"):
            revision = collection.revisions[key]
            if resource == PODS and is_past_its_end(revision.object, now):
                self._overdue.add(_uid(revision))
            usage = self._usage(tracked, resource, revision)
            for name in names:
                if name in usage:
                    used[name] = used[name].plus(usage[name])

    def _write(self, key: str) -> None:
        self._changed.discard(key)
        tracked = self._tracked[key]
        old = self._quotas.revisions[key].object
        status: Json = {
            "hard": dict(mapping(mapping(old.get("spec")).get("hard"))),
            "used": {name: tracked.used[name].shown() for name in sorted(tracked.used)},
        }
        if old.get("status") == status:
            return
        new = with_metadata({**old, "status": status})
        state = self._state
        kind = state.kinds.find("", "v1", "resourcequotas")
        if kind is not None:
            target = Target(
                kind, namespace_of(old), name_of(old), WriteOptions(), "status", _MANAGER
            )
            ownership.on_update(state.kinds, target, new, old, state.now())
        state.store.put(QUOTAS, key, new)


def _uid(revision: Revision) -> str:
    return text(metadata_of(revision.object).get("uid"))


def _keeps_its_scope(review: Review) -> bool:
    """Return True for updates of pods that cannot change their use: no resize, no new scope."""
    if review.resource != PODS or review.old is None or review.target.subresource:
        return False
    return scopes.is_terminating(review.object) == scopes.is_terminating(review.old)


def _check_containers(review: Review, tracked: TrackedQuota) -> None:
    """Raise Forbidden if a container lacks requests or limits that the quota counts."""
    missing = missing_in_containers(review.object, tracked.names(PODS))
    if missing:
        listed = "; ".join(f"{name} for: {','.join(who)}" for name, who in missing.items())
        raise review.forbid(f"failed quota: {tracked.name}: must specify {listed}")


def _more(review: Review, tracked: TrackedQuota) -> dict[str, Amount]:
    """Return the amounts that the write adds to the use of a quota."""
    resource, old = review.resource, review.old
    now = usage_of(resource, review.object)
    was: dict[str, Amount] = {}
    if old is not None and tracked.matches(resource, old):
        was = usage_of(resource, old)
    more = {}
    for name in tracked.names(resource):
        if name in now:
            difference = now[name].minus(was[name]) if name in was else now[name]
            if difference > 0:
                more[name] = difference
    return more


def _exceeded(tracked: TrackedQuota, more: dict[str, Amount]) -> list[str]:
    return sorted(
        name
        for name, amount in more.items()
        if name not in tracked.used or tracked.used[name] + amount > tracked.hard[name]
    )


def _listed(amounts: dict[str, Amount], names: list[str]) -> str:
    return ",".join(f"{name}={amounts[name].shown()}" for name in names if name in amounts)
