"""HTTP to the API server: objects and requests, without any scheduling.

    kubeconfig, connection, client_tls, credentials
                                             server, TLS and identity
    transport < rest                         bytes, then typed requests
    protobuf                                 fields for an object whose other bytes must not change
    retries, flow_control                    when a request is retried, and how many are sent
    reflector < informer > store             a local copy of one kind, and handlers of changes
    discovery                                kinds that are known by their names only
    event_recorder                           events for people, sent in the background
    kinds, objects, decoding, errors         the types that all of them use

The scheduler opens one `RestClient` for itself and one for events, makes informers with an
`InformerFactory`, and runs factory and `EventBroadcaster` in its task group. This package exports
the names for that; all other names are imported from the modules.
"""

from scheduler.client.client_tls import CA_ROTATION
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
from scheduler.client.event_recorder import EventBroadcaster, EventRecorder
from scheduler.client.informer import Informer, InformerFactory
from scheduler.client.kinds import (
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
from scheduler.client.kubeconfig import connect, connect_process
from scheduler.client.objects import Event, Lease, LeaseSpec
from scheduler.client.rest import MERGE_PATCH, STRATEGIC_MERGE_PATCH, RestClient
from scheduler.client.retries import Retry, may_have_happened, repeat, repeat_write
from scheduler.client.store import Store

__all__ = [
    "CA_ROTATION",
    "EVENTS",
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
    "Informer",
    "InformerFactory",
    "Invalid",
    "KubeconfigError",
    "Lease",
    "LeaseSpec",
    "ListOptions",
    "NotFound",
    "Page",
    "Resource",
    "RestClient",
    "Retry",
    "ServerError",
    "Store",
    "TooManyRequests",
    "Unauthorized",
    "WatchEvent",
    "connect",
    "connect_process",
    "connection_to",
    "may_have_happened",
    "object_key",
    "repeat",
    "repeat_write",
]
