"""Find the volumes of a pod's claims on all nodes at once.

Nothing is bound or changed here; `VolumeBinder` does that for the chosen node.
Source: `FindPodVolumes` in `pkg/scheduler/framework/plugins/volumebinding/binder.go`, v1.36.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.api.storage import CSINode
from scheduler.api.volumes import ANN_SELECTED_NODE, claim_class, claim_key
from scheduler.framework.interface import Remedy
from scheduler.framework.status import reject_together, unresolvable
from scheduler.plugins._csi_translation import (
    CsiTranslationError,
    in_tree_plugin,
    migrated_node_affinity,
    migrated_plugins,
)
from scheduler.plugins.volume_binding.reachability import matching_nodes, terms_from_affinity
from scheduler.plugins.volume_binding.unbound_claims import (
    NO_CAPACITY,
    NO_VOLUME,
    ProvisionCheck,
    StaticMatcher,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scheduler.api.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
    from scheduler.framework.handle import Handle
    from scheduler.framework.status import Rejections
    from scheduler.plugins.volume_binding.assume_cache import AssumeCache
    from scheduler.snapshot.columns import BoolArray, IntArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes

#: The mask of a single node.
_ONE: Final = np.ones(1, dtype=np.bool_)

_NODE_CONFLICT: Final = unresolvable("node(s) didn't match PersistentVolume's node affinity")
_BIND_CONFLICT: Final = unresolvable("node(s) didn't find available persistent volumes to bind")
_NOT_ENOUGH_SPACE: Final = unresolvable("node(s) did not have enough free storage")
_PV_NOT_EXIST: Final = unresolvable(
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)


class PodVolumeClaims(NamedTuple):
    """A pod's claims by the way they are bound."""

    bound_claims: Sequence[PersistentVolumeClaim] = ()
    #: To be bound when the pod has a node.
    unbound_claims_delay_binding: Sequence[PersistentVolumeClaim] = ()
    #: To be bound by the volume controller, for which the pod waits.
    unbound_claims_immediate: Sequence[PersistentVolumeClaim] = ()
    #: The volumes of each class of `unbound_claims_delay_binding`.
    unbound_volumes_delay_binding: Mapping[str, Sequence[PersistentVolume]] = {}


@dataclass
class BindingInfo:
    """A claim and its future volume, as last written."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


class DynamicProvision(NamedTuple):
    """A claim whose volume is to be provisioned, and its storage pool, if known."""

    claim: PersistentVolumeClaim
    capacity: CSIStorageCapacity | None = None


@dataclass
class PodVolumes:
    """The bindings and provisions of a pod's claims on one node."""

    #: None if nothing has been assumed: then nothing is bound.
    static_bindings: list[BindingInfo] | None = None
    dynamic_provisions: Sequence[DynamicProvision] = ()


class UnboundClaim:
    """An unbound claim, and its volume or storage pool on each node of the snapshot."""

    def __init__(
        self, claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume], total: int
    ) -> None:
        self.claim: Final = claim
        #: The volumes that `matches` refers to.
        self.volumes: Final = volumes
        #: Index of the claim's volume by row, or `NO_VOLUME`.
        self.matches: Final = np.full(total, NO_VOLUME, dtype=np.int64)
        #: Index of the claim's storage pool by row, or `NO_CAPACITY`.
        self.capacities: Final = np.full(total, NO_CAPACITY, dtype=np.int64)
        self.provision: ProvisionCheck | None = None

    def capacity(self, row: int) -> CSIStorageCapacity | None:
        """Return the storage pool of the node in this row."""
        if self.provision is None:
            return None
        return self.provision.capacity(int(self.capacities[row]))


