"""Query parameters of requests: lists and watches, writes, deletes. Bad ones raise ApiError.

Sources: apimachinery pkg/apis/meta/internalversion/validation and pkg/apis/meta/v1/validation,
pkg/runtime/conversion.go of v0.36.3.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import urllib.parse
from typing import TYPE_CHECKING, Final

from fakeapi.decoding.selectors import (
    EVERYTHING,
    FieldTerm,
    LabelSelector,
    SelectorError,
    UnknownLabelError,
    parse_field_selector,
    parse_label_selector,
)
from fakeapi.types import gotext
from fakeapi.types.client_text import CACHED_LENGTH_MAX, parse_int
from fakeapi.types.errors import (
    BadRequest,
    BadTarget,
    FieldError,
    Invalid,
    UnreasonedFailure,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from fakeapi.types.limits import DEFAULT, Limits
from fakeapi.types.objects import Json, mapping, texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeapi.types.kind import Kind

_META_GROUP: Final = "meta.k8s.io"
_POLICIES: Final = ("Foreground", "Background", "Orphan")
#: These stand between parameters, and between the parts of a selector.
_SEPARATORS: Final = ("&", ",", "%2C")
#: Requests whose target is remembered while they are answered.
_TARGETS_KEPT: Final = 16
_STRAY_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})").search
_MANAGER_BYTES_MAX: Final = 128
_FIELD_VALIDATIONS: Final = ("Ignore", "Strict", "Warn")


class Query:
    """The query parameters of one request; of repeated ones the first."""

    def __init__(self, parameters: Mapping[str, list[str]]) -> None:
        self._parameters = parameters

    def __contains__(self, name: str) -> bool:
        return name in self._parameters

    @property
    def is_empty(self) -> bool:
        return not self._parameters

    def text(self, name: str) -> str:
        """Return the parameter, empty if it is missing."""
        values = self._parameters.get(name)
        return values[0] if values else ""

    def texts(self, name: str) -> list[str]:
        return self._parameters.get(name, [])

    def flag(self, name: str) -> bool:
        """False if the parameter is missing, `0` or `false`; `watch=True` and `watch` are true."""
        values = self._parameters.get(name)
        return values is not None and values[0].lower() not in ("0", "false")

    def optional_flag(self, name: str) -> bool | None:
        """Return `flag`, or None if the parameter is missing."""
        return self.flag(name) if name in self._parameters else None

    def integer(self, name: str) -> int | None:
        """Return a whole number, None if the parameter is missing. Raises BadRequest."""
        if name not in self._parameters:
            return None
        value = self.text(name)
        try:
            number = parse_int(value, bits=64)
        except ValueError as error:
            why = f"strconv.ParseInt: parsing {gotext.quoted(value)}: {error}"
            raise BadRequest(why) from error
        if number is None:
            raise BadRequest(f'strconv.ParseInt: parsing "{value}": value out of range')
        return number


_NO_PARAMETERS: Final = Query({})


@functools.lru_cache(maxsize=_TARGETS_KEPT)
def split_target(target: str, limits: Limits = DEFAULT) -> tuple[str, Query]:
    """Return path and parameters, decoded; blank parameters count. Raises BadTarget.

    Security, faults and verbs read the target one after the other.
    """
    path, _, query = target.partition("?")
    values_max = limits.max_query_values
    if len(query) > values_max and sum(map(query.upper().count, _SEPARATORS)) >= values_max:
        raise BadTarget(f"the query has more than {values_max} parameters and parts of selectors")
    if "%" in path:
        if _STRAY_PERCENT(path):
            raise BadTarget
        path = urllib.parse.unquote(path)
    if ";" in query or "%" in query:  # Go's parser skips malformed parameters
        pairs = query.split("&")
        query = "&".join(pair for pair in pairs if ";" not in pair and not _STRAY_PERCENT(pair))
    if not query:
        return path, _NO_PARAMETERS
    return path, Query(urllib.parse.parse_qs(query, keep_blank_values=True))


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """The objects of a kind that a request selects."""

    namespace: str = ""
    labels: LabelSelector = EVERYTHING
    fields: tuple[FieldTerm, ...] = ()
    #: The key of the selection; watchers with equal keys share encoded events.
    signature: tuple[str, str, str] = ("", "", "")

    @property
    def is_everything(self) -> bool:
        return self.labels.is_everything and not self.fields

    def matches(self, obj: Json) -> bool:
        """True if the selectors match the object; the namespace is not compared."""
        if not self.labels.is_everything:
            metadata = mapping(obj.get("metadata"))
            if not self.labels.matches(mapping(metadata.get("labels"))):
                return False
        return all(term.matches(obj) for term in self.fields)


@dataclasses.dataclass(frozen=True, slots=True)
class ListOptions:
    """The parameters of a list or watch; the store checks versions and tokens."""

    selection: Selection
    resource_version: str = ""
    match: str = ""
    limit: int = 0
    continue_token: str = ""
    timeout_seconds: int = 0
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None


def list_options(
    query: Query, kind: Kind, namespace: str, *, watch: bool, name: str = ""
) -> ListOptions:
    """Read and check the options of a list or a watch; a name narrows it to one object."""
    try:
        selection, unknown = _selection(query, kind, namespace, name), None
    except UnknownLabelError as error:  # other errors come first
        selection, unknown = Selection(), error
    options = ListOptions(
        selection=selection,
        resource_version=query.text("resourceVersion"),
        match=query.text("resourceVersionMatch"),
        limit=query.integer("limit") or 0,
        continue_token=query.text("continue"),
        timeout_seconds=query.integer("timeoutSeconds") or 0,
        allow_bookmarks=query.flag("allowWatchBookmarks"),
        send_initial_events=query.optional_flag("sendInitialEvents"),
    )
    errors = _watch_errors(options) if watch else _list_errors(options)
    if errors:
        raise Invalid("ListOptions", _META_GROUP, "", errors)
    if unknown is not None:
        raise BadRequest(str(unknown)) from unknown
    return options


def _selection(query: Query, kind: Kind, namespace: str, name: str) -> Selection:
    labels, fields = query.text("labelSelector"), query.text("fieldSelector")
    if name:
        fields = ",".join(part for part in (fields, f"metadata.name={name}") if part)
    try:
        return Selection(
            namespace=namespace,
            labels=parse_label_selector(labels),
            fields=parse_field_selector(fields, kind),
            signature=(namespace, _key(labels), _key(fields)),
        )
    except UnknownLabelError:
        raise
    except SelectorError as error:
        raise BadRequest(str(error)) from error


def _key(selector: str) -> str:
    """Return a text of bounded length that stands for a selector: events are cached by it."""
    if len(selector) <= CACHED_LENGTH_MAX:
        return selector
    return hashlib.sha256(selector.encode(errors="surrogatepass")).hexdigest()


def _list_errors(options: ListOptions) -> list[FieldError]:
    errors = []
    field = "resourceVersionMatch"
    if options.match:
        if not options.resource_version:
            errors.append(
                forbidden(field, f"{field} is forbidden unless resourceVersion is provided")
            )
        if options.continue_token:
            errors.append(forbidden(field, f"{field} is forbidden when continue is provided"))
        if options.match not in ("Exact", "NotOlderThan"):
            errors.append(not_supported(field, options.match, ("Exact", "NotOlderThan", "")))
        if options.match == "Exact" and options.resource_version == "0":
            errors.append(forbidden(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(options: ListOptions) -> list[FieldError]:
    errors = []
    field = "resourceVersionMatch"
    wants_initial = options.send_initial_events is not None
    if wants_initial and options.match != "NotOlderThan":
        errors.append(
            forbidden(field, f"sendInitialEvents requires setting {field} to NotOlderThan")
        )
    if options.match:
        if not wants_initial:
            errors.append(
                forbidden(
                    field, f"{field} is forbidden for watch unless sendInitialEvents is provided"
                )
            )
        if options.match != "NotOlderThan":
            errors.append(not_supported(field, options.match, ("NotOlderThan",)))
    # A watch from version 0 counts as one with sendInitialEvents and a match.
    is_legacy = not wants_initial and options.resource_version in ("", "0")
    if options.continue_token and (options.match or is_legacy):
        errors.append(forbidden(field, f"{field} is forbidden when continue is provided"))
    return errors


def unsigned(value: str) -> int:
    """Return a uint64. Raises ValueError with the error of Go's ParseUint."""
    try:
        number, problem = parse_int(value, bits=64, signed=False), "value out of range"
    except ValueError as error:
        number, problem = None, str(error)
    if number is None:
        raise ValueError(f"strconv.ParseUint: parsing {gotext.quoted(value)}: {problem}")
    return number


