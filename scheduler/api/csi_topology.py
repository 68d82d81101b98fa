"""From where an in-tree volume can be reached on nodes where a CSI driver handles it.

In-tree plugins name zones by the nodes' own zone labels; their CSI drivers have labels of their own
for the same thing. Which plugins have moved is a node's own affair: its CSINode says so. Source:
csi-translation-lib `plugins/*.go`, as far as `tryTranslatePVToCSI` in volumebinding/binder.go goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.api.csi_migration import (
    AWS_EBS,
    AZURE_DISK,
    CINDER,
    GCE_PD,
    PORTWORX,
    handle_of_volume,
)
from scheduler.api.storage import VolumeNodeAffinity

if TYPE_CHECKING:
    from scheduler.api.storage import CSINode, PersistentVolume, PersistentVolumeSpec

#: On a CSINode: the in-tree plugins whose volumes a driver handles there, with commas between.
MIGRATED_PLUGINS_ANNOTATION: Final = "storage.alpha.kubernetes.io/migrated-plugins"

_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
_BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
_ZONES_DELIMITER: Final = "__"


#: Plugins whose drivers have a zone label of their own. The others' leave affinities alone.
_TOPOLOGY_KEYS: Final = {
    AWS_EBS: "topology.ebs.csi.aws.com/zone",
    GCE_PD: "topology.gke.io/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}


def in_tree_plugin(spec: PersistentVolumeSpec) -> str | None:
    """The in-tree plugin behind a volume, of those that can be handled by a driver on a node."""
    sources = (
        (spec.gce_persistent_disk, GCE_PD),
        (spec.aws_elastic_block_store, AWS_EBS),
        (spec.cinder, CINDER),
        (spec.azure_disk, AZURE_DISK),
        (spec.portworx_volume, PORTWORX),
    )
    return next((plugin for source, plugin in sources if source is not None), None)


def migrated_plugins(csi_node: CSINode) -> frozenset[str]:
    """The in-tree plugins whose volumes a driver handles on this node."""
    names = csi_node.metadata.annotations.get(MIGRATED_PLUGINS_ANNOTATION, "")
    return frozenset(names.split(",")) if names else frozenset()


def migrated_node_affinity(volume: PersistentVolume, plugin: str) -> VolumeNodeAffinity | None:
    """The affinity of an in-tree volume in its driver's words.

    Raises `CsiTranslationError` for a volume that no driver could handle.
    """
    handle_of_volume(volume)
    key = _TOPOLOGY_KEYS.get(plugin)
    if key is None:
        return volume.spec.node_affinity
    return _in_drivers_words(volume, key)


def _in_drivers_words(volume: PersistentVolume, key: str) -> VolumeNodeAffinity | None:
    """Source: `translateTopologyFromInTreeToCSI`."""
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    terms = required.node_selector_terms if required is not None else ()
    zone, region = _labels_in_use(terms, volume)
    if _has_values(terms, zone):
        terms = _renamed(terms, zone, key)
    else:
        label = volume.metadata.labels.get(zone)
        zones = {name.strip() for name in label.split(_ZONES_DELIMITER)} if label else set()
        zones.discard("")
        if zones:
            terms = _with_zones(terms, key, tuple(sorted(zones)))
    if region == _BETA_REGION and _has_values(terms, region):
        terms = _renamed(terms, region, _REGION)
    if required is None and not terms:
        return affinity
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))


def _labels_in_use(
    terms: tuple[NodeSelectorTerm, ...], volume: PersistentVolume
) -> tuple[str, str]:
    """The zone and region labels of this volume: the affinity says, or its own labels do."""
    in_terms = {e.key for term in terms for e in term.match_expressions}
    for keys in (in_terms, volume.metadata.labels):
        if _ZONE in keys:
            return _ZONE, _REGION
        if _BETA_ZONE in keys:
            return _BETA_ZONE, _BETA_REGION
    return _ZONE, _REGION


def _has_values(terms: tuple[NodeSelectorTerm, ...], key: str) -> bool:
    return any(e.key == key and e.values for term in terms for e in term.match_expressions)


def _renamed(
    terms: tuple[NodeSelectorTerm, ...], old: str, new: str
) -> tuple[NodeSelectorTerm, ...]:
    replace = msgspec.structs.replace
    return tuple(
        replace(
            term,
            match_expressions=tuple(
                replace(e, key=new) if e.key == old else e for e in term.match_expressions
            ),
        )
        for term in terms
    )


def _with_zones(
    terms: tuple[NodeSelectorTerm, ...], key: str, zones: tuple[str, ...]
) -> tuple[NodeSelectorTerm, ...]:
    zone = NodeSelectorRequirement(key=key, operator="In", values=zones)
    return tuple(
        msgspec.structs.replace(term, match_expressions=(*term.match_expressions, zone))
        for term in terms or (NodeSelectorTerm(),)
    )
