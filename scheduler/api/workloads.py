"""Objects that select pods: services, controllers, and disruption budgets.

Services and controllers are read only for the default spreading of a profile.
Source: `k8s.io/api/{core,apps,policy}/v1/types.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from scheduler.api.core import LabelSelector, ObjectMeta, Struct

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_NO_PODS: Final[Mapping[str, datetime]] = MappingProxyType({})


class EqualitySelectorSpec(Struct, frozen=True):
    """A spec that selects pods by equal labels; without labels it selects none."""

    selector: Mapping[str, str] = _NONE


class LabelSelectorSpec(Struct, frozen=True):
    """A spec that selects pods by a label selector."""

    selector: LabelSelector | None = None


class Service(Struct, frozen=True):
    """`v1.Service`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: EqualitySelectorSpec = EqualitySelectorSpec()


class ReplicationController(Struct, frozen=True):
    """`v1.ReplicationController`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: EqualitySelectorSpec = EqualitySelectorSpec()


class ReplicaSet(Struct, frozen=True):
    """`apps/v1.ReplicaSet`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LabelSelectorSpec = LabelSelectorSpec()


class StatefulSet(Struct, frozen=True):
    """`apps/v1.StatefulSet`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LabelSelectorSpec = LabelSelectorSpec()


class PodDisruptionBudgetSpec(Struct, frozen=True):
    """The selected pods: all of the namespace by an empty selector, none without a selector.

    The other fields are read by simulations only.
    """

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    """The number of allowed disruptions; `disrupted_pods` are being evicted, by name.

    The other fields are read by simulations only.
    """

    disruptions_allowed: int = 0
    disrupted_pods: Mapping[str, datetime] = _NO_PODS
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


class PodDisruptionBudget(Struct, frozen=True):
    """`policy/v1.PodDisruptionBudget`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
