"""VolumeBinding over all nodes at once agrees with its reference on each node in turn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.api.core import LabelSelector, Node, ObjectReference, OwnerReference, Pod
from scheduler.api.storage import (
    AWSElasticBlockStore,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeNodeAffinity,
)
from scheduler.framework import CycleState
from scheduler.plugins.volume_binding.binder import VolumeBinder
from scheduler.plugins.volume_binding.pod_volumes import PodVolumeSearch
from scheduler.plugins.volume_binding.volume_binding import VolumeBinding
from scheduler.snapshot import Nodes, PodInfo
from scheduler.testing import make_node, make_pod, snapshot_of
from tests.plugins.running import verdict_of
from tests.plugins.volumes import (
    HOSTNAME,
    ZONE,
    ClusterObjects,
    handle_with,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_pool,
    make_volume,
    plugin_with,
)
from tests.properties.strategies import repeatable
from tests.reference import volume_binding as reference
from tests.reference.volume_binding import CycleError, Decision, Skipped, Storage
from tests.thoroughness import examples

pytestmark = pytest.mark.slow

T = TypeVar("T")

NODES = ("node-0", "node-1", "node-2", "node-3", "node-4")
CLAIMS = ("claim-0", "claim-1", "claim-2", "pod-data")
CLASSES = ("wait", "make")
SIZES = ("512Mi", "1Gi", "1024Mi", "2Gi", "5Gi")
DRIVER = "disks.example.com"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
DELETED = datetime(2026, 1, 1, tzinfo=UTC)


def term(*expressions: tuple[str, str, tuple[str, ...]], fields: Any = ()) -> dict[str, Any]:
    keys = ("key", "operator", "values")
    return {
        "matchExpressions": [dict(zip(keys, e, strict=True)) for e in expressions],
        "matchFields": [dict(zip(keys, f, strict=True)) for f in fields],
    }


TERMS = [
    *(term((HOSTNAME, "In", (name,))) for name in NODES),
    *(term((HOSTNAME, "In", (name,))) for name in NODES),
    term((HOSTNAME, "In", NODES[:2])),
    term((ZONE, "In", ("a",))),
    term((ZONE, "In", ("b", "c"))),
    term((ZONE, "NotIn", ("a",))),
    term((OLD_ZONE, "In", ("a",)), ("failure-domain.beta.kubernetes.io/region", "In", ("r",))),
    term((ZONE, "Exists", ()), (HOSTNAME, "NotIn", NODES[:1])),
    term(fields=[("metadata.name", "NotIn", ("node-0",))]),
    term((ZONE, "In", ("a",)), fields=[("metadata.name", "In", ("node-0",))]),
    term((ZONE, "In", ())),
    term(),
]
SELECTORS: list[dict[str, object]] = [
    {"matchLabels": {"tier": "fast"}},
    {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["slow"]}]},
    {},
]
MALFORMED: dict[str, object] = {"matchExpressions": [{"key": "tier", "operator": "In"}]}
TOPOLOGIES: tuple[dict[str, tuple[str, ...]], ...] = (
    {ZONE: ("a",)},
    {ZONE: ("b",), HOSTNAME: NODES[:3]},
    {ZONE: ()},
    {},
)


class World(NamedTuple):
    nodes: tuple[Node, ...]
    pod: Pod
    storage: Storage


class Dice(random.Random):
    """Chance with a seed: Hypothesis's own choices are too alike for so many of them to meet."""

    def rarely(self) -> bool:
        return self.random() < 0.15

    def some(self, count: int, values: Sequence[T]) -> tuple[T, ...]:
        return tuple(self.choices(values, k=self.randint(0, count)))


def make_world(seed: int) -> World:
    dice = Dice(seed)
    named = dice.some(3, CLAIMS[:3]) or CLAIMS[:2]
    ephemeral = [{"name": "data", "ephemeral": {}}] if dice.rarely() else []
    wanted = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in named]
    missing = dice.choice(CLAIMS) if dice.rarely() else ""
    counted = dice.choice((True, True, None))
    return World(
        tuple(some_node(dice, name) for name in NODES[: dice.randint(1, 5)]),
        make_pod(volumes=[*wanted, *ephemeral] if dice.random() > 0.05 else []),
        Storage(
            claims=tuple(some_claim(dice, name) for name in CLAIMS if name != missing),
            volumes=tuple(some_volume(dice, f"pv-{i}") for i in range(dice.randint(0, 9))),
            classes=some_classes(dice),
            csi_nodes=tuple(
                make_csi_node(name, migrated=dice.choice(("", reference.EBS))) for name in NODES[:3]
            ),
            drivers=(make_driver(DRIVER, counts_storage=counted),) if not dice.rarely() else (),
            capacities=tuple(some_pool(dice, f"pool-{i}") for i in range(dice.randint(0, 4))),
        ),
    )


