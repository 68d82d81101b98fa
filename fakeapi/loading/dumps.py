"""Prepare dumped objects for another cluster: cleaned, with new uids, in an order that loads.

Uids are the server's to choose, but objects of a dump refer to each other by uid: owners, the claim
of a volume, the consumers of a ResourceClaim, the subject of an event, the selector of a Job. So
the new uids are chosen before anything is stored, and each value that is the old uid of a loaded
object is replaced. Uids of objects outside of the dump stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types.identity import IdSource
from fakeapi.types.objects import (
    Json,
    mapping,
    mappings,
    metadata_of,
    name_of,
    namespace_of,
    text,
    texts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fakeapi.loading.manifests import Manifest

_SERVER_FIELDS: Final = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "selfLink",
)
#: Kinds on which the admission of others depends come first.
_ORDER: Final = {
    "Namespace": 0,
    "PriorityClass": 1,
    "RuntimeClass": 1,
    "StorageClass": 1,
    "ResourceQuota": 2,
    "LimitRange": 2,
    "ServiceAccount": 2,
}
_ALL_OTHERS: Final = 3

#: Group, kind, namespace and name.
_Identity = tuple[str, str, str, str]


class FixedUid(IdSource):
    """An id source that returns one chosen uid; all other values come from another source."""

    def __init__(self, source: IdSource, uid: str) -> None:
        self._source = source
        self._uid = uid

    def uid(self) -> str:
        return self._uid

    def name(self, prefix: str) -> str:
        return self._source.name(prefix)

    def between(self, low: float, high: float) -> float:
        return self._source.between(low, high)


def is_dumped(value: Json) -> bool:
    """Return True if the object comes from a server: it was admitted there."""
    return bool(metadata_of(value).get("uid"))


def cleaned(value: Json) -> Json:
    """Return the object without the fields that only a server may set."""
    metadata = {
        name: item for name, item in metadata_of(value).items() if name not in _SERVER_FIELDS
    }
    result = {**value, "metadata": metadata}
    if value.get("kind") == "Namespace":
        result.pop("status", None)
    elif value.get("kind") == "Pod" and is_dumped(value):
        result["spec"] = _unmerged(mapping(value.get("spec")), mapping(metadata.get("labels")))
    return result


def _unmerged(spec: Json, labels: Json) -> Json:
    """Return a pod's spec as its author wrote it: without the selector terms of matchLabelKeys."""

    def visit(value: object) -> object:
        if isinstance(value, list):
            return [visit(item) for item in value]
        if not isinstance(value, dict):
            return value
        result = {key: visit(item) for key, item in value.items()}
        if "matchLabelKeys" in value or "mismatchLabelKeys" in value:
            _take_out_merged(result, labels)
        return result

    parts = ("affinity", "topologySpreadConstraints")
    return {**spec, **{part: visit(spec[part]) for part in parts if part in spec}}


def _take_out_merged(term: Json, labels: Json) -> None:
    merged = [
        {"key": key, "operator": operator, "values": [labels.get(key)]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in texts(term.get(field))
    ]
    selector = term.get("labelSelector")
    expressions = mapping(selector).get("matchExpressions")
    if not isinstance(selector, dict) or not isinstance(expressions, list):
        return
    left = [expression for expression in expressions if expression not in merged]
    selector.pop("matchExpressions")
    if left:
        selector["matchExpressions"] = left


def in_order(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Sort the manifests: referenced kinds before others, owners before their dependents."""
    listed = list(manifests)
    listed.sort(key=lambda manifest: _ORDER.get(text(manifest.value.get("kind")), _ALL_OTHERS))
    by_uid = {uid: manifest for manifest in listed if (uid := _uid(manifest.value))}
    by_identity = {_identity(manifest.value): manifest for manifest in listed}
    ordered: dict[int, Manifest] = {}
    for manifest in listed:
        # An explicit stack: chains of owners may be longer than Python's.
        stack, under_way = [manifest], {id(manifest)}
        while stack:
            current = stack[-1]
            owners = [
                owner
                for reference in _owner_references(current.value)
                if (owner := _owner(reference, current.value, by_uid, by_identity)) is not None
                and id(owner) not in ordered
                and id(owner) not in under_way  # a circle of owners
            ]
            if owners:
                under_way.add(id(owners[0]))
                stack.append(owners[0])
            else:
                stack.pop()
                ordered.setdefault(id(current), current)
    return list(ordered.values())


def _owner(
    reference: Json,
    value: Json,
    by_uid: dict[str, Manifest],
    by_identity: dict[_Identity, Manifest],
) -> Manifest | None:
    owner = by_uid.get(text(reference.get("uid")))
    if owner is not None:
        return owner
    named = (by_identity.get(identity) for identity in _referenced(reference, value))
    # An object with a uid is referred to by uid only.
    return next((one for one in named if one is not None and not _uid(one.value)), None)


def _owner_references(value: Json) -> list[Json]:
    return mappings(metadata_of(value).get("ownerReferences"))


def _uid(value: Json) -> str:
    return text(metadata_of(value).get("uid"))


def _identity(value: Json) -> _Identity:
    group = text(value.get("apiVersion")).rpartition("/")[0]
    return group, text(value.get("kind")), namespace_of(value), name_of(value)


def _referenced(reference: Json, value: Json) -> list[_Identity]:
    """Return the identities that a reference may mean: in the object's namespace, or in none."""
    group = text(reference.get("apiVersion")).rpartition("/")[0]
    kind, name = text(reference.get("kind")), text(reference.get("name"))
    spaces = [namespace_of(value), ""]
    if spaces[0] in ("", "default"):  # "default" may be left out in either
        spaces.insert(0, "default")
    return [(group, kind, space, name) for space in spaces]


class NewUids:
    """The uids that the loaded objects will have.

    With `keeps_uids` objects keep the uids that they have. `invent` makes new ones. `existing`
    returns the uid of a stored object that stays, the empty string if there is none.
    """

    def __init__(
        self,
        manifests: list[Manifest],
        invent: Callable[[], str],
        existing: Callable[[Json], str],
        *,
        keeps_uids: bool,
    ) -> None:
        self._new: dict[int, str] = {}
        self._by_old: dict[str, str] = {}
        self._by_name: dict[_Identity, str] = {}
        for manifest in manifests:
            value = manifest.value
            old = _uid(value)
            new = existing(value) or (old if keeps_uids else "") or invent()
            self._new[id(value)] = new
            if old:
                self._by_old[old] = new
            else:
                self._by_name[_identity(value)] = new
        self._given = frozenset(self._by_old.values())

    def uid(self, value: Json) -> str:
        return self._new[id(value)]

    def replaced_in(self, value: Json) -> Json:
        """Return the object with new uids in place of the old, also for owners found by name."""
        result = self._visit(value)
        assert isinstance(result, dict)
        for reference in _owner_references(result):
            named = (self._by_name.get(identity) for identity in _referenced(reference, value))
            new = next((uid for uid in named if uid), None)
            if new and text(reference.get("uid")) not in self._given:
                reference["uid"] = new
        return result

    def _visit(self, value: object) -> object:
        if isinstance(value, dict):
            return {key: self._visit(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._visit(item) for item in value]
        return self._by_old.get(value, value) if isinstance(value, str) else value
