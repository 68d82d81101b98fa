"""VolumeRestrictions: cases that upstream's tables (`tests/upstream`) do not have."""

from typing import Any

import pytest

from scheduler.api.core import Pod
from scheduler.framework import CycleState, Status
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.snapshot import PodInfo
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing import make_node, make_pod, snapshot_of
from tests.plugins.running import UNSCHEDULABLE, rejected
from tests.plugins.volumes import (
    ClusterObjects,
    handle_with,
    make_claim,
    plugin_with,
    pod_with_claims,
)

NO_DISK = (UNSCHEDULABLE, ("node(s) had no available disk",))
IN_USE = (
    UNSCHEDULABLE,
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod",
    ),
)
NODES = [make_node("a"), make_node("b")]


def once(name: str = "claim") -> Any:
    return make_claim(name, access_modes=("ReadWriteOncePod",))


def pod_with(*sources: dict[str, Any], name: str = "pod", **more: Any) -> Pod:
    volumes = [{"name": f"v{n}", **source} for n, source in enumerate(sources)]
    return make_pod(name, volumes=volumes, **more)


def claim_source(name: str = "claim") -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name}}


def gce(*, read_only: bool = False) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": "disk", "readOnly": read_only}}


def plugin_in(pods: list[Pod], *objects: Any) -> Any:
    handle = handle_with(ClusterObjects(*objects), snapshot=snapshot_of(NODES, pods))
    return plugin_with(VolumeRestrictions, handle)


def judged(plugin: Any, pod: Pod) -> dict[str, Any]:
    return rejected(plugin, pod, plugin.handle.snapshot)


def test_a_disk_is_looked_for_in_every_pod_and_volume() -> None:
    others = [
        pod_with({"emptyDir": {}}, gce(), name="one", node_name="b"),
        pod_with(gce(read_only=True), name="two", node_name="b"),
    ]
    assert judged(plugin_in(others), pod_with(claim_less(), gce(read_only=True))) == {"b": NO_DISK}


def claim_less() -> dict[str, Any]:
    return {"configMap": {"name": "c"}}


def test_a_disk_is_named_before_a_claim() -> None:
    others = [
        pod_with(gce(), name="one", node_name="a"),
        pod_with(claim_source(), name="two", node_name="b"),
    ]
    plugin = plugin_in(others, once())
    assert judged(plugin, pod_with(gce(), claim_source())) == {"a": NO_DISK, "b": IN_USE}


def dry_run(plugin: Any, pod: Pod, gone: Pod, *, row: int) -> list[bool]:
    """Return for each node if it accepts the pod when another pod is removed from `row`."""
    info, state, nodes = PodInfo(pod), CycleState(), plugin.handle.snapshot.nodes
    assert not isinstance(plugin.pre_filter(state, info, nodes), Status)
    what_if, supposed = WhatIf(nodes), state.clone()
    what_if.remove_pod(row, gone.metadata.uid)
    plugin.remove_pod(supposed, info, PodInfo(gone), what_if.node(row))
    rejections = plugin.filter_nodes(supposed, info, what_if.nodes)
    fits = [rejections is None or bool(p) for p in (rejections.passed if rejections else [1, 1])]
    assert judged(plugin, pod), "the real state has changed"
    return fits


def test_a_claim_is_free_where_its_user_is_removed() -> None:
    other = pod_with(claim_source(), name="other", node_name="b")
    plugin = plugin_in([other], once())
    assert dry_run(plugin, pod_with_claims("claim"), other, row=1) == [False, True]


def test_a_disk_is_free_where_its_user_is_removed() -> None:
    other = pod_with(gce(), name="other", node_name="b")
    assert dry_run(plugin_in([other]), pod_with(gce()), other, row=1) == [True, True]


def test_in_a_dry_run_claims_of_other_namespaces_with_the_same_name_count() -> None:
    """As upstream: `conflictingPVCRefCountForPod` does not compare namespaces."""
    user = pod_with(claim_source(), name="user", node_name="a")
    stranger = pod_with(claim_source(), name="stranger", node_name="b", namespace="elsewhere")
    plugin = plugin_in([user, stranger], once())
    assert dry_run(plugin, pod_with_claims("claim"), stranger, row=1) == [False, True]


def test_without_pre_filter_the_filter_fails() -> None:
    plugin = plugin_in([])
    with pytest.raises(LookupError) as caught:
        plugin.filter_nodes(CycleState(), PodInfo(make_pod()), plugin.handle.snapshot.nodes)
    assert str(caught.value) == 'cannot read "PreFilterVolumeRestrictions" from cycleState'
