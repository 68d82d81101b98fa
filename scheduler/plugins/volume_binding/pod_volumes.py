"""What a pod's claims need, and what each node can give them: one pod's search, all nodes at once.

Nothing here is bound or changed; `_volume_binder` does that for the node that is chosen in the end.
Source: `FindPodVolumes` in `pkg/scheduler/framework/plugins/volumebinding/binder.go`, v1.36.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from scheduler.api.volumes import ANN_SELECTED_NODE
from scheduler.framework.status import reject_together, unresolvable
from scheduler.plugins._csi_translation import (
    CsiTranslationError,
    in_tree_plugin,
    migrated_node_affinity,
    migrated_plugins,
)
from scheduler.plugins.volume_binding.node_ranking import nodes_meeting, reach_of_affinity
from scheduler.plugins.volume_binding.unbound_claims import (
    NO_CAPACITY,
    NO_VOLUME,
    Provision,
    StaticMatching,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.api.storage import (
        CSINode,
        CSIStorageCapacity,
        PersistentVolume,
        PersistentVolumeClaim,
    )
    from scheduler.framework.handle import Handle
    from scheduler.framework.status import Rejections
    from scheduler.plugins.volume_binding.assume_cache import AssumeCache
    from scheduler.snapshot.columns import BoolArray, IntArray
    from scheduler.snapshot.nodes import Nodes

_NODE_CONFLICT: Final = unresolvable("node(s) didn't match PersistentVolume's node affinity")
_BIND_CONFLICT: Final = unresolvable("node(s) didn't find available persistent volumes to bind")
_NOT_ENOUGH_SPACE: Final = unresolvable("node(s) did not have enough free storage")
_PV_NOT_EXIST: Final = unresolvable(
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)


class PodVolumeClaims(NamedTuple):
    """A pod's claims by what is to be done for them.

    `unbound_volumes_delay_binding` are the volumes there are of each class that a claim to be
    bound now belongs to.
    """

    bound_claims: Sequence[PersistentVolumeClaim] = ()
    unbound_claims_delay_binding: Sequence[PersistentVolumeClaim] = ()
    unbound_claims_immediate: Sequence[PersistentVolumeClaim] = ()
    unbound_volumes_delay_binding: Mapping[str, Sequence[PersistentVolume]] = {}


@dataclass
class BindingInfo:
    """A claim and the volume that it is to be bound to; the volume as of the last write."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


class DynamicProvision(NamedTuple):
    """A claim whose volume is to be made, and the pool it would come out of, if that is known."""

    claim: PersistentVolumeClaim
    capacity: CSIStorageCapacity | None = None


@dataclass
class PodVolumes:
    """What is to be done for a pod on one node.

    No `static_bindings` at all (None) means that nothing has been assumed: then nothing is bound.
    """

    static_bindings: list[BindingInfo] | None = None
    dynamic_provisions: Sequence[DynamicProvision] = ()


class WantedVolume:
    """A claim without a volume, and what each node of the snapshot has for it.

    `choice` are the volumes that it could be bound to; `matches` says which of them a node has for
    it, `capacities` which pool, for nodes on which a new volume is to be made.
    """

    def __init__(
        self, claim: PersistentVolumeClaim, choice: Sequence[PersistentVolume], total: int
    ) -> None:
        self.claim: Final = claim
        self.choice: Final = choice
        self.matches: Final = np.full(total, NO_VOLUME, dtype=np.int64)
        self.capacities: Final = np.full(total, NO_CAPACITY, dtype=np.int64)
        self.provision: Provision | None = None

    def capacity(self, row: int) -> CSIStorageCapacity | None:
        """The pool that serves a node."""
        if self.provision is None:
            return None
        return self.provision.capacity(int(self.capacities[row]))