def parse_resource_version(value: str, *, watch: bool) -> int:
    """Return the version, 0 if it is empty; an invalid one is 400 on a list, 500 on a watch."""
    try:
        return unsigned(value) if value else 0
    except ValueError as error:
        why = f"resourceVersion: Invalid value: {gotext.quoted(value)}: {error}"
        failure = (
            UnreasonedFailure(why) if watch else BadRequest(f"invalid resource version: {why}")
        )
        raise failure from error


@dataclasses.dataclass(frozen=True, slots=True)
class WriteOptions:
    """The parameters of a create, update or patch."""

    dry_run: bool = False
    field_validation: str = "Warn"
    field_manager: str = ""
    force: bool = False


_NO_OPTIONS: Final = WriteOptions()


def write_options(query: Query, options_kind: str, *, is_apply: bool = False) -> WriteOptions:
    """Read and check the options of a write; errors are about an object of `options_kind`."""
    if query.is_empty and not is_apply:
        return _NO_OPTIONS
    manager, field_validation = query.text("fieldManager"), query.text("fieldValidation")
    errors = []
    if is_apply and not manager:
        errors.append(required("fieldManager", "is required for apply patch"))
    elif options_kind == "PatchOptions" and not is_apply and "force" in query:
        errors.append(forbidden("force", "may not be specified for non-apply patch"))
    errors += _manager_errors(manager)
    errors += _dry_run_errors(query.texts("dryRun"))
    if field_validation and field_validation not in _FIELD_VALIDATIONS:
        errors.append(not_supported("fieldValidation", field_validation, ("", *_FIELD_VALIDATIONS)))
    if errors:
        raise Invalid(options_kind, _META_GROUP, "", errors)
    return WriteOptions(
        dry_run=bool(query.texts("dryRun")),
        field_validation=field_validation or "Warn",
        field_manager=manager,
        force=query.flag("force"),
    )


