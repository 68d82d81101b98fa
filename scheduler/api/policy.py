"""How many pods of a set may be disrupted. Source: `k8s.io/api/policy/v1/types.go`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from scheduler.api.core import LabelSelector, ObjectMeta, Struct

_NOBODY: Final[Mapping[str, datetime]] = MappingProxyType({})


class PodDisruptionBudgetSpec(Struct, frozen=True):
    """Which pods it is about; an empty selector means all of the namespace, none means none."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    """How many more may go. `disrupted_pods` are on their way out already, by name."""

    disruptions_allowed: int = 0
    disrupted_pods: Mapping[str, datetime] = _NOBODY


class PodDisruptionBudget(Struct, frozen=True):
    """`policy/v1.PodDisruptionBudget`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
