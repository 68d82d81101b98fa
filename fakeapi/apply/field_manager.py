"""The field manager of one endpoint: computes the owners of fields after a write.

    created(new, ...)           after a create: the entries of managedFields
    updated(live, new, ...)     after an update or patch: the entries of managedFields
    applied(live, config, ...)  after a server-side apply: the new object, and its entries

Source: apimachinery pkg/util/managedfields/internal/{fieldmanager,structuredmerge,
managedfieldsupdater,skipnonapplied,lastapplied*}.go of v0.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.apply import entries, paths, sets, typed
from fakeapi.apply.entries import APPLY, UNKNOWN_MANAGER, UPDATE, EntryError, Managed
from fakeapi.apply.typed import TypedError
from fakeapi.apply.updater import Conflicts, Manager, Owned, Updater
from fakeapi.types.errors import ApiError, BadRequest, UnreasonedFailure
from fakeapi.types.objects import (
    Json,
    encode,
    mapping,
    metadata_of,
    name_of,
    namespace_of,
    same_json,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeapi.apply.sets import FieldSet
    from fakeapi.apply.types import Type
    from fakeapi.apply.updater import Versions

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_ANNOTATION_BYTES_MAX: Final = 256 * 1024
_BEFORE_FIRST_APPLY: Final = "before-first-apply"
_KUBECTL: Final = "kubectl"
#: The size of the cache of new objects' field sets.
_NEW_KEPT: Final = 2048
_CURRENT: Final = Manager("current-operation", UPDATE, "", "")


class ApplyConflict(ApiError):
    """Another manager owns a field that an apply would change."""

    code = 409
    reason = "Conflict"


@dataclasses.dataclass(frozen=True, slots=True)
class Applied:
    """The object after an apply, without its entries, and the entries."""

    object: Json
    entries: list[Json]


class FieldManager:
    """The rules of one endpoint: a kind in one API version, whole or a subresource.

    Objects are in the wire form of that version, with or without `kind` and `apiVersion`.
    `empty` is the object that upstream decodes from `{}`. `resets` are the fields that the endpoint
    resets, by API version.
    """

    def __init__(
        self,
        versions: Versions,
        *,
        api_version: str,
        kind: str,
        subresource: str = "",
        empty: Json | None = None,
        resets: Mapping[str, FieldSet] | None = None,
    ) -> None:
        self._versions = versions
        self._api_version = api_version
        self._kind = kind
        self._subresource = subresource
        self._empty: Json = _bare(empty or {})
        self._resets = (resets or {}).get(api_version, sets.LEAF)
        #: Parts of a new object that get no owner.
        self._without = {"kind", "apiVersion", *_names_in(self._resets)}
        self._updater = Updater(versions, resets)
        self._new: dict[tuple[tuple[str, object], ...], FieldSet] = {}
        #: The object created last: its fields, their manager, the time, its entries.
        self._newest: tuple[FieldSet, str, str, list[Json]] = (sets.LEAF, "", "", [])

    def created(self, new: Json, manager: str, now: str) -> list[Json]:
        """Return the entries of a new object."""
        fields = self._fields_of_new(new)
        if not fields:
            return []
        # Objects that are created in a row mostly share their entries.
        newest = self._newest
        if newest[0] is not fields or newest[1] != manager or newest[2] != now:
            identity = self._identity(manager, UPDATE)
            owned = Owned(fields, self._api_version, applied=False)
            listed = entries.rendered(Managed({identity: owned}, {identity: now}))
            newest = self._newest = (fields, manager, now, listed)
        return newest[3]

    def updated(self, live: Json, new: Json, manager: str, now: str) -> list[Json]:
        """Return the entries after `new` replaces `live`; no entries if owners are not tracked.

        The client may have changed or removed the entries itself.
        """
        managed = self._managed_of(live, new)
        if not managed.owned:
            return []
        try:
            self._update(_bare(live), _bare(new), managed, self._identity(manager, UPDATE), now)
        except TypedError:
            return []  # upstream logs "should not happen" and drops the entries
        return entries.rendered(managed)

    def applied(
        self, live: Json | None, config: Json, manager: str, now: str, *, force: bool
    ) -> Applied:
        """Merge an applied configuration into an object (None: into a new one).

        Raises BadRequest; UnreasonedFailure for a configuration that does not fit the type; and
        ApplyConflict.
        """
        self._check(config)
        current = _bare(live) if live is not None else self._empty
        managed = (
            entries.parse_stored(metadata_of(live).get("managedFields")) if live else Managed()
        )
        wanted = _bare(config)
        problems = typed.validate(self._type, wanted)
        if problems:
            raise UnreasonedFailure(self._untypable(config, problems))
        if not managed.owned and live is not None:
            before = self._identity(_BEFORE_FIRST_APPLY, UPDATE)
            self._update(self._empty, current, managed, before, now)
        try:
            result = self._apply(current, wanted, managed, manager, now, force=force)
        except Conflicts as conflicts:
            raise self._refusal(conflicts, managed) from conflicts
        except TypedError as error:
            raise UnreasonedFailure(str(error)) from error
        if manager == _KUBECTL and _last_applied(result.object):
            result = dataclasses.replace(result, object=_with_last_applied(result.object, config))
        return result

    def _fields_of_new(self, new: Json) -> FieldSet:
        """Return the fields of a new object. Objects of one template share them."""
        key = tuple(
            [
                (name, _shape(value) if name == "metadata" else encode(value))
                for name, value in new.items()
                if name not in self._without
            ]
        )
        fields = self._new.get(key)
        if fields is None:
            present = {name: new[name] for name, _ in key}
            absent = {name: value for name, value in self._empty.items() if name in present}
            try:
                comparison = typed.compare(self._type, absent, _bare(present))
            except TypedError:
                return sets.LEAF
            fields = sets.union(comparison.modified, comparison.added)
            fields = entries.stripped(sets.recursive_difference(fields, self._resets))
            fields = sets.canonical(fields)
            if len(self._new) >= _NEW_KEPT:
                self._new.clear()
            self._new[key] = fields
        return fields

    @property
    def _type(self) -> Type:
        kind_type = self._versions.type_in(self._api_version)
        assert kind_type is not None
        return kind_type

    def _identity(self, manager: str, operation: str) -> Manager:
        version = "" if operation == APPLY else self._api_version
        return Manager(manager or UNKNOWN_MANAGER, operation, version, self._subresource)

    def _managed_of(self, live: Json, new: Json) -> Managed:
        """Return the owners that the client sent, else the stored object's owners."""
        stored = metadata_of(live).get("managedFields")
        if self._subresource:
            return entries.parse_stored(stored)
        sent = metadata_of(new).get("managedFields")
        if entries.is_reset(sent):
            return Managed()
        try:
            managed = entries.parse(sent)
        except EntryError:
            return entries.parse_stored(stored)
        return managed if managed.owned else entries.parse_stored(stored)

    def _update(self, live: Json, new: Json, managed: Managed, identity: Manager, now: str) -> None:
        """Set the owners after an update, and the time of a manager that owns more than before."""
        managed.owned = self._updater.update(live, new, self._api_version, managed.owned, _CURRENT)
        entries.strip(managed, _CURRENT)
        taken = managed.owned.pop(_CURRENT, None)
        if taken is not None:
            before = managed.owned.get(identity)
            if before is not None:
                fields = sets.union(taken.fields, before.fields)
                taken = dataclasses.replace(taken, fields=fields)
            managed.owned[identity] = taken
            managed.times[identity] = now
        entries.cap_updaters(managed)

    def _apply(
        self, live: Json, config: Json, managed: Managed, manager: str, now: str, *, force: bool
    ) -> Applied:
        identity = self._identity(manager, APPLY)
        try:
            new, owned = self._merged(live, config, managed, identity, force=force)
        except Conflicts as conflicts:
            allowed = self._from_last_applied(live) if manager == _KUBECTL else None
            if allowed is None:
                raise
            left = conflicts.without(allowed)
            if left.owners:
                raise left from conflicts
            new, owned = self._merged(live, config, managed, identity, force=True)
        result = Managed(owned, dict(managed.times))
        entries.strip(result, identity)
        if not same_json(new, live):
            result.times[identity] = now
        return Applied(mapping(new), entries.rendered(result))

    def _merged(
        self, live: Json, config: Json, managed: Managed, identity: Manager, *, force: bool
    ) -> tuple[object, dict[Manager, Owned]]:
        return self._updater.apply(
            live, config, self._api_version, managed.owned, identity, force=force
        )

    def _check(self, config: Json) -> None:
        version = text(config.get("apiVersion"))
        shown = version if "/" in version else f"/{version}"
        actual = f"{shown}, Kind={text(config.get('kind'))}"
        if actual != self._gvk:
            raise BadRequest(f"invalid object type: {actual}")
        if isinstance(metadata_of(config).get("managedFields"), list):
            raise BadRequest("metadata.managedFields must be nil")

    def unconvertible(self, config: Json, why: str) -> str:
        """Return upstream's text for a merged object that does not fit its type."""
        why = f"unable to convert unstructured object to {self._gvk}: {why}"
        return self.unconvertible_version(config, why)

    def unconvertible_version(self, config: Json, why: str) -> str:
        """Return upstream's text for a merged object that cannot be converted."""
        return f"failed to convert new object ({self._described(config)}) to proper version: {why}"

    def _untypable(self, config: Json, problems: list[str]) -> str:
        lines = problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])
        return f"failed to create typed patch object ({self._described(config)}): {lines}"

    def _described(self, config: Json) -> str:
        return f"{namespace_of(config)}/{name_of(config)}; {self._gvk}"

    @property
    def _gvk(self) -> str:
        version = self._api_version if "/" in self._api_version else f"/{self._api_version}"
        return f"{version}, Kind={self._kind}"

    def _from_last_applied(self, live: Json) -> FieldSet | None:
        """Return the fields unchanged since kubectl's client-side apply: kubectl may own them."""
        try:
            config = msgspec.json.decode(_last_applied(live))
        except msgspec.DecodeError:
            return None
        if not isinstance(config, dict) or config.get("apiVersion") != self._api_version:
            return None
        config = _bare(config)
        if typed.validate(self._type, config):
            return None
        changes = typed.compare(self._type, config, live)
        fields = typed.to_set(self._type, config)
        for part in (changes.modified, changes.added, changes.removed):
            fields = sets.difference(fields, part)
        return fields

    def _refusal(self, conflicts: Conflicts, managed: Managed) -> ApplyConflict:
        """Return the error, with one cause per field and a message by manager."""
        details = [
            (self._shown(owner), paths.shown(path))
            for owner in sorted(conflicts.owners)
            for path in sets.members(conflicts.owners[owner])
        ]
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": path}
            for owner, path in details
        ]
        if len(details) == 1:
            owner, path = details[0]
            message = f"Apply failed with 1 conflict: conflict with {owner}: {path}"
        else:
            lines: list[str] = []
            for owner in dict.fromkeys(owner for owner, _ in details):
                lines.append(f"conflicts with {owner}:")
                lines += [f"- {path}" for other, path in details if other == owner]
            message = f"Apply failed with {len(details)} conflicts: " + "\n".join(lines)
        return ApplyConflict(message, details={"causes": causes})

    def _shown(self, owner: Manager) -> str:
        shown = paths.json_text(owner.name)
        if owner.subresource:
            shown = f"{shown} with subresource {paths.json_text(owner.subresource)}"
        return f"{shown} using {owner.api_version}" if owner.operation == UPDATE else shown


