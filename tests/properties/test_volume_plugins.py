"""VolumeRestrictions, NodeVolumeLimits and VolumeZone agree with their references.

In the snapshot, in worlds in which pods come and go on one node, and after all kinds of changes.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.core import Node, Pod
from scheduler.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.cache import Cache
from scheduler.framework import CycleState, Status
from scheduler.plugins.node_volume_limits.csi import NodeVolumeLimits
from scheduler.plugins.node_volume_limits.csi_volumes import AttachableVolumeError
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volume_zone import VolumeZone
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing import make_pod
from tests.plugins.running import verdict_of
from tests.plugins.volumes import ClusterObjects, handle_with, plugin_with
from tests.properties.strategies import repeatable
from tests.properties.volume_worlds import CLAIMS, DISKS, NODES, Maker
from tests.reference import node_volume_limits, volume_restrictions, volume_zone
from tests.reference.cluster import Cluster, Verdict
from tests.reference.volume_objects import VolumeObjects

pytestmark = pytest.mark.slow

PLUGINS = (VolumeRestrictions, NodeVolumeLimits, VolumeZone)

#: Seeds: what Hypothesis draws itself, one choice after another, is mostly the first of everything.
worlds = st.integers(0, 2**32).map(random.Random)

#: A verdict, or the text of an error.
Answer = Any


class World:
    """Nodes with pods, objects, and plugins that are kept for the whole history."""

    def __init__(self, rng: random.Random) -> None:
        self.maker = maker = Maker(rng)
        self.nodes = [maker.node(name) for name in NODES]
        self.pods = [maker.pod(node=n) for n in NODES for _ in range(rng.randint(0, 3))]
        self.objects: list[Any] = [
            *maker.claims(),
            *maker.volumes(),
            *maker.classes(),
            *maker.csi_nodes(),
            *maker.attachments(),
        ]
        self.listed = ClusterObjects(*self.objects)
        self.cache = Cache()
        self.snapshot = Snapshot()
        for node in self.nodes:
            self.cache.add_node(node)
        for pod in self.pods:
            self.cache.add_pod(PodInfo(pod))
        self.cache.update_snapshot(self.snapshot)
        handle = handle_with(self.listed, snapshot=self.snapshot)
        self.plugins = {kind: plugin_with(kind, handle) for kind in PLUGINS}

    def change(self) -> None:
        """Make one random change."""
        rng, maker = self.maker.rng, self.maker
        what = rng.randrange(7)
        if what == 0 and self.pods:
            pod = self.pods.pop(rng.randrange(len(self.pods)))
            self.cache.remove_pod(pod)
        elif what == 1:
            pod = maker.pod(node=rng.choice(self.nodes).metadata.name)
            self.pods.append(pod)
            self.cache.add_pod(PodInfo(pod))
        elif what == 2:
            self._exchange_nodes()
        elif what == 3:
            obj = maker.one_of(self.objects)
            self.objects.remove(obj)
            self.listed.remove(obj)
        elif what == 4:
            self._replace(maker.attachment(f"a{rng.randrange(12)}"))
        else:
            self._replace(maker.another(self.objects))
        self.cache.update_snapshot(self.snapshot)

    def _exchange_nodes(self) -> None:
        """Remove some nodes, and add removed ones again, maybe in other rows."""
        rng = self.maker.rng
        gone = [name for name in NODES if name not in {n.metadata.name for n in self.nodes}]
        for node in rng.sample(self.nodes, rng.randint(0, len(self.nodes) - 1)):
            self._remove_node(node)
        for name in rng.sample(gone, rng.randint(0, len(gone))):
            self.nodes.append(self.maker.node(name))
            self.cache.add_node(self.nodes[-1])

    def _replace(self, new: Any) -> None:
        def key(obj: Any) -> tuple[type, str, str]:
            return type(obj), obj.metadata.namespace, obj.metadata.name

        self.objects = [obj for obj in self.objects if key(obj) != key(new)] + [new]
        self.listed.put(new)

    def _remove_node(self, node: Node) -> None:
        self.nodes.remove(node)
        for pod in [pod for pod in self.pods if pod.spec.node_name == node.metadata.name]:
            self.pods.remove(pod)
            self.cache.remove_pod(pod)
        self.cache.remove_node(node)

    @property
    def volume_objects(self) -> VolumeObjects:
        def of(kind: type) -> tuple[Any, ...]:
            return tuple(obj for obj in self.objects if isinstance(obj, kind))

        kinds = (PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, VolumeAttachment)
        return VolumeObjects(*map(of, kinds))

    @property
    def cluster(self) -> Cluster:
        return Cluster(tuple(self.nodes), tuple(self.pods))


def answers(plugin: Any, pod: Pod, world: World) -> dict[str, Answer]:
    """Return the verdicts of a plugin for every node, each filtered on its own."""
    info, state, nodes = PodInfo(pod), CycleState(), world.snapshot.nodes
    answer = plugin.pre_filter(state, info, nodes)
    if isinstance(answer, Status):
        return dict.fromkeys(nodes.names, None if answer.is_skip else verdict_of(answer))
    return {
        node: judged(plugin, state, info, nodes.slice(i, i + 1))
        for i, node in enumerate(nodes.names)
    }


def judged(plugin: Any, state: CycleState, pod: PodInfo, node: Any) -> Answer:
    try:
        rejections = plugin.filter_nodes(state, pod, node)
    except AttachableVolumeError as error:
        return str(error)
    return verdict_of(rejections.status(0)) if rejections is not None else None


def expected(pod: Pod, world: World) -> dict[type, dict[str, Answer]]:
    cluster, objects = world.cluster, world.volume_objects
    in_use = volume_restrictions.pre_filter(pod, cluster, objects)

    def restrictions(node: Node) -> Verdict | None:
        if not isinstance(in_use, int):
            return in_use
        return volume_restrictions.filter_node(pod, node, cluster, in_use)

    def limits(node: Node) -> Answer:
        return limits_of(pod, node, cluster, objects)

    def zone(node: Node) -> Verdict | None:
        return volume_zone.filter_node(pod, node, objects)

    rules = zip(PLUGINS, (restrictions, limits, zone), strict=True)
    return {kind: {n.metadata.name: rule(n) for n in cluster.nodes} for kind, rule in rules}


def limits_of(pod: Pod, node: Node, cluster: Cluster, objects: VolumeObjects) -> Answer:
    try:
        return node_volume_limits.filter_node(pod, node, cluster, objects)
    except node_volume_limits.CycleError as error:
        return str(error)


@repeatable
@given(worlds)
def test_each_node_gets_its_verdict_after_any_changes(rng: random.Random) -> None:
    world = World(rng)
    for _ in range(8):
        pod = world.maker.pod()
        found = {kind: answers(plugin, pod, world) for kind, plugin in world.plugins.items()}
        assert found == expected(pod, world)
        world.snapshot.volume_index.check()
        world.change()


@repeatable
@given(worlds)
def test_attached_volumes_are_counted_right_after_any_changes(rng: random.Random) -> None:
    world = World(rng)
    sources = [{"persistentVolumeClaim": {"claimName": name}} for name in CLAIMS] + list(DISKS)
    pods = [make_pod(volumes=[{"name": "v", **source}]) for source in sources]
    plugin = world.plugins[NodeVolumeLimits]
    for _ in range(6):
        cluster, objects = world.cluster, world.volume_objects
        for pod in pods:
            found = answers(plugin, pod, world)
            assert found == {
                node.metadata.name: limits_of(pod, node, cluster, objects) for node in world.nodes
            }
        world.change()


@repeatable
@given(worlds)
def test_all_nodes_at_once_get_the_same_verdicts(rng: random.Random) -> None:
    world = World(rng)
    pod = PodInfo(world.maker.pod())
    for plugin in world.plugins.values():
        alone = answers(plugin, pod.pod, world)
        if any(isinstance(answer, str) for answer in alone.values()):
            continue
        state, nodes = CycleState(), world.snapshot.nodes
        if plugin.pre_filter(state, pod, nodes) is None:
            together = plugin.filter_nodes(state, pod, nodes)
            statuses = [together.status(i) if together else None for i in range(len(nodes))]
            assert [verdict_of(status) for status in statuses] == [alone[n] for n in nodes.names]


@repeatable
@given(worlds)
def test_in_a_dry_run_each_node_is_judged_with_the_pods_it_would_have(rng: random.Random) -> None:
    world = World(rng)
    pod = PodInfo(world.maker.pod())
    nodes = world.snapshot.nodes
    what_if = WhatIf(nodes)
    pods = {name: [p for p in world.pods if p.spec.node_name == name] for name in nodes.names}
    changes = []
    for row, name in enumerate(nodes.names):
        for gone in [p for p in pods[name] if rng.random() < 0.5]:
            pods[name].remove(gone)
            what_if.remove_pod(row, gone.metadata.uid)
            changes.append((row, gone, -1))
        if rng.random() < 0.5:
            come = world.maker.pod(node=name)
            pods[name].append(come)
            what_if.add_pod(row, PodInfo(come))
            changes.append((row, come, 1))
    for kind, plugin in world.plugins.items():
        state = CycleState()
        if plugin.pre_filter(state, pod, nodes) is not None:
            continue
        supposed = state.clone()
        for row, other, sign in changes:
            if hasattr(plugin, "add_pod"):
                change = plugin.add_pod if sign > 0 else plugin.remove_pod
                change(supposed, pod, PodInfo(other), what_if.node(row))
        for row, node in enumerate(world.snapshot.nodes):
            found = judged(plugin, supposed, pod, what_if.nodes.slice(row, row + 1))
            others = [(other, sign) for r, other, sign in changes if r == row]
            assert found == supposed_verdict(kind, pod.pod, node.node, world, pods, others)


def supposed_verdict(
    kind: type,
    pod: Pod,
    node: Node,
    world: World,
    pods: dict[str, list[Pod]],
    changes: list[tuple[Pod, int]],
) -> Answer:
    objects, name = world.volume_objects, node.metadata.name
    elsewhere = [p for p in world.pods if p.spec.node_name != name]
    cluster = Cluster(tuple(world.nodes), (*elsewhere, *pods[name]))
    if kind is VolumeZone:
        return volume_zone.filter_node(pod, node, objects)
    if kind is NodeVolumeLimits:
        return limits_of(pod, node, cluster, objects)
    in_use = volume_restrictions.pre_filter(pod, world.cluster, objects)
    assert isinstance(in_use, int)
    in_use += sum(sign * volume_restrictions.users(pod, other, objects) for other, sign in changes)
    return volume_restrictions.filter_node(pod, node, cluster, in_use)
