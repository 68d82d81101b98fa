"""DefaultBinder: tells the API server which node a pod goes to.

Mirrors `pkg/scheduler/framework/plugins/defaultbinder/default_binder.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.interface import Plugin

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.snapshot.pod_info import PodInfo


class DefaultBinder(Plugin):
    """Bind by the pod's `binding` subresource."""

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Returns once the API server has taken the binding; raises its error if it has not."""
        await self.handle.api.bind(pod.pod, node_name)
