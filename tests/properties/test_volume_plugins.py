"""VolumeRestrictions, NodeVolumeLimits and VolumeZone keep nothing that is no longer true.

After all kinds of changes they answer as new plugins on a new snapshot do, and in worlds in which
pods come and go on one node as on a snapshot with these pods.
"""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.core import Node, Pod
from scheduler.cache import Cache
from scheduler.framework import CycleState, Status
from scheduler.plugins.node_volume_limits.csi import NodeVolumeLimits
from scheduler.plugins.node_volume_limits.csi_volumes import AttachableVolumeError
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volume_zone import VolumeZone
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing import make_pod, snapshot_of
from tests.plugins.running import verdict_of
from tests.plugins.volumes import ClusterObjects, handle_with, plugin_with
from tests.properties.volume_worlds import CLAIMS, DISKS, NODES, Maker

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

    def anew(self, pods: Iterable[Pod]) -> tuple[dict[type, Any], Snapshot]:
        """Return new plugins, and the new snapshot with these pods that they are for."""
        snapshot = snapshot_of(self.nodes, list(pods))
        handle = handle_with(ClusterObjects(*self.objects), snapshot=snapshot)
        return {kind: plugin_with(kind, handle) for kind in PLUGINS}, snapshot


def answers(plugin: Any, pod: Pod, snapshot: Snapshot) -> dict[str, Answer]:
    """Return the verdicts of a plugin for every node, each filtered on its own."""
    info, state, nodes = PodInfo(pod), CycleState(), snapshot.nodes
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


@given(worlds)
def test_after_any_changes_verdicts_are_those_of_new_plugins(rng: random.Random) -> None:
    world = World(rng)
    sources = [{"persistentVolumeClaim": {"claimName": name}} for name in CLAIMS] + list(DISKS)
    pods = [make_pod(volumes=[{"name": "v", **source}]) for source in sources]
    for _ in range(8):
        new, snapshot = world.anew(world.pods)
        for pod in (world.maker.pod(), world.maker.pod(), *pods):
            for kind, plugin in world.plugins.items():
                assert answers(plugin, pod, world.snapshot) == answers(new[kind], pod, snapshot)
        world.snapshot.volume_index.check()
        world.change()


@given(worlds)
def test_all_nodes_at_once_get_the_same_verdicts(rng: random.Random) -> None:
    world = World(rng)
    pod = PodInfo(world.maker.pod())
    for plugin in world.plugins.values():
        alone = answers(plugin, pod.pod, world.snapshot)
        if any(isinstance(answer, str) for answer in alone.values()):
            continue
        state, nodes = CycleState(), world.snapshot.nodes
        if plugin.pre_filter(state, pod, nodes) is None:
            together = plugin.filter_nodes(state, pod, nodes)
            statuses = [together.status(i) if together else None for i in range(len(nodes))]
            assert [verdict_of(status) for status in statuses] == [alone[n] for n in nodes.names]


@given(worlds)
def test_in_a_dry_run_volumes_are_counted_as_with_the_pods_that_each_node_would_have(
    rng: random.Random,
) -> None:
    world = World(rng)
    pod, nodes = PodInfo(world.maker.pod()), world.snapshot.nodes
    what_if = WhatIf(nodes)
    supposed: list[Pod] = []
    for row, name in enumerate(nodes.names):
        for there in [p for p in world.pods if p.spec.node_name == name]:
            if rng.random() < 0.5:
                what_if.remove_pod(row, there.metadata.uid)
            else:
                supposed.append(there)
        if rng.random() < 0.5:
            supposed.append(world.maker.pod(node=name))
            what_if.add_pod(row, PodInfo(supposed[-1]))
    plugin, state = world.plugins[NodeVolumeLimits], CycleState()
    if plugin.pre_filter(state, pod, nodes) is None:
        new, snapshot = world.anew(supposed)
        expected = answers(new[NodeVolumeLimits], pod.pod, snapshot)
        for row, name in enumerate(nodes.names):
            found = judged(plugin, state, pod, what_if.nodes.slice(row, row + 1))
            assert found == expected[name]
