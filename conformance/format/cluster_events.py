"""The names of the events that bring pods back into the queue, as expectations have them.

An event of a kind without a type in the scheduler is `<plural>.<version>.<group>/Add`, `/Update` or
`/Delete`, as `gpupools.v1.example.com/Add`; the scheduler's metrics write it without the slash.
"""

from __future__ import annotations

import difflib
import re
from typing import Final

_ANY_KIND: Final = ("Add", "Update", "Delete")
_NODE: Final = tuple(
    f"UpdateNode{part}"
    for part in (
        *("Allocatable", "Annotation", "Condition", "DeclaredFeature"),
        *("Label", "PreemptionPolicy", "Taint"),
    )
)
_POD: Final = tuple(
    f"UpdatePod{part}"
    for part in (
        *("GeneratedResourceClaim", "Label", "ScaleDown", "ScaleUp"),
        *("SchedulingGatesEliminated", "Toleration"),
    )
)
_OTHERS: Final = (
    *("PersistentVolume", "PersistentVolumeClaim"),
    *("resource.k8s.io/DeviceClass", "resource.k8s.io/ResourceClaim"),
    *("resource.k8s.io/ResourceSlice", "scheduling.k8s.io/PodGroup"),
    *("scheduling.k8s.io/Workload", "storage.k8s.io/CSIDriver"),
    *("storage.k8s.io/CSINode", "storage.k8s.io/CSIStorageCapacity"),
    *("storage.k8s.io/StorageClass", "storage.k8s.io/VolumeAttachment"),
)
#: The events of the kinds that the scheduler knows, and the moves without a change of an object.
#: Pods with a node, and without one: before 1.37, since 1.37, and the waiting pod itself.
_PODS: Final = ("Assigned", "Unschedulable", "Unscheduled", "Target")
KNOWN_EVENTS: Final = frozenset(
    {
        *(f"Node{action}" for action in (*_ANY_KIND, *_NODE)),
        *(f"{pod}Pod{action}" for pod in _PODS for action in (*_ANY_KIND, *_POD)),
        *(f"{kind}{action}" for kind in _OTHERS for action in _ANY_KIND),
        *("UnschedulableTimeout", "ForceActivate"),
    }
)
_OF_OTHER_KINDS: Final = re.compile(
    r"([a-z][a-z0-9-]*\.v[0-9]+(?:(?:alpha|beta)[0-9]+)?(?:\.[a-z0-9.-]+)?)/?(Add|Update|Delete)"
)
_SUGGESTED_MAX: Final = 3


def event_name(label: str) -> str:
    """Return the name of an event by its label in the metrics, or by its name."""
    found = _OF_OTHER_KINDS.fullmatch(label)
    return label if found is None else f"{found[1]}/{found[2]}"


def unknown_event(name: str) -> str | None:
    """Return the reason why no event has this name, with similar names; None for an event."""
    if name in KNOWN_EVENTS or _OF_OTHER_KINDS.fullmatch(name):
        return None
    close = difflib.get_close_matches(name, sorted(KNOWN_EVENTS), _SUGGESTED_MAX)
    known = ", ".join(close) or "those of conformance/format/cluster_events.py"
    return (
        f"there is no event {name}; did you mean {known}? "
        "(of a kind of your own: <plural>.<version>.<group>/Add, /Update or /Delete)"
    )