class PodVolumeSearch:
    """Find the nodes that can reach, or provision, all volumes of one pod.

    Filter is called with blocks of nodes; results are stored by row of the snapshot. `row_of` maps
    node names to rows, `total` is the number of rows.
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
        self._static: StaticMatcher | None = None
        #: Claims with a selected node first, then the others, smallest first.
        self.unbound_claims: list[UnboundClaim] = []

    def filter_nodes(self, nodes: Nodes) -> Rejections | None:
        """Reject nodes that cannot have all volumes, with all reasons.

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

    def remedies(self, node: NodeInfo) -> Iterator[Remedy]:
        """Yield which volume is elsewhere, and which class has none, for a rejected node."""
        for claim in self._claims.bound_claims:
            volume = self._volumes.get(claim.spec.volume_name)
            of = f"volume {claim.spec.volume_name} of claim {claim_key(claim)}"
            if volume is None:
                yield Remedy(f"{of} does not exist")
            elif not self._can_reach(volume, self._only(node), _ONE)[0]:
                terms = terms_from_affinity(volume.spec.node_affinity)
                where = " or ".join(" and ".join(r.text for r in term) for term in terms)
                yield Remedy(f"{of} is at {where or 'no node'}")
        for claim in self._claims.unbound_claims_delay_binding:
            selected = claim.metadata.annotations.get(ANN_SELECTED_NODE, node.name)
            if selected != node.name:
                yield Remedy(f"claim {claim_key(claim)} waits for its volume on node {selected}")
        for unbound in self.unbound_claims:
            yield from self._unbound_remedies(unbound, node)

    def _unbound_remedies(self, unbound: UnboundClaim, node: NodeInfo) -> Iterator[Remedy]:
        provision = unbound.provision
        if int(unbound.matches[node.base_row]) != NO_VOLUME or provision is None:
            return
        provisionable = provision.check(self._only(node))
        size = unbound.claim.spec.resources.requests.get("storage", "any size")
        of = f"class {claim_class(unbound.claim)} has no"
        for_claim = f"{size} for claim {claim_key(unbound.claim)}"
        if not provisionable.allowed[0]:
            yield Remedy(f"{of} free volume of {for_claim}, and provisions none here")
        elif not provisionable.enough[0]:
            yield Remedy(f"{of} storage left for {for_claim}")

    def _only(self, node: NodeInfo) -> Nodes:
        """Return a view of one node."""
        nodes = self._handle.snapshot.nodes
        return nodes.take(np.array([node.base_row]))

    def pod_volumes(self, node_name: str) -> PodVolumes | None:
        """Return the bindings and provisions for a node that passed the filter, else None."""
        row = self._row_of.get(node_name)
        if row is None or not self._passed[row]:
            return None
        bindings = []
        provisions = []
        for unbound in self.unbound_claims:
            match = int(unbound.matches[row])
            if match == NO_VOLUME:
                provisions.append(DynamicProvision(unbound.claim, unbound.capacity(row)))
            else:
                bindings.append(BindingInfo(unbound.claim, unbound.volumes[match]))
        return PodVolumes(bindings or None, provisions)

    def _check_bound_claims(self, nodes: Nodes) -> tuple[BoolArray, BoolArray]:
        """Return the nodes that cannot reach a bound volume, and nodes with a missing volume.

        The first claim that fails on a node determines the reason.
        """
        undecided = np.ones(len(nodes), dtype=np.bool_)
        mismatch = ~undecided
        for claim in self._claims.bound_claims:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                return mismatch, undecided
            out_of_reach = undecided & ~self._can_reach(volume, nodes, undecided)
            mismatch |= out_of_reach
            undecided &= ~out_of_reach
        return mismatch, np.zeros(len(nodes), dtype=np.bool_)

    def _can_reach(self, volume: PersistentVolume, nodes: Nodes, undecided: BoolArray) -> BoolArray:
        """Return the nodes that can reach the volume, by its CSI driver on migrated nodes.

        Only `undecided` nodes need be right.
        """
        reaching = matching_nodes(terms_from_affinity(volume.spec.node_affinity), nodes)
        plugin = in_tree_plugin(volume.spec)
        if plugin is None:
            return reaching
        csi_nodes = self._handle.lister(CSINode).list()
        names = [n.metadata.name for n in csi_nodes if plugin in migrated_plugins(n)]
        migrated = nodes.name_codes.isin(names)
        if not (migrated & undecided).any():
            return reaching
        try:
            affinity = migrated_node_affinity(volume, plugin)
        except CsiTranslationError as error:
            raise CsiTranslationError(f"could not translate pv: {error}") from error
        translated = matching_nodes(terms_from_affinity(affinity), nodes)
        return np.where(migrated, translated, reaching)

    def _find_volumes(self, nodes: Nodes, conflict: BoolArray, short: BoolArray) -> None:
        """Set `conflict` and `short` for nodes where a claim can be neither bound nor provisioned.

        The first claim that fails on a node determines the reason.
        """
        for claim in self._claims.unbound_claims_delay_binding:
            selected = claim.metadata.annotations.get(ANN_SELECTED_NODE)
            if selected is not None:
                conflict |= ~nodes.name_codes.isin((selected,))
        undecided = ~conflict
        if not undecided.any():
            return
        rows = nodes.base_rows
        for unbound, matches in zip(self._all_unbound_claims(), self._match(nodes), strict=True):
            unbound.matches[rows] = matches
            to_make = undecided & (matches == NO_VOLUME)
            if not to_make.any():
                continue
            if unbound.provision is None:
                unbound.provision = ProvisionCheck(unbound.claim, self._handle)
            provisionable = unbound.provision.check(nodes)
            unbound.capacities[rows] = provisionable.capacities
            conflict |= to_make & ~provisionable.allowed
            short |= to_make & provisionable.allowed & ~provisionable.enough
            undecided &= ~(conflict | short)

    def _all_unbound_claims(self) -> list[UnboundClaim]:
        """Return the unbound claims; they are sorted once, for the first undecided node."""
        if self._static is None:
            claims = self._claims.unbound_claims_delay_binding
            selected = [c for c in claims if ANN_SELECTED_NODE in c.metadata.annotations]
            looking = [c for c in claims if ANN_SELECTED_NODE not in c.metadata.annotations]
            volumes = self._claims.unbound_volumes_delay_binding
            self._static = static = StaticMatcher(looking, volumes)
            total = len(self._passed)
            self.unbound_claims = [UnboundClaim(claim, (), total) for claim in selected]
            for index, claim in enumerate(static.claims):
                self.unbound_claims.append(UnboundClaim(claim, static.volumes_for(index), total))
        return self.unbound_claims

    def _match(self, nodes: Nodes) -> list[IntArray]:
        """Return the matches of each unbound claim; none for claims with a selected node."""
        assert self._static is not None, "claims are sorted first"
        none = np.full(len(nodes), NO_VOLUME, dtype=np.int64)
        selected = len(self.unbound_claims) - len(self._static.claims)
        return [*[none] * selected, *self._static.match(nodes)]