def _shape(metadata: object) -> tuple[object, ...]:
    """Return the parts of metadata on which its set of fields depends: names, and lists' values."""
    return tuple(
        [
            (name, *value)
            if isinstance(value, dict)
            else (name, encode(value))
            if isinstance(value, list)
            else name
            for name, value in mapping(metadata).items()
        ]
    )


def _names_in(fields: FieldSet) -> list[str]:
    """Return the names of the members at the top of a set."""
    return [element[len(paths.FIELD) :] for element in fields if sets.has(fields, element)]


def _bare(obj: Json) -> Json:
    """Return the object without the fields that sets never hold: kind, apiVersion, entries."""
    kept = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
    metadata = kept.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        metadata = dict(metadata)
        del metadata["managedFields"]
        kept["metadata"] = metadata
    return kept


def _last_applied(obj: Json) -> str:
    return text(mapping(metadata_of(obj).get("annotations")).get(LAST_APPLIED))


def _with_last_applied(obj: Json, config: Json) -> Json:
    """Set the annotation that kubectl's client-side apply reads."""
    metadata, applied = metadata_of(obj), metadata_of(config)
    others = {
        name: value
        for name, value in mapping(applied.get("annotations")).items()
        if name != LAST_APPLIED
    }
    bare_metadata = {**applied, "annotations": others}
    if not others:
        del bare_metadata["annotations"]
    value = (
        msgspec.json.encode({**config, "metadata": bare_metadata}, order="sorted").decode() + "\n"
    )
    annotations = {**mapping(metadata.get("annotations")), LAST_APPLIED: value}
    size = sum(len(name) + len(str(item)) for name, item in annotations.items())
    if size > _ANNOTATION_BYTES_MAX:
        del annotations[LAST_APPLIED]
    return {**obj, "metadata": {**metadata, "annotations": annotations}}