def _manager_errors(manager: str) -> list[FieldError]:
    errors = []
    if len(manager.encode()) > _MANAGER_BYTES_MAX:
        errors.append(too_long("fieldManager", _MANAGER_BYTES_MAX))
    for position, letter in enumerate(manager[:_MANAGER_BYTES_MAX]):  # the rest is too long anyway
        if not letter.isprintable():
            where = len(manager[:position].encode())
            why = f"invalid character U+{ord(letter):04X} (at position {where})"
            errors.append(invalid("fieldManager", manager, why))
    return errors


def _dry_run_errors(values: list[str]) -> list[FieldError]:
    if all(value == "All" for value in values):
        return []
    return [not_supported("dryRun", values, ("All",))]


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The parameters of a delete."""

    grace_period_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: bool = False


def delete_options(body: Json | None, query: Query) -> DeleteOptions:
    """Read and check the options of a delete, from the body, else from the query."""
    if body is None:
        options = DeleteOptions(
            grace_period_seconds=query.integer("gracePeriodSeconds"),
            uid=query.text("uid") or None,
            resource_version=query.text("resourceVersion") or None,
            propagation_policy=query.texts("propagationPolicy")[0]
            if "propagationPolicy" in query
            else None,
            orphan_dependents=query.optional_flag("orphanDependents"),
            dry_run=bool(query.texts("dryRun")),
        )
        dry_run = query.texts("dryRun")
    else:
        dry_run = texts(body.get("dryRun"))
        options = delete_options_of(body, dry_run=bool(dry_run))
    errors = _dry_run_errors(dry_run)
    if options.propagation_policy is not None and options.orphan_dependents is not None:
        errors.append(
            invalid(
                "propagationPolicy",
                options.propagation_policy,
                "orphanDependents and deletionPropagation cannot be both set",
            )
        )
    if options.propagation_policy not in (None, *_POLICIES):
        errors.append(
            not_supported("propagationPolicy", options.propagation_policy, (*_POLICIES, "nil"))
        )
    if errors:
        raise Invalid("DeleteOptions", _META_GROUP, "", errors)
    return options


def delete_options_of(body: Json, *, dry_run: bool) -> DeleteOptions:
    """Return the options of a decoded meta/v1.DeleteOptions, unchecked."""
    preconditions = mapping(body.get("preconditions"))
    grace = body.get("gracePeriodSeconds")
    uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
    policy, orphan = body.get("propagationPolicy"), body.get("orphanDependents")
    return DeleteOptions(
        grace_period_seconds=grace if isinstance(grace, int) else None,
        uid=uid if isinstance(uid, str) else None,
        resource_version=version if isinstance(version, str) else None,
        propagation_policy=policy if isinstance(policy, str) else None,
        orphan_dependents=orphan if isinstance(orphan, bool) else None,
        dry_run=dry_run,
    )
