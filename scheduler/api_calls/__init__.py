"""Writes as values, and the queue in which they wait: what is merged, what gives way, what waits.

Pure: the queue says what is to be made next, `scheduler.api_calls.dispatcher` makes it.
"""

from scheduler.api_calls.call_queue import ApiCall, CallQueue, QueuedCall
from scheduler.api_calls.calls import (
    RELEVANCES,
    ObjectPatchCall,
    PodBindingCall,
    PodConditionPatchCall,
    PodDeletionCall,
    PodStatusPatchCall,
)
from scheduler.api_calls.errors import CallNotMade, CallOverwritten, CallSkipped

__all__ = [
    "RELEVANCES",
    "ApiCall",
    "CallNotMade",
    "CallOverwritten",
    "CallQueue",
    "CallSkipped",
    "ObjectPatchCall",
    "PodBindingCall",
    "PodConditionPatchCall",
    "PodDeletionCall",
    "PodStatusPatchCall",
    "QueuedCall",
]
