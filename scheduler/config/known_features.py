"""The table of kube-scheduler's feature gates, for all versions as which the scheduler decides.

A row of `features.json` is a gate of the schedulers 1.`since` to 1.`until`; without these it is one
of all versions. `specs` are what the gate was from each minor version of Kubernetes on: the
version, the stage, the default, if the gate only accepts its default, and from which minimum
compatibility version on that holds. 1.31, the oldest that can be emulated, stands for all before.
`needs` names the features that must be on with it. A gate has two rows if two schedulers disagree
about the same version.
Source: `GetAllVersioned` and `Dependencies` of the gates of kube-scheduler v1.34.4, v1.35.4,
v1.36.3 and v1.37.2, whose definitions are in `pkg/features/kube_features.go`, apiserver
`pkg/features`, client-go `features`, component-base.
"""

from __future__ import annotations

import enum
import functools
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.config.versions import SchedulerVersion

if TYPE_CHECKING:
    from collections.abc import Mapping


class Stage(enum.Enum):
    """The maturity of a feature."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"

    @property
    def label(self) -> str:
        """The stage as help and metrics show it."""
        return "" if self is Stage.GA else self.value


class FeatureSpec(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A feature from the version 1.`since` on; a locked gate only accepts its default.

    It holds if the other components are of the version 1.`min_compatibility` or later.
    """

    since: int
    stage: Stage
    default: bool
    locked: bool = False
    min_compatibility: int = 0


class Feature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the table. Schedulers before 1.35 do not check `needs`."""

    name: str
    specs: tuple[FeatureSpec, ...]
    needs: tuple[str, ...] = ()
    since: int = 0
    until: int = max(SchedulerVersion)

    def spec_at(self, minor: int, min_compatibility: int) -> FeatureSpec | None:
        """Return the feature as of 1.`minor`; None if that version does not have it."""
        for spec in reversed(self.specs):
            if spec.since <= minor and spec.min_compatibility <= min_compatibility:
                return spec
        return None


_TABLE: Final = msgspec.json.decode(
    Path(__file__).with_name("features.json").read_bytes(), type=tuple[Feature, ...]
)


@functools.cache
def known_features(version: SchedulerVersion) -> Mapping[str, Feature]:
    """Return every feature that a scheduler of this version knows."""
    return MappingProxyType(
        {feature.name: feature for feature in _TABLE if feature.since <= version <= feature.until}
    )


@functools.cache
def features_of(
    version: SchedulerVersion, minor: int, min_compatibility: int
) -> Mapping[str, FeatureSpec]:
    """Return the features of 1.`minor`, as a scheduler of `version` emulates it."""
    known = known_features(version).items()
    specs = ((name, feature.spec_at(minor, min_compatibility)) for name, feature in known)
    return MappingProxyType({name: spec for name, spec in specs if spec is not None})
