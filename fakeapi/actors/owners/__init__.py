"""Controllers that own pods: they create, replace and count them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.actors.owners.daemon_sets import DaemonSets
from fakeapi.actors.owners.deployments import Deployments
from fakeapi.actors.owners.jobs import Jobs
from fakeapi.actors.owners.replica_sets import ReplicaSets, ReplicationControllers
from fakeapi.actors.owners.stateful_sets import StatefulSets

if TYPE_CHECKING:
    from fakeapi.actors.controller import Context, Controller

__all__ = ["owner_controllers"]


def owner_controllers(context: Context, *, pod_groups: bool) -> list[Controller]:
    """Return one controller of each kind; with `pod_groups`, pods of suitable Jobs are gangs."""
    kinds = (ReplicaSets, ReplicationControllers, Deployments, StatefulSets, DaemonSets)
    return [*(kind(context) for kind in kinds), Jobs(context, pod_groups=pod_groups)]
