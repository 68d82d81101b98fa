"""DefaultBinder: bind a pod to its node by the API server's `binding` subresource.

Mirrors `pkg/scheduler/framework/plugins/defaultbinder/default_binder.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.interface import Plugin

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.snapshot.pod_info import PodInfo


class DefaultBinder(Plugin):
    """Bind pods by their `binding` subresource."""

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Return when the API server has accepted the binding; raises its error otherwise."""
        await self.handle.api.bind(pod.pod, node_name)