def some_node(dice: Dice, name: str) -> Node:
    labels = {ZONE: dice.choice("abc")} if dice.random() < 0.8 else {}
    if dice.rarely():
        labels["topology.ebs.csi.aws.com/zone"] = dice.choice("ab")
        labels["topology.kubernetes.io/region"] = "r"
    return make_node(name, labels=labels)


def some_claim(dice: Dice, name: str) -> PersistentVolumeClaim:
    kind = dice.choices(("delayed", "bound", "odd"), (7, 2, 1))[0]
    claim = make_claim(
        name,
        storage_class=dice.choice(CLASSES),
        size=dice.choice(SIZES),
        volume_name=dice.choice(("pv-0", "pv-1", "pv-2", "pv-9")) if kind == "bound" else "",
        selected_node=dice.choice(NODES) if dice.rarely() else None,
        selector=dice.choice(SELECTORS) if dice.rarely() else None,
        access_modes=dice.choice((("ReadWriteOnce",), ("ReadWriteMany",), ())),
    )
    if name == "pod-data" or dice.rarely():
        uid = dice.choice(("uid-default-pod", "uid-default-pod", "uid-other"))
        owners = (OwnerReference(uid="uid-some"), OwnerReference(uid=uid, controller=True))
        claim = replace(claim, metadata=replace(claim.metadata, owner_references=owners))
    return odd_claim(claim, dice.randrange(10)) if kind == "odd" else claim


def odd_claim(claim: PersistentVolumeClaim, way: int) -> PersistentVolumeClaim:
    metadata, spec = claim.metadata, claim.spec
    changes: list[PersistentVolumeClaim] = [
        replace(claim, metadata=replace(metadata, deletion_timestamp=DELETED)),
        replace(claim, status=replace(claim.status, phase="Lost")),
        replace(claim, spec=replace(spec, volume_name="pv-0")),
        replace(claim, spec=replace(spec, storage_class_name="now")),
        replace(claim, spec=replace(spec, storage_class_name="modeless")),
        replace(claim, spec=replace(spec, storage_class_name=None)),
        replace(claim, spec=replace(spec, volume_mode="Block")),
        replace(claim, spec=replace(spec, volume_attributes_class_name="gold")),
        replace(claim, spec=replace(spec, selector=msgspec.convert(MALFORMED, LabelSelector))),
        replace(claim, spec=replace(spec, resources=replace(spec.resources, requests={}))),
    ]
    return changes[way]


def some_volume(dice: Dice, name: str) -> PersistentVolume:
    volume = make_volume(
        name,
        storage_class=dice.choice(CLASSES),
        size=dice.choice(SIZES),
        phase=dice.choice(("Available", "Available", "Available", "Bound")),
        labels=dice.choice(({}, {"tier": "fast"}, {"tier": "slow"})),
        access_modes=dice.choice((("ReadWriteOnce", "ReadWriteMany"), ("ReadWriteOnce",))),
    )
    affinity = None
    if dice.random() < 0.8:
        terms = dice.choices(TERMS, k=dice.choice((0, 1, 1, 1, 1, 2)))
        affinity = msgspec.convert({"required": {"nodeSelectorTerms": terms}}, VolumeNodeAffinity)
    spec = replace(volume.spec, node_affinity=affinity)
    if dice.rarely():
        uid = dice.choice(("", "uid-claim-0", "uid-else"))
        kept_for = dice.choice(("claim-0", "claim-1"))
        spec = replace(spec, claim_ref=ObjectReference(name=kept_for, namespace="default", uid=uid))
    volume = replace(volume, spec=spec)
    return odd_volume(volume, dice.randrange(8)) if dice.rarely() else volume


