"""The controller of CustomResourceDefinitions: serves their resources, and deletes the objects.

    created ──names free──> NamesAccepted, Established ──> its kinds are in the table
       │                        │ changed                       │ the rows change
       └──names taken──> waits for another definition to go     │
                                │ deleted                        v
                         Terminating ──> its objects are deleted ──the last is gone──> removed

Upstream's controllers write some moments later. This controller writes at once, after the write
that caused its own: clients that wait for the condition Established see it change. It deletes the
first of many objects at once, and the others in later turns of the event loop.

Source: apiextensions-apiserver pkg/controller/{status,establish,finalizer} of v0.36.3.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Final

from fakeapi.crds import definitions
from fakeapi.decoding.options import DeleteOptions, WriteOptions
from fakeapi.store.registry import Target
from fakeapi.store.store import call_all
from fakeapi.types.objects import Json, finalizers_of, is_deleting, name_of, with_metadata
from fakeapi.writes import deletion, pipeline
from fakeapi.writes.completion import complete

if TYPE_CHECKING:
    from fakeapi.store.registry import Registry
    from fakeapi.store.store import Collection, Revision
    from fakeapi.types.kind import Kind

_MANAGER: Final = "kube-apiserver"
#: Objects that are deleted in one turn of the event loop.
_DELETED_AT_ONCE: Final = 100


class DefinitionController:
    """Follows the definitions of one server and keeps its table of kinds in step."""

    def __init__(self, state: Registry) -> None:
        self._state = state
        self._definitions = state.store.collection(definitions.RESOURCE)
        self._seen: dict[str, int] = {}
        self._served: dict[str, tuple[object, list[Kind]]] = {}
        #: Definitions whose objects are being deleted.
        self._emptying: set[str] = set()
        self._definitions.follow(self._reconcile_all)

    def _reconcile_all(self) -> None:
        """Reconcile changed definitions, until there are none."""
        while changed := self._changed():
            for key in changed:  # a definition that cannot be served must not stop the others
                call_all((functools.partial(self._reconcile, key),))

    def _changed(self) -> list[str]:
        revisions = self._definitions.revisions
        gone = [key for key in self._seen if key not in revisions]
        new = [
            key
            for key, revision in revisions.items()
            if self._seen.get(key) != revision.resource_version
        ]
        return gone + new

    def _reconcile(self, key: str) -> None:
        revision = self._definitions.revisions.get(key)
        if revision is None:
            del self._seen[key]
            self._serve(key, None)
            plural, _, group = key.partition(".")
            self._state.store.forget((group, plural))
            self._seen.clear()  # its names are free: reconcile all that may wait for them
            return
        self._seen[key] = revision.resource_version
        if is_deleting(revision.object):
            self._terminate(key, revision)
            return
        others = [
            other.object for name, other in self._definitions.revisions.items() if name != key
        ]
        wanted = definitions.accepted(revision.object, others, self._state.now())
        if wanted != revision.object:
            self._write_status(revision, wanted)
        if definitions.is_established(wanted):
            self._serve(key, wanted)

    def _serve(self, key: str, definition: Json | None) -> None:
        """Update the table of kinds for a definition; None removes its kinds."""
        way = None if definition is None else definitions.way_served(definition)
        way_before, before = self._served.get(key, (None, []))
        if way == way_before:
            return
        kinds = (
            definitions.kinds_of(definition, self._state.limits.cel_seconds)
            if definition is not None
            else []
        )
        names = {(kind.version, kind.plural) for kind in kinds}
        self._served[key] = (way, kinds)
        for kind in before:
            if (kind.version, kind.plural) not in names:
                self._state.kinds.remove(kind)
        for kind in kinds:
            self._state.kinds.add(kind)

    def _terminate(self, key: str, revision: Revision) -> None:
        """Delete all objects of the resource; the definition is removed with the last."""
        definition = revision.object
        if definitions.CLEANUP not in finalizers_of(definition):
            return
        if not definitions.is_established(definition):
            self._finish(revision, "NeverEstablished", "resource was never established")
            return
        self._serve(key, definition)
        kind = definitions.storage_kind(definition, self._state.limits.cel_seconds)
        collection = self._state.store.collection(kind.storage_key)
        if key not in self._emptying:
            everything = [collection.revisions[name] for name in collection.sorted_keys()]
            self._delete(key, kind, everything)
        if self._definitions.revisions.get(key) is not revision:
            return  # a listener of an earlier deletion has finished it
        if collection.revisions:  # there are many, or finalizers hold some of it
            collection.listeners[self, key] = lambda: self._finish_if_empty(key, collection)
            message = "CustomResource deletion is in progress"
            in_progress = definitions.with_condition(
                definition,
                definitions.TERMINATING,
                "True",
                "InstanceDeletionInProgress",
                message,
                self._state.now(),
            )
            if in_progress != definition:
                self._write_status(revision, in_progress)
            return
        self._finish(revision, "InstanceDeletionCompleted", "removed all instances")

    def _delete(self, key: str, kind: Kind, objects: list[Revision]) -> None:
        """Delete objects, without an event loop all at once."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            deletion.delete_all(self._state, kind, objects, DeleteOptions())
            return
        some, left = objects[:_DELETED_AT_ONCE], objects[_DELETED_AT_ONCE:]
        if left:
            self._emptying.add(key)
            loop.call_soon(self._delete, key, kind, left)
        else:
            self._emptying.discard(key)
        deletion.delete_all(self._state, kind, some, DeleteOptions())

    def _finish_if_empty(self, key: str, collection: Collection) -> None:
        """Finish after the last object."""
        if collection.revisions:
            return
        collection.listeners.pop((self, key), None)
        revision = self._definitions.revisions.get(key)
        if revision is not None and is_deleting(revision.object):
            self._finish(revision, "InstanceDeletionCompleted", "removed all instances")

    def _finish(self, revision: Revision, reason: str, message: str) -> None:
        """Set Terminating to False and remove the cleanup finalizer."""
        now = self._state.now()
        done = definitions.with_condition(
            revision.object, definitions.TERMINATING, "False", reason, message, now
        )
        left = [name for name in finalizers_of(done) if name != definitions.CLEANUP]
        self._write_status(revision, with_metadata(done, finalizers=left or None))

    def _write_status(self, revision: Revision, wanted: Json) -> None:
        """Write through the status endpoint, as upstream's controllers do."""
        kind = self._state.kinds.find("apiextensions.k8s.io", "v1", definitions.RESOURCE[1])
        assert kind is not None
        name = name_of(revision.object)
        target = Target(kind, "", name, WriteOptions(), "status", _MANAGER)
        pipeline.update(self._state, target, revision, complete(kind, wanted))
