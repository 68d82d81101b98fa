"""Events have two APIs over one store: core/v1, the stored form, and events.k8s.io/v1.

Source: pkg/apis/events/v1/conversion.go and pkg/registry/core/event/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types.columns import Column, find_number, find_text, wide
from fakeapi.types.durations import age
from fakeapi.types.kind import NAMESPACED_FIELDS, GarbagePolicy, Kind, value_at
from fakeapi.types.objects import Json, mapping, text

if TYPE_CHECKING:
    from fakeapi.types.objects import Json

#: The parts of the reference that field selectors may ask for.
REFERENCE_FIELDS: Final = (
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
)
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
#: What the other view always shows, and what it shows if there is nothing.
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


def to_core(event: Json) -> Json:
    """The stored form of an events.k8s.io/v1 event."""
    core = {_RENAMED.get(name, name): value for name, value in event.items()}
    return {**_CORE_ALWAYS, **core}


def from_core(event: Json) -> Json:
    """The events.k8s.io/v1 form of a stored event."""
    new = {_RENAMED_BACK.get(name, name): value for name, value in event.items()}
    for name in _OPTIONAL_STRINGS:  # omitempty here, always there in the other view
        if new.get(name) == "":
            del new[name]
    return {**_NEW_ALWAYS, **new}


def source_component(event: Json) -> str:
    """What the field selector `source` reads: the old source, else the reporting controller."""
    return text(mapping(event.get("source")).get("component")) or reporting_component(event)


def reporting_component(event: Json) -> str:
    """What the field selector `reportingComponent` reads."""
    return text(event.get("reportingComponent"))


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


KINDS: Final = (
    Kind(
        "", "v1", "events", "Event", schema="core/v1.Event", short_names=("ev",),
        create_on_update=True, garbage_policy=GarbagePolicy.UNSUPPORTED,
        fields={
            **NAMESPACED_FIELDS,
            **{
                f"involvedObject.{part}": value_at("involvedObject", part)
                for part in REFERENCE_FIELDS
            },
            "reason": value_at("reason"),
            "reportingComponent": reporting_component,
            "source": source_component,
            "type": value_at("type"),
        },
        columns=(
            Column("Last Seen", _last_seen), Column("Type", ".type"), Column("Reason", ".reason"),
            Column("Object", ".involvedObject", _involved),
            wide("Subobject", ".involvedObject.fieldPath"), wide("Source", _event_source),
            Column("Message", ".message", lambda message: text(message).strip()),
            wide("First Seen", _first_seen), wide("Count", _event_count),
            Column("Name", ".metadata.name", format="name", priority=1),
        ),
    ),
    Kind(
        "events.k8s.io", "v1", "events", "Event", schema="events/v1.Event", short_names=("ev",),
        create_on_update=True, garbage_policy=GarbagePolicy.UNSUPPORTED,
        stored_as=("", "events"), stored_version="v1",
        to_stored=to_core, from_stored=from_core,
        fields={
            **NAMESPACED_FIELDS,
            **{
                f"regarding.{part}": value_at("involvedObject", part)
                for part in REFERENCE_FIELDS
            },
            "reason": value_at("reason"),
            "reportingController": reporting_component,
            "type": value_at("type"),
        },
        columns=(
            Column("Last Seen", _last_seen), Column("Type", ".type"), Column("Reason", ".reason"),
            Column("Object", ".involvedObject", _involved),
            wide("Subobject", ".involvedObject.fieldPath"), wide("Source", _event_source),
            Column("Message", ".message", lambda message: text(message).strip()),
            wide("First Seen", _first_seen), wide("Count", _event_count),
            Column("Name", ".metadata.name", format="name", priority=1),
        ),
    ),
)  # fmt: skip
