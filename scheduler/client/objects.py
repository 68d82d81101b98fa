"""Objects that the client reads or writes, and that no scheduling decision depends on.

The answers that all kinds share (`Status`, list metadata), and events, leases and bindings. Field
names are the API's own in snake_case. A `Time` or `MicroTime` is a text here, because it is only
written.
Source: `k8s.io/apimachinery/pkg/apis/meta/v1/types.go`, `k8s.io/api/events/v1/types.go`,
`k8s.io/api/coordination/v1/types.go`, `k8s.io/api/core/v1/types.go` (Binding, Event).
"""

from __future__ import annotations

import msgspec

from scheduler.api.core import ObjectMeta, ObjectReference, Struct


class StatusCause(Struct, frozen=True):
    """One reason of a refusal; `field` is the path of the invalid field, if there is one."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True):
    """The object and the causes of a refusal, and when to retry."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class ApiStatus(Struct, frozen=True):
    """The answer without an object: every refusal, and some successes."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class ListMeta(Struct, frozen=True):
    """The metadata of a list. `continue_token` is empty on the last page."""

    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")


class EventSeries(Struct, frozen=True):
    """The count of an event, and the MicroTime of its last occurrence."""

    count: int = 0
    last_observed_time: str = ""


class Event(Struct, frozen=True):
    """An `events.k8s.io/v1` event: something that happened to an object, for people."""

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
    """The component that reports a `CoreEvent`, and its host."""

    component: str = ""
    host: str = ""


class CoreEvent(Struct, frozen=True):
    """An event of the core group, the older form; timestamps are whole seconds."""

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
    """The holder of a lease, since when, and for how long without a renewal.

    The last two fields belong to coordinated leader election, off by default in v1.36.
    """

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class LeaseCandidateSpec(Struct, frozen=True):
    """A lease, and the versions by which the API server chooses its holder."""

    lease_name: str = ""
    ping_time: str | None = None
    renew_time: str | None = None
    binary_version: str = ""
    emulation_version: str = ""
    strategy: str = ""


class LeaseCandidate(Struct, frozen=True):
    """A process that may be chosen to hold a lease."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseCandidateSpec = LeaseCandidateSpec()


class Lease(Struct, frozen=True):
    """A lock that must be renewed, for leader election."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class Binding(Struct, frozen=True):
    """Binds a pod to a node. The uid in `metadata` is a precondition."""

    metadata: ObjectMeta = ObjectMeta()
    target: ObjectReference = ObjectReference()
