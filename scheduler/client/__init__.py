"""HTTP to the API server: knows objects, and nothing of scheduling.

    kubeconfig, connection, credentials      who and where
    transport < rest                         bytes, then typed requests
    reflector < informer                     a local copy of one kind, and word of its changes
    event_recorder                           events for people, in the background
    resources, decoding, wire, errors        what all of them speak of

A composition root connects, opens one `RestClient` for the scheduler and one for events, makes the
informers it needs from an `InformerFactory`, and runs factory and `EventBroadcaster` in its task
group. Imported from here is what it needs; the rest is imported from the modules.
"""

from scheduler.client.connection import Connection, connection_to
from scheduler.client.decoding import EventType, Page, WatchEvent
from scheduler.client.errors import (
    AlreadyExists,
    ApiError,
    ClientError,
    Conflict,
    ConnectionFailed,
    ConnectionRefused,
    DecodeError,
    Expired,
    Forbidden,
    Invalid,
    KubeconfigError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from scheduler.client.event_recorder import EventBroadcaster, EventRecorder, RestEventWriter
from scheduler.client.informer import HandlerRegistration, Informer, InformerFactory
from scheduler.client.kubeconfig import connect
from scheduler.client.resources import (
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    ApiObject,
    ListOptions,
    Resource,
    object_key,
)
from scheduler.client.rest import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    RestClient,
)
from scheduler.client.retries import (
    Retry,
    may_have_happened,
    repeat,
    repeat_write,
)
from scheduler.client.store import Lister
from scheduler.client.wire import Event, Lease, LeaseSpec

__all__ = [
    "EVENTS",
    "JSON_PATCH",
    "LEASES",
    "MERGE_PATCH",
    "NAMESPACES",
    "NODES",
    "PODS",
    "STRATEGIC_MERGE_PATCH",
    "AlreadyExists",
    "ApiError",
    "ApiObject",
    "ClientError",
    "Conflict",
    "Connection",
    "ConnectionFailed",
    "ConnectionRefused",
    "DecodeError",
    "Event",
    "EventBroadcaster",
    "EventRecorder",
    "EventType",
    "Expired",
    "Forbidden",
    "HandlerRegistration",
    "Informer",
    "InformerFactory",
    "Invalid",
    "KubeconfigError",
    "Lease",
    "LeaseSpec",
    "ListOptions",
    "Lister",
    "NotFound",
    "Page",
    "Resource",
    "RestClient",
    "RestEventWriter",
    "Retry",
    "ServerError",
    "TooManyRequests",
    "Unauthorized",
    "WatchEvent",
    "connect",
    "connection_to",
    "may_have_happened",
    "object_key",
    "repeat",
    "repeat_write",
]
