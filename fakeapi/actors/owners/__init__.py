"""Controllers that own pods: they make them, make them anew, and count them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .deployments import Deployments
from .replica_sets import ReplicaSets

if TYPE_CHECKING:
    from ..controller import Context, Controller

__all__ = ["owner_controllers"]


def owner_controllers(context: Context) -> list[Controller]:
    """One controller of each kind."""
    kinds = (ReplicaSets, Deployments)
    return [kind(context) for kind in kinds]
