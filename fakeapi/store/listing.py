"""Lists: the version of the state that a request gets, and pages.

    resourceVersion   match          limit    the state that is listed
    ---------------   -----          -----    ------------------------
    none              -              any      now
    0                 - NotOlderThan any      now; the limit is ignored
    N                 - NotOlderThan none     now, once N is reached
    N                 Exact, or none with a limit      exactly N
    continue token                   any      exactly the version of the first page

Source: apiserver pkg/storage/cacher and pkg/storage/etcd3/store.go of v0.36.3.
"""

from __future__ import annotations

import base64
import bisect
import dataclasses
import posixpath
import string
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.decoding.options import parse_resource_version
from fakeapi.store.store import Compacted, with_prefix
from fakeapi.types.errors import BadRequest, Expired

if TYPE_CHECKING:
    from fakeapi.decoding.options import ListOptions
    from fakeapi.store.store import Collection, Revision, Store
    from fakeapi.types.objects import Json

_TOKEN_MARKS: Final = frozenset(string.ascii_letters + string.digits + "-_")
_PAGE_VERSION: Final = "meta.k8s.io/v1"
_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
_PAGE_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
#: The version in a continue token that continues with the present state.
_INCONSISTENT: Final = -1


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """One page of a list."""

    metadata: Json
    revisions: list[Revision]


@dataclasses.dataclass(frozen=True, slots=True)
class _Snapshot:
    """The state to list, at one version, and its keys in order."""

    revisions: dict[str, Revision]
    keys: list[str]
    version: int


def wanted_version(options: ListOptions) -> int:
    """Return the version that a list waits for; 0 without a wait. Raises ApiError."""
    if options.continue_token:
        return 0
    return parse_resource_version(options.resource_version, watch=False)


def listing(store: Store, collection: Collection, options: ListOptions) -> Listing:
    """Return one page of a list. Raises ApiError."""
    selection = options.selection
    prefix = f"{selection.namespace}/" if selection.namespace else ""
    limit = options.limit if options.limit > 0 and options.resource_version != "0" else 0
    after = ""
    if options.continue_token:
        snapshot, after = _continued(store, collection, options, prefix)
    else:
        snapshot = _first(store, collection, options, prefix)
    keys = snapshot.keys[bisect.bisect_left(snapshot.keys, after) :] if after else snapshot.keys
    metadata: Json = {"resourceVersion": str(snapshot.version)}
    revisions: list[Revision] = []
    for index, key in enumerate(keys):
        revision = snapshot.revisions[key]
        if not selection.is_everything and not selection.matches(revision.object):
            continue
        revisions.append(revision)
        if limit and len(revisions) == limit:
            remaining = len(keys) - index - 1
            if remaining:  # upstream does not check that any of them matches
                metadata["continue"] = _token(snapshot.version, key[len(prefix) :])
                if selection.is_everything:
                    metadata["remainingItemCount"] = remaining
            break
    return Listing(metadata, revisions)


def _first(store: Store, collection: Collection, options: ListOptions, prefix: str) -> _Snapshot:
    version = parse_resource_version(options.resource_version, watch=False)
    exact = options.match == "Exact" or (version and options.limit > 0 and not options.match)
    if not exact:
        return _now(store, collection, prefix)
    try:
        return _at(collection, version, prefix)
    except Compacted:
        raise Expired(_TOO_OLD) from None


def _continued(
    store: Store, collection: Collection, options: ListOptions, prefix: str
) -> tuple[_Snapshot, str]:
    if options.resource_version not in ("", "0"):
        raise BadRequest("specifying resource version is not allowed when using continue")
    version, start = _parse_token(options.continue_token)
    after = prefix + start
    if version < 0:
        return _now(store, collection, prefix), after
    try:
        return _at(collection, version, prefix), after
    except Compacted:
        raise Expired(
            _PAGE_TOO_OLD, continue_token=_token(_INCONSISTENT, start.removesuffix("\0"))
        ) from None


def _now(store: Store, collection: Collection, prefix: str) -> _Snapshot:
    return _Snapshot(collection.revisions, collection.sorted_keys(prefix), store.resource_version)


def _at(collection: Collection, version: int, prefix: str) -> _Snapshot:
    revisions = collection.at_version(version)
    if revisions is collection.revisions:
        return _Snapshot(revisions, collection.sorted_keys(prefix), version)
    return _Snapshot(revisions, with_prefix(sorted(revisions), prefix), version)


def _token(version: int, last_key: str) -> str:
    """Return the continue token: the next page begins right after this page's last key."""
    content = {"v": _PAGE_VERSION, "rv": version, "start": f"{last_key}\0"}
    return base64.urlsafe_b64encode(msgspec.json.encode(content)).rstrip(b"=").decode()


def _parse_token(token: str) -> tuple[int, str]:
    """Return the version and the start key in a continue token. Raises BadRequest."""
    problem = "invalid continue token: continue key is not valid"
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        # Go's text has the index of the first wrong byte.
        wrong = next((index for index, mark in enumerate(token) if mark not in _TOKEN_MARKS), 0)
        why = f"illegal base64 data at input byte {wrong}"
        raise BadRequest(f"{problem}: {why}") from error
    try:
        content = msgspec.json.decode(raw)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{problem}: {error}") from error
    if not isinstance(content, dict):
        raise BadRequest(f"{problem}: not an object")
    version, start = content.get("rv"), content.get("start")
    encoded = content.get("v", "")
    if encoded != _PAGE_VERSION:
        raise BadRequest(f"{problem}: server does not recognize this encoded version {encoded}")
    if not isinstance(version, int) or version == 0:
        raise BadRequest(
            f"{problem}: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
        )
    if not isinstance(start, str) or not start:
        raise BadRequest(f"{problem}: encoded start key empty (version meta.k8s.io/v1)")
    key = f"/{start.removeprefix('/')}"
    if posixpath.normpath(key) != key:
        raise BadRequest(f"{problem}: {start}")
    return version, key[1:]
