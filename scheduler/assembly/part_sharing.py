"""Shared parts: equal parts of pods are the same object.

Thousands of pods come from one template and have equal containers, tolerations and owners. Decoding
creates new objects for every pod; the informer of pods then replaces the parts below by the first
equal ones, which saves most of their memory.

Other modules rely on this contract to recognise pods of one template quickly, by the identity of
their parts: the cache of resource requests in `scheduler.snapshot.pod_info`, and the grouping of
waiting pods in `scheduler.queue`. For them it is an optimisation only. Equal parts that are not
shared (in tests, in `explain`, or because the bounded cache here has dropped one) cost time, not
correctness. A module that uses an identity as a key must keep the part alive: Python reuses the
identities of deleted objects.

A part is looked up by its JSON text, because parts contain mappings and cannot be hashed. Decoding
a pod takes 5 us, sharing its parts 4 to 5 us. To look up the bytes as received would save both, but
in a real cluster they differ for every pod (the names of volume mounts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from cachetools import LRUCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.api.core import Pod

#: How many parts are cached. Pods keep the parts that the cache drops.
PARTS_MAX: Final = 16384

#: The shared fields of the three structs of a pod.
_SHARED: Final = (
    ("metadata", ("labels", "owner_references")),
    (
        "spec",
        (
            "containers",
            "init_containers",
            "resources",
            "overhead",
            "tolerations",
            "volumes",
            "affinity",
            "topology_spread_constraints",
            "node_selector",
        ),
    ),
    ("status", ("conditions", "container_statuses")),
)

_encoder: Final = msgspec.json.Encoder()


class PartSharing:
    """Shares the parts of pods; call it with each decoded pod, before others read the pod.

    Without `keeps_json` the JSON that was kept for extenders is dropped once a pod has a node.
    `first` is called with each pod before the parts are shared.
    """

    def __init__(
        self, *, keeps_json: bool = False, first: Callable[[Pod], Pod] | None = None
    ) -> None:
        self._keeps_json: Final = keeps_json
        self._first: Final = first
        # The key includes the field, because equal texts in different fields have different types.
        self._parts: Final[LRUCache[tuple[str, bytes], object]] = LRUCache(PARTS_MAX)

    def __call__(self, pod: Pod) -> Pod:
        """Replace the parts of `pod` by equal parts of earlier pods, in place; return it."""
        if self._first is not None:
            pod = self._first(pod)
        if pod.json and pod.spec.node_name and not self._keeps_json:
            msgspec.structs.force_setattr(pod, "json", b"")
        for struct_name, fields in _SHARED:
            struct = getattr(pod, struct_name)
            for field in fields:
                part = getattr(struct, field)
                if part:
                    key = (field, _encoder.encode(part))
                    try:
                        msgspec.structs.force_setattr(struct, field, self._parts[key])
                    except KeyError:
                        self._parts[key] = part
        return pod
