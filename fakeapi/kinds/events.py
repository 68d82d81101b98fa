"""Events: two APIs over one store, core/v1, the stored form, and events.k8s.io/v1.

Source: pkg/apis/events/v1/conversion.go and pkg/registry/core/event/strategy.go of v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types import names
from fakeapi.types.columns import Column, find_number, find_text, wide
from fakeapi.types.durations import age
from fakeapi.types.errors import FieldError, invalid, required
from fakeapi.types.kind import NAMESPACED_FIELDS, GarbagePolicy, Kind, KindRules, value_at
from fakeapi.types.objects import Json, integer, mapping, namespace_of, text
from fakeapi.validation.checks import IMMUTABLE
from fakeapi.validation.metadata import validate_label_key

_REASON_MAX, _ACTION_MAX, _INSTANCE_MAX, _NOTE_MAX = 128, 128, 128, 1024
_FIXED: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count",
    "reason", "type", "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
#: The parts of the reference that field selectors read.
_REFERENCE_FIELDS: Final = (
    "kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath",
)  # fmt: skip
#: Fields whose names differ between the two views: events.k8s.io first, core second.
_RENAMED: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_RENAMED_BACK: Final = {core: new for new, core in _RENAMED.items()}
#: Fields that each view always has, with their empty values.
_CORE_ALWAYS: Final[Json] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_NEW_ALWAYS: Final[Json] = {
    "eventTime": None,
    "regarding": {},
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}
_OPTIONAL_STRINGS: Final = ("reportingController", "reportingInstance")


def _to_core(event: Json) -> Json:
    """Return the stored form of an events.k8s.io/v1 event."""
    core = {_RENAMED.get(name, name): value for name, value in event.items()}
    return {**_CORE_ALWAYS, **core}


def _from_core(event: Json) -> Json:
    """Return the events.k8s.io/v1 form of a stored event."""
    new = {_RENAMED_BACK.get(name, name): value for name, value in event.items()}
    for name in _OPTIONAL_STRINGS:  # omitempty in this view only
        if new.get(name) == "":
            del new[name]
    return {**_NEW_ALWAYS, **new}


def _source_component(event: Json) -> str:
    return text(mapping(event.get("source")).get("component")) or _reporting_component(event)


def _reporting_component(event: Json) -> str:
    return text(event.get("reportingComponent"))


def _validate_core(event: Json) -> list[FieldError]:
    return _event_errors(event, "reportingComponent")


def _validate(event: Json) -> list[FieldError]:
    """Return the errors of an event written through events.k8s.io/v1, in its stored form."""
    errors = _event_errors(event, "reportingController")
    errors += _series_errors(event)
    if not event.get("eventTime"):
        errors.append(required("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {text(event.get('type'))}"))
    for field in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if event.get(field):
            errors.append(invalid(field, "", "needs to be unset"))
    return errors


def _validate_update(event: Json, old: Json) -> list[FieldError]:
    """Return the errors of changes of anything but the series, through events.k8s.io/v1.

    Upstream reports a changed reason twice.
    """
    errors = []
    for field in _FIXED:
        if event.get(field) != old.get(field):
            shown = "reportingController" if field == "reportingComponent" else field
            errors.append(invalid(shown, event.get(field), IMMUTABLE))
    return errors


def _series_errors(event: Json) -> list[FieldError]:
    series = event.get("series")
    if not isinstance(series, dict):
        return []
    errors = []
    if integer(series.get("count")) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


def _event_errors(event: Json, controller_field: str) -> list[FieldError]:
    namespace = namespace_of(event)
    about = text(mapping(event.get("involvedObject")).get("namespace"))
    mismatch = invalid("involvedObject.namespace", about, "does not match event.namespace")
    if not event.get("eventTime"):
        wrong = namespace != about if about else namespace not in ("", "default")
        return [mismatch] if wrong else []
    errors = []
    if not about and namespace not in ("default", "kube-system"):
        errors.append(mismatch)
    controller = text(event.get("reportingComponent"))
    if not controller:
        errors.append(required(controller_field))
    errors += validate_label_key(controller, controller_field)
    for field, limit in (
        ("reportingInstance", _INSTANCE_MAX),
        ("action", _ACTION_MAX),
        ("reason", _REASON_MAX),
    ):
        value = text(event.get(field))
        if not value:
            errors.append(required(field))
        if len(value) > limit:
            errors.append(invalid(field, "", f"can have at most {limit} characters"))
    if len(text(event.get("message")).encode()) > _NOTE_MAX:
        errors.append(invalid("message", "", f"can have at most {_NOTE_MAX} characters"))
    return errors


def _first_seen(event: Json, now_seconds: float) -> str:
    return age(event.get("firstTimestamp") or event.get("eventTime"), now_seconds)


def _last_seen(event: Json, now_seconds: float) -> str:
    if (series := event.get("series")) is not None:
        return age(mapping(series).get("lastObservedTime"), now_seconds)
    last = event.get("lastTimestamp")
    return age(last, now_seconds) if last else _first_seen(event, now_seconds)


def _event_count(event: Json, _now_seconds: float) -> int:
    if event.get("series") is not None:
        return find_number(event, ".series.count")
    return find_number(event, ".count") or 1


def _involved(reference: object) -> str:
    kind, name = (text(mapping(reference).get(part)) for part in ("kind", "name"))
    return f"{kind.lower()}/{name}" if name else kind.lower()


def _event_source(event: Json, _now_seconds: float) -> str:
    component = find_text(event, ".source.component") or text(event.get("reportingComponent"))
    host = find_text(event, ".source.host") or text(event.get("reportingInstance"))
    return f"{component}, {host}" if host else component


_COLUMNS: Final = (
    Column("Last Seen", _last_seen), Column("Type", ".type"), Column("Reason", ".reason"),
    Column("Object", ".involvedObject", _involved),
    wide("Subobject", ".involvedObject.fieldPath"), wide("Source", _event_source),
    Column("Message", ".message", lambda message: text(message).strip()),
    wide("First Seen", _first_seen), wide("Count", _event_count),
    Column("Name", ".metadata.name", format="name", priority=1),
)  # fmt: skip
KINDS: Final = (
    Kind(
        "", "v1", "events", "Event", schema="core/v1.Event", short_names=("ev",),
        create_on_update=True, garbage_policy=GarbagePolicy.UNSUPPORTED,
        fields={
            **NAMESPACED_FIELDS,
            **{
                f"involvedObject.{part}": value_at("involvedObject", part)
                for part in _REFERENCE_FIELDS
            },
            "reason": value_at("reason"),
            "reportingComponent": _reporting_component,
            "source": _source_component,
            "type": value_at("type"),
        },
        columns=_COLUMNS,
        rules=KindRules(
            check_name=names.path_segment, checks_metadata_once=True, validate=_validate_core,
        ),
    ),
    Kind(
        "events.k8s.io", "v1", "events", "Event", schema="events/v1.Event", short_names=("ev",),
        create_on_update=True, garbage_policy=GarbagePolicy.UNSUPPORTED,
        stored_as=("", "events"), stored_version="v1",
        to_stored=_to_core, from_stored=_from_core,
        fields={
            **NAMESPACED_FIELDS,
            **{
                f"regarding.{part}": value_at("involvedObject", part)
                for part in _REFERENCE_FIELDS
            },
            "reason": value_at("reason"),
            "reportingController": _reporting_component,
            "type": value_at("type"),
        },
        columns=_COLUMNS,
        rules=KindRules(validate=_validate, validate_update=_validate_update),
    ),
)  # fmt: skip
