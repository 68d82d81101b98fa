"""What owns or groups pods: services, replication controllers, replica sets, stateful sets.

Read for one thing only: which pods belong together when a profile spreads pods by default.
Source: `k8s.io/api/{core,apps}/v1/types.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from scheduler.api.core import LabelSelector, ObjectMeta, Struct

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class EqualitySelectorSpec(Struct, frozen=True):
    """A spec that selects pods by equal labels; none at all selects none."""

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
