"""The garbage collector: deletes objects whose owners are gone, as propagation policies demand.

    Background   the owner is deleted, then its dependents without another owner
    Foreground   the owner keeps a finalizer until the dependents that block it are gone
    Orphan       the references of dependents are removed, then the owner's finalizer

The collector follows all resources that can be listed, watched and deleted, also custom ones.
Source: pkg/controller/garbagecollector of Kubernetes v1.36.3.
"""

from __future__ import annotations

import collections
import logging
from typing import TYPE_CHECKING, Final

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.objects import NOTHING, Object
from fakeapi.actors.resources import DEFINITIONS, Resource, discovered
from fakeapi.types.objects import Json, mapping, text
from fakeapi.writes.deletion import FOREGROUND, ORPHAN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.actors.informer import Informer

_DISCOVER: Final = "discover"
_VERBS: Final = ("delete", "list", "watch", "patch", "get")
#: Ignored as upstream does: events are many, and expire.
_IGNORED: Final = frozenset({("", "events"), ("events.k8s.io", "events")})
_REDISCOVER_SECONDS: Final = 1.0
_log = logging.getLogger(__name__)


class GarbageCollector(Controller):
    """Deletes objects without a remaining owner. Keys are `group/plural namespace/name`."""

    name = "garbage-collector"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._resources: dict[tuple[str, str], Resource] = {}  # by group and plural
        self._kinds: dict[tuple[str, str], Resource] = {}  # by group and kind
        self._by_uid: dict[str, tuple[Resource, str]] = {}
        self._dependents: collections.defaultdict[str, set[str]] = collections.defaultdict(set)
        self._informers: dict[Resource, Informer] = {}
        self.discovery: Final = _Discovery(context, self)

    async def sync(self, key: str) -> None:
        """Handle one object: its finalizers of the collector, then its owners."""
        resource, obj = self._item(key)
        if resource is None or obj is None:
            return
        if obj.is_deleting:
            if FOREGROUND in obj.finalizers:
                await self._delete_dependents_first(resource, obj)
            elif ORPHAN in obj.finalizers:
                await self._orphan_dependents(resource, obj)
            if FOREGROUND not in obj.finalizers:
                return
        if obj.owners:
            await self._check_owners(resource, obj)

    def _item(self, key: str) -> tuple[Resource | None, Object | None]:
        which, _, name = key.partition(" ")
        group, _, plural = which.rpartition("/")
        resource = self._resources.get((group, plural))
        informer = self._informers.get(resource) if resource else None
        return resource, informer.objects.get(name) if informer else None

    def serve(self, resources: Iterable[Resource]) -> None:
        """Follow exactly these resources."""
        wanted = {(one.group, one.plural): one for one in resources}
        for which in set(self._resources) - set(wanted):
            resource = self._resources.pop(which)
            self._kinds.pop((resource.group, resource.kind), None)
            gone = self._informers.pop(resource)
            self._needed.remove(gone)
            self.context.forget(resource)
        for which, resource in wanted.items():
            self._kinds[resource.group, resource.kind] = resource
            if which not in self._resources:
                self._resources[which] = resource
                self._follow(resource)

    def _follow(self, resource: Resource) -> None:
        informer = self.context.informer(resource)
        self._informers[resource] = informer
        self._needed.append(informer)
        informer.subscribe(lambda old, new: self._changed(resource, old, new))

    def _changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        obj = new or old or NOTHING
        uid, key = obj.uid, _key(resource, obj)
        for owner in (old or NOTHING).owners:
            self._disown(text(owner.get("uid")), key)
        for owner in (new or NOTHING).owners:
            self._dependents[text(owner.get("uid"))].add(key)
        if new is None:
            self._by_uid.pop(uid, None)
            for dependent in sorted(self._dependents.get(uid, ())):
                self.queue.add(dependent)
            self._wake_owners(obj)
            return
        self._by_uid[uid] = (resource, new.key)
        waits = new.is_deleting and {FOREGROUND, ORPHAN} & set(new.finalizers)
        if waits or (old is not None and old.owners != new.owners):
            self.queue.add(key)
            self._wake_owners(old or NOTHING)
        elif any(not self._stays(one, new) for one in new.owners):
            self.queue.add(key)
        if new.is_deleting:
            self._wake_owners(new)

    def _disown(self, uid: str, key: str) -> None:
        self._dependents[uid].discard(key)
        if not self._dependents[uid]:
            del self._dependents[uid]

    def _stays(self, owner: Json, dependent: Object) -> bool:
        """True if the owner exists and is not being deleted."""
        live = self._owner(owner, dependent)
        return live is not None and not live.is_deleting

    def _wake_owners(self, obj: Object) -> None:
        for owner in obj.owners:
            owner_key = self._by_uid.get(text(owner.get("uid")))
            if owner_key is not None:
                self.queue.add(f"{owner_key[0].group}/{owner_key[0].plural} {owner_key[1]}")

    def _owner(self, reference: Json, dependent: Object) -> Object | None:
        """Return the owner from the copies; None if it is in another namespace."""
        owner_key = self._by_uid.get(text(reference.get("uid")))
        informer = self._informers.get(owner_key[0]) if owner_key else None
        stored = informer.objects.get(owner_key[1]) if informer and owner_key else None
        if stored is None or stored.namespace not in ("", dependent.namespace):
            return None
        return stored

    async def _delete_dependents_first(self, resource: Resource, owner: Object) -> None:
        blocking = False
        for key in sorted(self._dependents.get(owner.uid, ())):
            _, dependent = self._item(key)
            if dependent is None:
                continue
            references = [one for one in dependent.owners if one.get("uid") == owner.uid]
            blocking = blocking or any(one.get("blockOwnerDeletion") for one in references)
            if not dependent.is_deleting:
                self.queue.add(key)
        if not blocking:
            await self._remove_finalizer(resource, owner, FOREGROUND)

    async def _orphan_dependents(self, resource: Resource, owner: Object) -> None:
        for key in sorted(self._dependents.get(owner.uid, ())):
            of, dependent = self._item(key)
            if of is not None and dependent is not None:
                await self._drop_owners(of, dependent, {owner.uid})
        await self._remove_finalizer(resource, owner, ORPHAN)

    async def _remove_finalizer(self, resource: Resource, obj: Object, finalizer: str) -> None:
        left = [one for one in obj.finalizers if one != finalizer]
        await self._patch_metadata(resource, obj, finalizers=left)

    async def _drop_owners(self, resource: Resource, obj: Object, uids: set[str]) -> None:
        left = [one for one in obj.owners if one.get("uid") not in uids]
        await self._patch_metadata(resource, obj, ownerReferences=left)

    async def _patch_metadata(self, resource: Resource, obj: Object, **fields: object) -> None:
        try:
            await self.patch(resource, obj, {"metadata": fields}, if_unchanged=True)
        except ActorApiError as error:
            if error.code != 404:
                raise

    async def _check_owners(self, resource: Resource, obj: Object) -> None:
        """Delete an object or drop references, depending on its owners (attemptToDeleteItem)."""
        solid, gone, waiting = False, set(), set()
        for reference in obj.owners:
            owner = self._owner(reference, obj) or await self._live(reference, obj)
            uid = text(reference.get("uid"))
            if owner is None:
                gone.add(uid)
            elif owner.is_deleting and FOREGROUND in owner.finalizers:
                waiting.add(uid)
            else:
                solid = True
        if solid:
            if gone or waiting:
                await self._drop_owners(resource, obj, gone | waiting)
            return
        if obj.is_deleting:
            return
        await self._delete_dependent(resource, obj, waiting=bool(waiting))

    async def _delete_dependent(self, resource: Resource, obj: Object, *, waiting: bool) -> None:
        if waiting and self._dependents.get(obj.uid):
            policy = "Foreground"
        elif ORPHAN in obj.finalizers:
            policy = "Orphan"
        else:
            policy = "Foreground" if FOREGROUND in obj.finalizers else "Background"
        version = {"resourceVersion": obj.metadata.get("resourceVersion")}
        _log.debug("collecting %s %s, %s", resource.plural, obj.key, policy)
        await self.delete(resource, obj, propagationPolicy=policy, pre=version)

    async def _live(self, reference: Json, dependent: Object) -> Object | None:
        """Return the owner from the server, for owners that no copy contains."""
        group, _, _ = text(reference.get("apiVersion")).rpartition("/")
        resource = self._kinds.get((group, text(reference.get("kind"))))
        if resource is None:
            raise ActorApiError(0, "NoMatch", f"no resource is {reference.get('kind')}")
        namespace = dependent.namespace if resource.namespaced else ""
        if resource.namespaced and not namespace:
            raise ActorApiError(0, "BadOwner", f"{dependent.key} has an owner in a namespace")
        try:
            stored = await self.client.get(resource, namespace, text(reference.get("name")))
        except ActorApiError as error:
            if error.code == 404:
                return None
            raise
        return stored if stored.uid == reference.get("uid") else None


class _Discovery(Controller):
    """Gives the collector the served resources, again after each change of definitions."""

    name = "garbage-collector"

    def __init__(self, context: Context, collector: GarbageCollector) -> None:
        super().__init__(context)
        self._collector = collector
        self._definitions = self.informer(DEFINITIONS, lambda _old, _new: self.queue.add(_DISCOVER))
        self.queue.add(_DISCOVER)

    async def sync(self, key: str) -> None:
        """Read the discovery documents."""
        resources: list[Resource] = []
        for document in await self.client.discover():
            resources += discovered(document, *_VERBS)
        wanted = {(one.group, one.plural): one for one in resources}
        self._collector.serve(one for which, one in wanted.items() if which not in _IGNORED)
        defined = set()
        for definition in self._definitions.objects.values():
            spec = definition.spec
            plural = text(mapping(spec.get("names")).get("plural"))
            if not definition.is_deleting:
                defined.add((text(spec.get("group")), plural))
        if not defined <= set(wanted):  # some are not served yet
            self.queue.add_after(key, _REDISCOVER_SECONDS)


def _key(resource: Resource, obj: Object) -> str:
    return f"{resource.group}/{resource.plural} {obj.key}"