def odd_volume(volume: PersistentVolume, way: int) -> PersistentVolume:
    metadata, spec = volume.metadata, volume.spec
    beta = {reference.BETA_CLASS: "make"}
    good, bad = (
        replace(spec, aws_elastic_block_store=AWSElasticBlockStore(volume_id=name))
        for name in ("vol-1", "aws://a/b")
    )
    changes: list[PersistentVolume] = [
        replace(volume, metadata=replace(metadata, deletion_timestamp=DELETED)),
        replace(volume, metadata=replace(metadata, annotations=beta)),
        replace(volume, spec=replace(spec, volume_mode="Block")),
        replace(volume, spec=replace(spec, volume_attributes_class_name="gold")),
        replace(volume, spec=good),
        replace(volume, spec=good, metadata=replace(metadata, labels={OLD_ZONE: "a__b"})),
        replace(volume, spec=good, metadata=replace(metadata, labels={ZONE: " b "})),
        replace(volume, spec=bad),
    ]
    return changes[way]


def some_pool(dice: Dice, name: str) -> CSIStorageCapacity:
    selectors: tuple[dict[str, object], ...] = (
        {"matchLabels": {HOSTNAME: dice.choice(NODES)}},
        {"matchLabels": {ZONE: "a"}},
        {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["a"]}]},
        {},
        MALFORMED,
    )
    pool = make_pool(
        name,
        storage_class=dice.choice(CLASSES),
        capacity=dice.choice((None, *SIZES)),
        largest=dice.choice(SIZES) if dice.rarely() else None,
        nodes=dice.choice(selectors),
    )
    return replace(pool, node_topology=None) if dice.rarely() else pool


def some_classes(dice: Dice) -> tuple[StorageClass, ...]:
    return (
        make_class(
            "make",
            provisioner=dice.choice((DRIVER, DRIVER, "other.example.com", "")),
            topologies=dice.some(2, TOPOLOGIES),
        ),
        make_class("wait"),
        make_class("now", mode="Immediate"),
        make_class("modeless", mode=None),
    )


worlds = st.integers(0, 2**32).map(make_world)
many = settings(repeatable, max_examples=examples(400))


def objects_of(world: World) -> ClusterObjects:
    return ClusterObjects(*(obj for kind in world.storage for obj in kind))


def expected(world: World, view: Nodes) -> dict[str, Decision] | type[Exception]:
    by_name = {node.metadata.name: node for node in world.nodes}
    try:
        return {
            name: reference.decide(world.pod, by_name[name], world.storage) for name in view.names
        }
    except (CycleError, Skipped) as failure:
        return type(failure)


@many
@given(worlds, st.integers(0, 5))
def test_verdicts_are_the_references(world: World, cut: int) -> None:
    plugin = plugin_with(VolumeBinding, handle_with(objects_of(world)))
    state, pod, every_node = CycleState(), PodInfo(world.pod), snapshot_of(world.nodes).nodes
    try:
        status = plugin.pre_filter(state, pod, every_node)
    except Exception:
        assert expected(world, every_node) is CycleError
        return
    if status is not None and status.is_skip:
        assert expected(world, every_node) is Skipped
        return
    for view in (every_node.slice(0, cut), every_node.slice(min(cut, len(world.nodes)), 5)):
        if not len(view):
            continue
        decisions = expected(world, view)
        if status is not None:
            assert isinstance(decisions, dict)
            assert {d.verdict for d in decisions.values()} == {verdict_of(status)}
            continue
        if not isinstance(decisions, dict):
            with pytest.raises(Exception, match=r"."):
                plugin.filter_nodes(state, pod, view)
            continue
        rejections = plugin.filter_nodes(state, pod, view)
        found = [verdict_of(rejections.status(i)) if rejections else None for i in range(len(view))]
        assert found == [decisions[name].verdict for name in view.names]


@many
@given(worlds)
def test_the_volumes_for_each_node_are_the_ones_of_the_reference(world: World) -> None:
    view = snapshot_of(world.nodes).nodes
    decisions = expected(world, view)
    if not isinstance(decisions, dict) or reference.pre_filter(world.pod, world.storage)[0]:
        return
    handle = handle_with(objects_of(world))
    binder = VolumeBinder(handle, bind_timeout_seconds=1)
    search = PodVolumeSearch(
        binder.pod_volume_claims(world.pod),
        handle=handle,
        volumes=binder.volumes,
        row_of=view.table.row_of,
        total=len(view),
    )
    assert search.pod_volumes(NODES[0]) is None
    search.filter_nodes(view)
    for name, decision in decisions.items():
        found = search.pod_volumes(name)
        if decision.verdict is not None:
            assert found is None
            continue
        assert found is not None
        bindings = found.static_bindings or ()
        bound = [(b.claim.metadata.name, b.volume.metadata.name) for b in bindings]
        made = [p.claim.metadata.name for p in found.dynamic_provisions]
        assert (tuple(bound), tuple(made)) == (decision.bindings, decision.provisions)
