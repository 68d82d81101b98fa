"""The hints of a plugin depend on nothing but `hints_depend_on`.

Pods with equal `hints_depend_on` must be answered alike by every hint of the plugin, whatever the
event, unless it is about one of them. Pods and events come from random clusters, each pod with
twins of another name, and all of them through an informer's transform.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.core import ObjectMeta, Pod
from scheduler.api.storage import PersistentVolumeClaim
from scheduler.assembly.part_sharing import PartSharing
from scheduler.assembly.profiles import build_profiles
from scheduler.client.kinds import KINDS
from scheduler.config import default_config
from scheduler.framework.events import EventResource
from scheduler.framework.interface import Plugin
from scheduler.plugins import SCHEME
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_pod
from scheduler.testing.doubles import FakeLister
from scheduler.testing.random_cluster import random_cluster

SEEDS = range(40)
#: Those whose hints ask about the very pod.
_ALONE = {"DynamicResources", "DefaultPreemption"}
_SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": keys,
    }
    for keys in ([], ["app"])
]
_VOLUMES = (
    [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}],
    [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
)


def _plugins() -> list[Plugin]:
    handle = FakeHandle(listers={plural: FakeLister() for plural in KINDS})
    (framework,) = build_profiles(default_config(SCHEME), handle.make).values()
    return [plugin for plugin, _ in framework.registered_events]


PLUGINS = _plugins()


def _waiting(seed: int) -> list[PodInfo]:
    """Pods that wait, most of them in twos that differ by name."""
    share = PartSharing()
    pods = [*random_cluster(seed).incoming]
    pods += [make_pod(f"s{i}", labels={"app": "web"}, spread=[s]) for i, s in enumerate(_SPREAD)]
    pods += [make_pod("t", labels={"app": "db"}, spread=[_SPREAD[1]])]
    pods += [make_pod(f"v{i}", volumes=v) for i, v in enumerate(_VOLUMES)]
    return [PodInfo(share(twin)) for pod in pods for twin in (pod, _twin(pod))]


def _twin(pod: Pod) -> Pod:
    name = f"{pod.metadata.name}-twin"
    return replace(pod, metadata=replace(pod.metadata, name=name, uid=f"uid-{name}"))


def _happenings(seed: int) -> Iterator[tuple[str, object, object]]:
    """The kind of object, and the object before and after."""
    cluster = random_cluster(seed + 1000)
    for node in cluster.nodes:
        yield EventResource.NODE, None, node
        yield EventResource.NODE, node, None
    for old, new in itertools.permutations(cluster.nodes[:4], 2):
        yield EventResource.NODE, old, replace(new, metadata=replace(new.metadata, name="same"))
    pods = list(cluster.running)
    for pod in pods:
        yield EventResource.POD, None, pod
        yield EventResource.POD, pod, None
    for old, new in itertools.permutations(pods[:4], 2):
        same = replace(new.metadata, name=old.metadata.name, uid=old.metadata.uid)
        yield EventResource.POD, old, replace(new, metadata=same)
    for name in ("claim", "v1-v"):
        claim = PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace="default"))
        yield EventResource.PERSISTENT_VOLUME_CLAIM, None, claim


def _answer(hint: Any, pod: PodInfo, old: object, new: object) -> str:
    try:
        return str(hint(pod, old, new))
    except Exception as error:  # noqa: BLE001 - an error is an answer too
        return repr(error)


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_pods_that_are_alike_are_answered_alike(plugin: Any) -> None:
    if not hasattr(plugin, "hints_depend_on"):
        assert plugin.name in _ALONE | {"NodeName"}
        return
    shared = 0
    for seed in SEEDS:
        alike = defaultdict(list)
        for pod in _waiting(seed):
            alike[plugin.hints_depend_on(pod)].append(pod)
        for event, hint in plugin.events_to_register():
            for resource, old, new in _happenings(seed) if hint is not None else ():
                if resource != event.resource:
                    continue
                for pods in alike.values():
                    assert len({_answer(hint, pod, old, new) for pod in pods}) == 1, pods
        shared += sum(len(pods) > 1 for pods in alike.values())
    assert shared


def test_pods_that_differ_in_relevant_fields_are_not_alike() -> None:
    by_name = {plugin.name: plugin for plugin in PLUGINS}
    pods = {pod.name: pod for pod in _waiting(0)}

    def alike(plugin: str, first: str, second: str) -> bool:
        asked: Any = by_name[plugin]
        same: bool = asked.hints_depend_on(pods[first]) == asked.hints_depend_on(pods[second])
        return same

    assert alike("PodTopologySpread", "s0", "s0-twin")
    assert not alike("PodTopologySpread", "s0", "s1")
    assert alike("PodTopologySpread", "s1", "s1-twin")
    assert not alike("PodTopologySpread", "s1", "t")
    assert alike("VolumeBinding", "v0", "v0-twin")
    assert not alike("VolumeBinding", "v1", "v1-twin")
