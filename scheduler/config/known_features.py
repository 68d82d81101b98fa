"""The table of kube-scheduler's feature gates, by version.

`features.json` has for each gate what it was from each minor version of Kubernetes on: the version,
the stage, the default, and if the gate only accepts its default. The oldest version stands for all
before it. `needs` names the features that must be on with it.
Source: `GetAll`, also after `SetEmulationVersion`, and `Dependencies` of the gates of
kube-scheduler v1.36.3, whose definitions are in
`pkg/features/kube_features.go`, apiserver `pkg/features`, client-go `features`, component-base.
"""

from __future__ import annotations

import enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

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
    """A feature from the version 1.`since` on; a locked gate only accepts its default."""

    since: int
    stage: Stage
    default: bool
    locked: bool = False


class _Feature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    specs: tuple[FeatureSpec, ...]
    needs: tuple[str, ...] = ()

    def spec_at(self, minor: int) -> FeatureSpec | None:
        """Return the feature as of 1.`minor`; None if that version does not have it."""
        return next((spec for spec in reversed(self.specs) if spec.since <= minor), None)


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    oldest: int
    newest: int
    features: dict[str, _Feature]


_TABLE: Final = msgspec.json.decode(
    Path(__file__).with_name("features.json").read_bytes(), type=_Table
)

#: The minor version of the gates in `FEATURES`, and the oldest that can be emulated.
NEWEST_MINOR: Final = _TABLE.newest
OLDEST_MINOR: Final = _TABLE.oldest


def features_of(minor: int) -> Mapping[str, FeatureSpec]:
    """Return the features of version 1.`minor`, as the newest version emulates it."""
    specs = ((name, feature.spec_at(minor)) for name, feature in _TABLE.features.items())
    return MappingProxyType({name: spec for name, spec in specs if spec is not None})


#: Every gate of kube-scheduler v1.36.3 by name.
FEATURES: Final = features_of(NEWEST_MINOR)

#: A feature that is on needs these features to be on.
DEPENDENCIES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {name: feature.needs for name, feature in _TABLE.features.items() if feature.needs}
)
