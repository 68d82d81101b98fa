"""The events that plugins of the default profile register for, and the files of their cases."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from conformance.format.case import BUILT_IN
from scheduler.assembly.profiles import build_profiles
from scheduler.config import default_config
from scheduler.framework.events import ActionType, ClusterEvent
from scheduler.plugins import SCHEME
from scheduler.queue import build_queueing_hint_map
from scheduler.testing import FakeHandle

#: Pairs that no pod can wait for, with the reason; conformance/README.md has more.
UNREACHABLE: Final = {
    ("NodeName", "NodeAdd"): "a pod that names its node is not scheduled",
    ("NodeName", "NodeUpdateNodeTaint"): "a pod that names its node is not scheduled",
    ("DefaultPreemption", "PodDelete"): "its hint says no to all",
    ("NodeDeclaredFeatures", "PodUpdate"): "no update that the API allows changes what it needs",
}


def labels_of(event: ClusterEvent) -> Iterator[str]:
    """Return the metrics' names of the events that a registration lets through."""
    actions = event.action_type
    if actions & ActionType.UPDATE == ActionType.UPDATE:
        yield f"{event.resource}Update"
        actions &= ~ActionType.UPDATE
    for action in ActionType:  # single bits only
        if action & actions:
            yield f"{event.resource}{action}"


def registered_events() -> list[tuple[str, str]]:
    """Pairs of a plugin and an event, by their names."""
    (framework,) = build_profiles(default_config(SCHEME), FakeHandle().make).values()
    hints = build_queueing_hint_map(framework.registered_events)
    return sorted(
        {
            (function.plugin_name, label)
            for event, functions in hints.items()
            for function in functions
            for label in labels_of(event)
        }
    )


def cases_of(plugin: str) -> Path:
    """The file with the cases about pods that wait because of a plugin."""
    return BUILT_IN / "requeue" / f"{re.sub('(?<!^)(?=[A-Z])', '_', plugin).lower()}.yaml"


def without_kind_of_pod(event: str) -> str:
    """An event as plugins register it: for pods, with or without a node."""
    return re.sub("^(Assigned|Unschedulable)Pod", "Pod", event)
