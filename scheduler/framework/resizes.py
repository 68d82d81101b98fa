"""Pods that wait for a resize: their node has no room yet for the resources that they want."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.config.types import RESIZE_PREEMPTION

if TYPE_CHECKING:
    from scheduler.api.core import Pod
    from scheduler.config.types import FeatureGates


def waits_for_resize(pod: Pod, gates: FeatureGates) -> bool:
    """Return True if the kubelet defers the resize of a pod, and the scheduler is to make room."""
    return RESIZE_PREEMPTION in gates and pod.is_resize_deferred