class PodVolumeSearch:
    """One pod's search for nodes that have, or can have, all its volumes.

    Filter is called with some nodes at a time; what it finds is kept by row of the snapshot.
    `row_of` gives these rows by name, `total` is their number.
    """

    def __init__(
        self,
        claims: PodVolumeClaims,
        *,
        handle: Handle,
        volumes: AssumeCache[PersistentVolume],
        row_of: Mapping[str, int],
        total: int,
    ) -> None:
        self._claims: Final = claims
        self._handle: Final = handle
        self._volumes: Final = volumes
        self._row_of: Final = row_of
        self._passed: Final = np.zeros(total, dtype=np.bool_)
        self._static: StaticMatching | None = None
        #: Claims whose node is selected already, then those that look for one, smallest first.
        self.wanted: list[WantedVolume] = []

    def filter_nodes(self, nodes: Nodes) -> Rejections | None:
        """Turn down the nodes that cannot have one of the volumes, with all that is in the way.

        Raises `ClaimSelectorError`, `ProvisionError` or `CsiTranslationError`.
        """
        mismatch, missing = self._check_bound_claims(nodes)
        conflict = np.zeros(len(nodes), dtype=np.bool_)
        short = conflict.copy()
        if self._claims.unbound_claims_delay_binding:
            self._find_volumes(nodes, conflict, short)
        self._passed[nodes.base_rows] = ~(mismatch | missing | conflict | short)
        return reject_together(
            (mismatch, _NODE_CONFLICT),
            (conflict, _BIND_CONFLICT),
            (short, _NOT_ENOUGH_SPACE),
            (missing, _PV_NOT_EXIST),
        )

    def pod_volumes(self, node_name: str) -> PodVolumes | None:
        """What is to be done on a node; None if it was turned down, or never looked at."""
        row = self._row_of.get(node_name)
        if row is None or not self._passed[row]:
            return None
        bindings = []
        provisions = []
        for wanted in self.wanted:
            match = int(wanted.matches[row])
            if match == NO_VOLUME:
                provisions.append(DynamicProvision(wanted.claim, wanted.capacity(row)))
            else:
                bindings.append(BindingInfo(wanted.claim, wanted.choice[match]))
        return PodVolumes(bindings or None, provisions)

    def _check_bound_claims(self, nodes: Nodes) -> tuple[BoolArray, BoolArray]:
        """Nodes that a bound volume cannot be reached from, and nodes with a volume missing.

        The first claim that fails a node says why.
        """
        undecided = np.ones(len(nodes), dtype=np.bool_)
        mismatch = ~undecided
        for claim in self._claims.bound_claims:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                return mismatch, undecided
            out_of_reach = undecided & ~self._reaching(volume, nodes, undecided)
            mismatch |= out_of_reach
            undecided &= ~out_of_reach
        return mismatch, np.zeros(len(nodes), dtype=np.bool_)

    def _reaching(self, volume: PersistentVolume, nodes: Nodes, asking: BoolArray) -> BoolArray:
        """Which nodes a volume can be reached from, maybe through the driver that took it over."""
        reaching = nodes_meeting(reach_of_affinity(volume.spec.node_affinity), nodes)
        plugin = in_tree_plugin(volume.spec)
        if plugin is None:
            return reaching
        csi_nodes = cast("Iterable[CSINode]", self._handle.lister("csinodes").list())
        names = [n.metadata.name for n in csi_nodes if plugin in migrated_plugins(n)]
        migrated = nodes.name_codes.isin(names)
        if not (migrated & asking).any():
            return reaching
        try:
            affinity = migrated_node_affinity(volume, plugin)
        except CsiTranslationError as error:
            raise CsiTranslationError(f"could not translate pv: {error}") from error
        translated = nodes_meeting(reach_of_affinity(affinity), nodes)
        return np.where(migrated, translated, reaching)

    def _find_volumes(self, nodes: Nodes, conflict: BoolArray, short: BoolArray) -> None:
        """Flag the nodes on which a claim can neither be bound nor have its volume made.

        Again the first claim that fails a node says why.
        """
        for claim in self._claims.unbound_claims_delay_binding:
            selected = claim.metadata.annotations.get(ANN_SELECTED_NODE)
            if selected is not None:
                conflict |= ~nodes.name_codes.isin((selected,))
        undecided = ~conflict
        if not undecided.any():
            return
        rows = nodes.base_rows
        for wanted, matches in zip(self._all_wanted(), self._match(nodes), strict=True):
            wanted.matches[rows] = matches
            to_make = undecided & (matches == NO_VOLUME)
            if not to_make.any():
                continue
            if wanted.provision is None:
                wanted.provision = Provision(wanted.claim, self._handle)
            room = wanted.provision.room(nodes)
            wanted.capacities[rows] = room.capacities
            conflict |= to_make & ~room.allowed
            short |= to_make & room.allowed & ~room.enough
            undecided &= ~(conflict | short)

    def _all_wanted(self) -> list[WantedVolume]:
        """The claims without a volume; sorted out once, when the first node gets that far."""
        if self._static is None:
            claims = self._claims.unbound_claims_delay_binding
            selected = [c for c in claims if ANN_SELECTED_NODE in c.metadata.annotations]
            looking = [c for c in claims if ANN_SELECTED_NODE not in c.metadata.annotations]
            volumes = self._claims.unbound_volumes_delay_binding
            self._static = static = StaticMatching(looking, volumes)
            total = len(self._passed)
            self.wanted = [WantedVolume(claim, (), total) for claim in selected]
            for index, claim in enumerate(static.claims):
                self.wanted.append(WantedVolume(claim, static.volumes_for(index), total))
        return self.wanted

    def _match(self, nodes: Nodes) -> list[IntArray]:
        """The volume that each of them gets; none where the node is selected for a new one."""
        assert self._static is not None, "claims are sorted out first"
        none = np.full(len(nodes), NO_VOLUME, dtype=np.int64)
        selected = len(self.wanted) - len(self._static.claims)
        return [*[none] * selected, *self._static.match(nodes)]
