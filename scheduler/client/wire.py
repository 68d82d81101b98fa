"""Objects that only travel: nobody decides by them, they are read from or put on the wire.

The answers every kind of object shares (`Status`, list metadata), and the few kinds the scheduler
writes without reading them for a decision: events, leases, bindings. Field names are the API's own
in snake_case. A `Time` or `MicroTime` is a text here: it is written once, by `scheduler.clock`, and
nobody asks which of two is later.
Source: `k8s.io/apimachinery/pkg/apis/meta/v1/types.go`, `k8s.io/api/events/v1/types.go`,
`k8s.io/api/coordination/v1/types.go`, `k8s.io/api/core/v1/types.go` (Binding, Event).
"""

from __future__ import annotations

import msgspec

from scheduler.api.core import ObjectMeta, ObjectReference, Struct


class StatusCause(Struct, frozen=True):
    """One of the reasons for a refusal; `field` is the path of the field at fault, if any."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True):
    """What a refusal is about: the object, the causes, and when to come again."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Struct, frozen=True):
    """What the API server answers instead of an object: every refusal, and some successes."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class ListMeta(Struct, frozen=True):
    """What a list says of itself. `continue_token` is empty on the last page."""

    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class EventSeries(Struct, frozen=True):
    """How often an event was seen, and when last (a MicroTime)."""

    count: int = 0
    last_observed_time: str = ""


class Event(Struct, frozen=True):
    """An `events.k8s.io/v1` event: what happened to which object, told to people."""

    metadata: ObjectMeta = ObjectMeta()
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""


class EventSource(Struct, frozen=True):
    """Who reports a `CoreEvent`, and on which host."""

    component: str = ""
    host: str = ""


class CoreEvent(Struct, frozen=True):
    """An event in its older form, that of the core group; timestamps are whole seconds."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: int = 0
    type: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""


class LeaseSpec(Struct, frozen=True):
    """Who holds a lease, since when, and for how long without a renewal.

    The last two belong to coordinated leader election, which is off by default in v1.36.
    """

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(Struct, frozen=True):
    """A lock that must be renewed: leader election lives on it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class Binding(Struct, frozen=True):
    """Puts a pod on a node. The uid in `metadata` is a precondition."""

    metadata: ObjectMeta = ObjectMeta()
    target: ObjectReference = ObjectReference()


class Preconditions(Struct, frozen=True):
    """What must be true of an object for it to be deleted."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Struct, frozen=True):
    """How to delete. No grace period means the object's own."""

    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
