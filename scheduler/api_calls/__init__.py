"""Writes to the API server: calls as values, the queue in which they merge, and the dispatcher.

The calls and their queue are pure; `scheduler.api_calls.dispatcher` executes what the queue pops.
"""

from scheduler.api_calls.call_queue import (
    ApiCall,
    CallNotMade,
    CallOverwritten,
    CallQueue,
    CallSkipped,
    QueuedCall,
)
from scheduler.api_calls.calls import (
    RELEVANCES,
    ObjectPatchCall,
    PodBindingCall,
    PodConditionPatchCall,
    PodDeletionCall,
    PodGroupPatchCall,
    PodStatusPatchCall,
)

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
    "PodGroupPatchCall",
    "PodStatusPatchCall",
    "QueuedCall",
]
