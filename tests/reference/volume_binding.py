"""VolumeBinding: `volumebinding/{volume_binding,binder}.go`, component-helpers `storage/volume`.

One node after the other, one volume after the other, as the Go code does it. Of volumes of the same
size, which Go takes in the order of a map, the first by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple, Protocol, TypeVar

from scheduler.api.core import (
    LabelSelector,
    Node,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    Quantities,
)
from scheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from tests.reference.cluster import UNRESOLVABLE, Verdict
from tests.reference.node_affinity import term_holds
from tests.reference.pod_requests import amount

T = TypeVar("T", bound="Named")
SortedOut = dict[str, list["PersistentVolumeClaim"]]

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
EBS, EBS_ZONE = "kubernetes.io/aws-ebs", "topology.ebs.csi.aws.com/zone"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
PV_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class CycleError(Exception):
    """The cycle fails: upstream's status Error."""


class Skipped(Exception):
    """The pod has no claims."""


class Named(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


class Storage(NamedTuple):
    """All objects that matter beside pods and nodes."""

    claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    classes: tuple[StorageClass, ...] = ()
    csi_nodes: tuple[CSINode, ...] = ()
    drivers: tuple[CSIDriver, ...] = ()
    capacities: tuple[CSIStorageCapacity, ...] = ()


class Decision(NamedTuple):
    """The claims of a pod on a node: pairs of claim and volume, claims that get a new volume."""

    verdict: Verdict | None
    bindings: tuple[tuple[str, str], ...] = ()
    provisions: tuple[str, ...] = ()


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    if BETA_CLASS in claim.metadata.annotations:
        return claim.metadata.annotations[BETA_CLASS]
    return claim.spec.storage_class_name or ""


def class_of_volume(volume: PersistentVolume) -> str:
    if BETA_CLASS in volume.metadata.annotations:
        return volume.metadata.annotations[BETA_CLASS]
    return volume.spec.storage_class_name


def find(objects: tuple[T, ...], name: str, namespace: str = "") -> T | None:
    for obj in objects:
        if (obj.metadata.name, obj.metadata.namespace) == (name, namespace):
            return obj
    return None


def size(quantities: Quantities) -> Fraction:
    return amount(quantities.get("storage", 0))


def selector_holds(selector: LabelSelector, labels: Mapping[str, str]) -> bool | None:
    """None for a selector that cannot be read."""
    for expression in selector.match_expressions:
        wants_values = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
        if wants_values.get(expression.operator) != bool(expression.values):
            return None
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for expression in selector.match_expressions:
        value = labels.get(expression.key)
        holds = {
            "In": value in expression.values,
            "NotIn": value not in expression.values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not holds[expression.operator]:
            return False
    return True


def terms_of(volume: PersistentVolume) -> tuple[NodeSelectorTerm, ...] | None:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    return affinity.required.node_selector_terms


def keys_in(terms: tuple[NodeSelectorTerm, ...]) -> set[str]:
    return {e.key for term in terms for e in term.match_expressions}


def translated(volume: PersistentVolume) -> tuple[NodeSelectorTerm, ...] | None:
    """The terms of an EBS volume as its CSI driver has them."""
    assert volume.spec.aws_elastic_block_store is not None
    volume_id = volume.spec.aws_elastic_block_store.volume_id
    if volume_id.startswith("aws://") and not volume_id.rpartition("/")[2].startswith("vol-"):
        raise CycleError(f"invalid volume {volume_id}")
    terms, labels = terms_of(volume) or (), volume.metadata.labels
    zone, region = ZONE, REGION
    if ZONE not in keys_in(terms) and (
        BETA_ZONE in keys_in(terms) or (ZONE not in labels and BETA_ZONE in labels)
    ):
        zone, region = BETA_ZONE, BETA_REGION
    renames = {}
    if any(e.key == zone and e.values for t in terms for e in t.match_expressions):
        renames[zone] = EBS_ZONE
    elif [z for z in labels.get(zone, "").split("__") if z.strip()]:
        zones = tuple({z.strip() for z in labels[zone].split("__") if z.strip()})
        added = NodeSelectorRequirement(key=EBS_ZONE, operator="In", values=zones)
        terms = tuple(
            NodeSelectorTerm((*t.match_expressions, added), t.match_fields)
            for t in terms or (NodeSelectorTerm(),)
        )
    has_regions = any(e.key == region and e.values for t in terms for e in t.match_expressions)
    if region == BETA_REGION and has_regions:
        renames[BETA_REGION] = REGION
    if not terms and terms_of(volume) is None:
        return None
    return tuple(
        NodeSelectorTerm(
            tuple(
                NodeSelectorRequirement(renames.get(e.key, e.key), e.operator, e.values)
                for e in t.match_expressions
            ),
            t.match_fields,
        )
        for t in terms
    )


def reaches(terms: tuple[NodeSelectorTerm, ...] | None, node: Node) -> bool:
    nameless = Node(metadata=ObjectMeta(labels=node.metadata.labels))
    return terms is None or any(term_holds(term, nameless) for term in terms)


def pre_filter(pod: Pod, storage: Storage) -> tuple[Verdict | None, SortedOut]:
    """Return a verdict on the pod, or its claims by the way in which they are bound."""
    namespace = pod.metadata.namespace
    claims = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            name, is_ephemeral = volume.persistent_volume_claim.claim_name, False
        elif volume.ephemeral is not None:
            name, is_ephemeral = f"{pod.metadata.name}-{volume.name}", True
        else:
            continue
        claim = find(storage.claims, name, namespace)
        trouble = trouble_with(claim, name, pod, is_ephemeral)
        if trouble or claim is None:
            return (UNRESOLVABLE, (trouble or "",)), {}
        claims.append(claim)
    if not claims:
        raise Skipped
    sorted_out: SortedOut = {"bound": [], "delayed": [], "immediate": []}
    for claim in claims:
        sorted_out[state_of(claim, storage)].append(claim)
    if sorted_out["immediate"]:
        reason = "pod has unbound immediate PersistentVolumeClaims"
        return (UNRESOLVABLE, (reason,)), {}
    return None, sorted_out


def trouble_with(
    claim: PersistentVolumeClaim | None, name: str, pod: Pod, is_ephemeral: bool
) -> str | None:
    if claim is None:
        waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
        text = f'persistentvolumeclaim "{name}" not found'
        return f'{waiting} "{name}"' if is_ephemeral else text
    if claim.status.phase == "Lost":
        gone = claim.spec.volume_name
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{gone}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    controllers = [ref.uid for ref in claim.metadata.owner_references if ref.controller]
    if is_ephemeral and controllers[:1] != [pod.metadata.uid]:
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        return f"PVC {key} was not created for pod {pod.key} (pod is not owner)"
    return None


def state_of(claim: PersistentVolumeClaim, storage: Storage) -> str:
    if claim.spec.volume_name and "pv.kubernetes.io/bind-completed" in claim.metadata.annotations:
        return "bound"
    found = find(storage.classes, class_of_claim(claim)) if class_of_claim(claim) else None
    if found is None:
        return "immediate"
    if found.volume_binding_mode is None:
        raise CycleError(f'VolumeBindingMode not set for StorageClass "{found.metadata.name}"')
    waits = found.volume_binding_mode == "WaitForFirstConsumer" and not claim.spec.volume_name
    return "delayed" if waits else "immediate"


def decide(pod: Pod, node: Node, storage: Storage) -> Decision:
    """Return the verdict of Filter on a node, and what Reserve would bind and provision there."""
    verdict, claims = pre_filter(pod, storage)
    if verdict is not None:
        return Decision(verdict)
    reasons = set(check_bound(claims["bound"], node, storage))
    bindings: list[tuple[PersistentVolumeClaim, PersistentVolume]] = []
    to_make: list[PersistentVolumeClaim] = []
    to_match: list[PersistentVolumeClaim] = []
    for claim in claims["delayed"]:
        selected = claim.metadata.annotations.get(SELECTED_NODE)
        if selected is not None and selected != node.metadata.name:
            reasons.add(BIND_CONFLICT)
            break
        (to_match if selected is None else to_make).append(claim)
    else:
        taken: set[str] = set()
        for claim in sorted(to_match, key=lambda c: size(c.spec.resources.requests)):
            volume = find_matching_volume(claim, node, storage, taken)
            if volume is None:
                to_make.append(claim)
            else:
                taken.add(volume.metadata.name)
                bindings.append((claim, volume))
        reasons |= check_provisions(to_make, node, storage)
    if reasons:
        order = (NODE_CONFLICT, BIND_CONFLICT, NO_SPACE, PV_MISSING)
        return Decision((UNRESOLVABLE, tuple(r for r in order if r in reasons)))
    return Decision(
        None,
        tuple((c.metadata.name, v.metadata.name) for c, v in bindings),
        tuple(claim.metadata.name for claim in to_make),
    )


def check_bound(claims: list[PersistentVolumeClaim], node: Node, storage: Storage) -> list[str]:
    csi_node = find(storage.csi_nodes, node.metadata.name)
    migrated = csi_node.metadata.annotations.get(MIGRATED, "").split(",") if csi_node else []
    for claim in claims:
        volume = find(storage.volumes, claim.spec.volume_name)
        if volume is None:
            return [PV_MISSING]
        terms = terms_of(volume)
        if volume.spec.aws_elastic_block_store is not None and EBS in migrated:
            terms = translated(volume)
        if not reaches(terms, node):
            return [NODE_CONFLICT]
    return []


def find_matching_volume(
    claim: PersistentVolumeClaim, node: Node, storage: Storage, taken: set[str]
) -> PersistentVolume | None:
    selector = claim.spec.selector
    if selector is not None and selector_holds(selector, {}) is None:
        raise CycleError("selector")
    wanted = size(claim.spec.resources.requests)
    best = None
    for volume in sorted(storage.volumes, key=lambda v: v.metadata.name):
        spec, reference = volume.spec, volume.spec.claim_ref
        if class_of_volume(volume) != class_of_claim(claim) or volume.metadata.name in taken:
            continue
        is_ours = reference is not None and (
            (reference.name, reference.namespace) == (claim.metadata.name, claim.metadata.namespace)
            and reference.uid in ("", claim.metadata.uid)
        )
        if reference is not None and not is_ours:
            continue
        if size(spec.capacity) < wanted or volume.metadata.deletion_timestamp is not None:
            continue
        if (spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem"):
            continue
        attributes = claim.spec.volume_attributes_class_name or ""
        if (spec.volume_attributes_class_name or "") != attributes:
            continue
        within_reach = reaches(terms_of(volume), node)
        if is_ours:
            return volume if within_reach else None
        if volume.status.phase != "Available" or not within_reach:
            continue
        if selector is not None and not selector_holds(selector, volume.metadata.labels):
            continue
        if not set(claim.spec.access_modes) <= set(spec.access_modes):
            continue
        if best is None or size(spec.capacity) < size(best.spec.capacity):
            best = volume
    return best


def check_provisions(claims: list[PersistentVolumeClaim], node: Node, storage: Storage) -> set[str]:
    for claim in claims:
        storage_class = find(storage.classes, class_of_claim(claim))
        if storage_class is None:
            raise CycleError("class")
        if storage_class.provisioner in ("", "kubernetes.io/no-provisioner"):
            return {BIND_CONFLICT}
        if storage_class.allowed_topologies and not any(
            term.match_label_expressions
            and all(e.values for e in term.match_label_expressions)
            and all(
                node.metadata.labels.get(e.key) in e.values for e in term.match_label_expressions
            )
            for term in storage_class.allowed_topologies
        ):
            return {BIND_CONFLICT}
        if not has_room(claim, storage_class, node, storage):
            return {NO_SPACE}
    return set()


def has_room(
    claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node, storage: Storage
) -> bool:
    driver = find(storage.drivers, storage_class.provisioner)
    counted = driver is not None and driver.spec.storage_capacity
    if "storage" not in claim.spec.resources.requests or not counted:
        return True
    for pool in storage.capacities:
        limit = pool.capacity if pool.maximum_volume_size is None else pool.maximum_volume_size
        if (
            pool.storage_class_name == storage_class.metadata.name
            and limit is not None
            and -(-amount(limit) // 1) >= -(-size(claim.spec.resources.requests) // 1)
            and pool.node_topology is not None
            and selector_holds(pool.node_topology, node.metadata.labels)
        ):
            return True
    return False
