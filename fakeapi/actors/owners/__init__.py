"""Controllers that own pods: they make them, make them anew, and count them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .daemon_sets import DaemonSets
from .deployments import Deployments
from .jobs import FinishedJobs, Jobs
from .replica_sets import ReplicaSets
from .stateful_sets import StatefulSets

if TYPE_CHECKING:
    from ..controller import Context, Controller

__all__ = ["owner_controllers"]


def owner_controllers(context: Context) -> list[Controller]:
    """One controller of each kind."""
    kinds = (ReplicaSets, Deployments, StatefulSets, Jobs, FinishedJobs, DaemonSets)
    return [kind(context) for kind in kinds]
