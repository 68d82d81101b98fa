"""`volumebinding/*_test.go`: the plugin, its binder, the overlay of assumed objects, the scores."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.api.core import Node, Pod
from scheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.api.volumes import ANN_BIND_COMPLETED
from scheduler.client.kinds import KINDS_BY_NAME
from scheduler.config.types import DEFAULT_FEATURE_GATES
from scheduler.framework import CycleState
from scheduler.framework.events import EventResource
from scheduler.plugins._shape_score import UtilizationShapePoint
from scheduler.plugins.volume_binding.assume_cache import AssumeCache, AssumeError
from scheduler.plugins.volume_binding.binder import VolumeBinder
from scheduler.plugins.volume_binding.pod_volumes import (
    BindingInfo,
    DynamicProvision,
    PodVolumes,
    PodVolumeSearch,
)
from scheduler.plugins.volume_binding.scorer import StorageUse, VolumeCapacityScorer
from scheduler.plugins.volume_binding.volume_binding import VolumeBinding
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.plugins.running import verdict_of
from tests.plugins.volumes import (
    ClusterObjects,
    VolumeApi,
    handle_with,
    make_claim,
    make_class,
    make_driver,
    make_volume,
    plugin_with,
    pod_with_claims,
)
from tests.upstream.loading import Case, api_object, cases, pod, verdict, verdicts
from tests.upstream.running import registered_hint

PROVISIONER = "test.example.com"
NODE = make_node("node1", labels={"nodeKey": "node1"})

#: The classes of all of the binder's tests.
CLASSES = (
    make_class(
        "waitClassWithProvisioner",
        provisioner=PROVISIONER,
        topologies=({"nodeKey": ("node1", "reference-value")},),
    ),
    make_class("immediateClass", mode="Immediate", provisioner=""),
    make_class("waitClass"),
    make_class(
        "topoMismatchClass",
        provisioner=PROVISIONER,
        topologies=({"nodeKey": ("reference-value",)},),
    ),
)

#: And those of the plugin's.
PLUGIN_OBJECTS = (
    make_class("immediate-sc", mode="Immediate", provisioner=""),
    make_class("wait-sc", provisioner=""),
    make_class("wait-hdd-sc", provisioner=""),
    make_class("wait-sc-with-storage-capacity", provisioner="driver-with-storage-capacity"),
    make_driver("driver-with-storage-capacity"),
)


def claims_of(case: Case, field: str = "claims") -> list[PersistentVolumeClaim]:
    return [api_object(PersistentVolumeClaim, value) for value in case.get(field) or []]


def volumes_of(case: Case, field: str = "volumes") -> list[PersistentVolume]:
    return [api_object(PersistentVolume, value) for value in case.get(field) or []]


def bindings_of(case: Case, field: str = "bindings") -> list[BindingInfo]:
    return [
        BindingInfo(
            api_object(PersistentVolumeClaim, value["claim"]),
            api_object(PersistentVolume, value["volume"]),
        )
        for value in case.get(field) or []
    ]


def assumed_for(case: Case) -> PodVolumes:
    """Return the volumes assumed for the pod; `assumed: false` is upstream's nil."""
    if case.get("assumed") is False:
        return PodVolumes()
    return PodVolumes(
        bindings_of(case), [DynamicProvision(claim) for claim in claims_of(case, "provisions")]
    )


def binder_with(handle: FakeHandle) -> VolumeBinder:
    return VolumeBinder(handle, bind_timeout_seconds=10)


def volume_api(case: Case, *more: Any) -> VolumeApi:
    """Informers have `volumes` and `claims`; the server has `api_*`, by default the same."""
    known = ClusterObjects(*CLASSES, *more, *volumes_of(case), *claims_of(case))
    server = ClusterObjects(
        *(volumes_of(case, "api_volumes") or volumes_of(case)),
        *(claims_of(case, "api_claims") or claims_of(case)),
    )
    return VolumeApi(server, known)


def assume(binder: VolumeBinder, pod_volumes: PodVolumes) -> None:
    for binding in pod_volumes.static_bindings or ():
        binder.volumes.assume(binding.volume)
    for provision in pod_volumes.dynamic_provisions:
        binder.claims.assume(provision.claim)


def pod_of(case: Case) -> Pod:
    if "pod" in case.fields:
        return api_object(Pod, case["pod"])
    return make_pod(
        "test-pod",
        namespace="testns",
        node_name="node1",
        volumes=[
            {"name": name, "persistentVolumeClaim": {"claimName": name}}
            for name in case.get("pod_claims") or []
        ],
    )


DRIVERS: dict[str, tuple[CSIDriver, ...]] = {
    "no driver": (),
    "counts storage": (make_driver(PROVISIONER),),
    "does not": (make_driver(PROVISIONER, counts_storage=False),),
}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("case", cases("volume_binding", "find"))
def test_find_pod_volumes(case: Case, driver: str) -> None:
    found = find(case, DRIVERS[driver])
    if case.get("needs_capacity") and driver == "counts storage":
        assert found == {"reasons": ("node(s) did not have enough free storage",)}
    elif case.get("fails"):
        assert found == {"fails": True}
    elif case.get("reasons"):
        assert found == {"reasons": tuple(case["reasons"])}
    else:
        assert found["bindings"] == [tuple(pair) for pair in case.get("bindings") or []]
        assert found["provisions"] == (case.get("provisions") or [])


@pytest.mark.parametrize("driver", ["counts storage", "does not"])
@pytest.mark.parametrize("case", cases("volume_binding", "capacity"))
def test_capacity_scores_are_upstreams(case: Case, driver: str) -> None:
    found = find(case, DRIVERS[driver])
    if driver == "does not":
        assert (found["provisions"], found["pools"]) == (["provisioned-pvc"], [])
    elif case.get("reasons"):
        assert found == {"reasons": tuple(case["reasons"])}
    else:
        assert found["provisions"] == case["provisions"]
        assert found["pools"] == [api_object(CSIStorageCapacity, p) for p in case["pools"]]


def find(case: Case, drivers: tuple[CSIDriver, ...]) -> dict[str, Any]:
    node = api_object(Node, case["node"]) if "node" in case.fields else NODE
    handle = handle_with(
        ClusterObjects(
            *CLASSES,
            *drivers,
            *claims_of(case),
            *volumes_of(case),
            *(api_object(CSINode, value) for value in case.get("csi_nodes") or []),
            *(api_object(CSIStorageCapacity, value) for value in case.get("capacities") or []),
        )
    )
    binder, nodes = binder_with(handle), snapshot_of([node]).nodes
    try:
        claims = binder.pod_volume_claims(pod_of(case))
    except Exception:  # noqa: BLE001 - upstream's table has no texts of errors
        return {"fails": True}
    if claims.unbound_claims_immediate:
        return {"fails": True}
    search = PodVolumeSearch(
        claims, handle=handle, volumes=binder.volumes, row_of=nodes.table.row_of, total=1
    )
    rejections = search.filter_nodes(nodes)
    if rejections is not None:
        assert search.pod_volumes("node1") is None
        (status,) = rejections.statuses
        return {"reasons": status.reasons}
    got = search.pod_volumes("node1")
    assert got is not None
    bindings = got.static_bindings or ()
    provisions = got.dynamic_provisions
    return {
        "bindings": [(b.claim.metadata.name, b.volume.metadata.name) for b in bindings],
        "provisions": [p.claim.metadata.name for p in provisions],
        "pools": [p.capacity for p in provisions if p.capacity is not None],
    }


@pytest.mark.parametrize("case", cases("volume_binding", "assume"))
def test_assume_pod_volumes(case: Case) -> None:
    handle = volume_api(case)
    binder = binder_with(handle)
    wanted = [claim.metadata.name for claim in claims_of(case)]
    waiting = make_pod(
        namespace="testns",
        volumes=[{"persistentVolumeClaim": {"claimName": name}} for name in wanted],
    )
    pod_volumes = assumed_for(case)
    if case.get("fails"):
        with pytest.raises(AssumeError):
            binder.assume(waiting, "node1", pod_volumes)
        assert not len(binder.volumes)
        assert not len(binder.claims)
        return
    assert binder.assume(waiting, "node1", pod_volumes) is bool(case.get("all_bound"))
    if case.get("all_bound"):
        return
    assert pod_volumes.static_bindings == bindings_of(case, "expected_bindings")
    made = [provision.claim for provision in pod_volumes.dynamic_provisions]
    assert made == claims_of(case, "expected_provisions")
    for binding in bindings_of(case, "expected_bindings"):
        assert binder.volumes.get(binding.volume.metadata.name) == binding.volume
    for claim in claims_of(case, "expected_provisions"):
        assert binder.claims.get(claim.metadata.name, "testns") == claim


@pytest.mark.parametrize("case", cases("volume_binding", "bind_api_update"))
async def test_bind_api_update(case: Case) -> None:
    """The writes before the first check of the controller's result."""
    waiting = make_pod("test-pod", namespace="testns", node_name="node1")
    handle = volume_api(case, NODE, waiting)
    binder, pod_volumes = binder_with(handle), assumed_for(case)
    assume(binder, pod_volumes)
    work = asyncio.ensure_future(binder.bind(waiting, pod_volumes))
    await handle.clock.advance(0.5)
    assert work.done() is bool(case.get("fails"))
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    for volume in volumes_of(case, "expected_volumes"):
        assert newest(binder.volumes.get(volume.metadata.name)) == newest(volume)
    for claim in claims_of(case, "expected_claims"):
        assert newest(binder.claims.get(claim.metadata.name, "testns")) == newest(claim)
    server = handle.server.listers
    expected = volumes_of(case, "expected_api_volumes") or volumes_of(case, "expected_volumes")
    assert list(map(newest, server["persistentvolumes"].list())) == list(map(newest, expected))
    expected_claims = claims_of(case, "expected_api_claims") or claims_of(case, "expected_claims")
    written = server["persistentvolumeclaims"].list()
    assert list(map(newest, written)) == list(map(newest, expected_claims))


def newest(obj: Any) -> Any:
    """Return the object without its version, which upstream's tests do not compare."""
    return replace(obj, metadata=replace(obj.metadata, resource_version=""))


def newer(obj: Any) -> Any:
    """Return the object in a version after those of our own writes."""
    return replace(obj, metadata=replace(obj.metadata, resource_version="9"))


@pytest.mark.parametrize("case", cases("volume_binding", "check_bindings"))
async def test_check_bindings(case: Case) -> None:
    """The first check of the claims, a second after they were written.

    Upstream asks without writing anything; here everything there is has been written already.
    """
    node = api_object(Node, case["node"]) if "node" in case.fields else NODE
    waiting = make_pod("test-pod", namespace="testns", node_name="node1")
    handle = volume_api(
        case, node, waiting, *(api_object(CSINode, v) for v in case.get("csi_nodes") or [])
    )
    binder, pod_volumes = binder_with(handle), assumed_for(case)
    if pod_volumes.static_bindings is not None:
        for binding in pod_volumes.static_bindings:
            handle.server.put(binding.volume)
        handle.server.put(*(p.claim for p in pod_volumes.dynamic_provisions))
    handle.silent = True
    work = asyncio.ensure_future(binder.bind(waiting, pod_volumes))
    await handle.clock.advance(0.5)
    happen_before_the_look(case, handle)
    await handle.clock.advance(1)
    assert (work.done() and work.exception() is None) is bool(case.get("bound"))
    assert (work.done() and work.exception() is not None) is bool(case.get("fails"))
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


def happen_before_the_look(case: Case, handle: VolumeApi) -> None:
    """Put objects into the informers that are newer than our own writes."""
    volumes = volumes_of(case, "api_volumes") or volumes_of(case)
    claims = claims_of(case, "api_claims") or claims_of(case)
    handle.known.put(*map(newer, (*volumes, *claims)))
    if case.get("volumes_deleted"):
        for volume in volumes_of(case):
            handle.known.remove(volume)
    if case.get("claims_deleted"):
        for claim in claims_of(case):
            handle.known.remove(claim)


@pytest.mark.parametrize("case", cases("volume_binding", "bind"))
async def test_bind_pod_volumes(case: Case) -> None:
    waiting = make_pod("test-pod", namespace="testns", node_name="node1")
    nodes = [api_object(Node, value) for value in case.get("nodes") or []] or [NODE]
    handle = volume_api(case, waiting, *nodes)
    bound_meanwhile = (*volumes_of(case, "api_volumes"), *claims_of(case, "api_claims"))
    handle.server.put(*map(newer, bound_meanwhile))
    binder, pod_volumes = binder_with(handle), assumed_for(case)
    assume(binder, pod_volumes)
    work = asyncio.ensure_future(binder.bind(waiting, pod_volumes))
    await handle.clock.advance(5)
    LATER[case.get("later")](handle, waiting)
    await handle.clock.advance(6)
    assert work.done()
    assert (work.exception() is not None) is bool(case.get("fails"))


def bind_claim(handle: VolumeApi, volume_name: str) -> None:
    (claim,) = handle.known.listers["persistentvolumeclaims"].list()
    notes = {**claim.metadata.annotations, ANN_BIND_COMPLETED: "yes"}
    handle.known.put(
        replace(
            claim,
            metadata=replace(claim.metadata, annotations=notes, resource_version="9"),
            spec=replace(claim.spec, volume_name=volume_name),
        )
    )


def make_volume_for_claim(handle: VolumeApi, waiting: Pod) -> None:
    handle.known.put(make_volume("dynamic-pv"))
    bind_claim(handle, "dynamic-pv")


def delete_claim(handle: VolumeApi, waiting: Pod) -> None:
    for claim in handle.known.listers["persistentvolumeclaims"].list():
        handle.known.remove(claim)


#: What happens five seconds after the binding has begun.
LATER: dict[str | None, Callable[[VolumeApi, Pod], None]] = {
    None: lambda handle, waiting: None,
    "claim_bound": lambda handle, waiting: bind_claim(handle, "pv-node1a"),
    "claim_bound_elsewhere": lambda handle, waiting: bind_claim(handle, "pv-node2"),
    "volume_made": make_volume_for_claim,
    "pod_deleted": lambda handle, waiting: handle.known.remove(waiting),
    "claim_deleted": delete_claim,
}


@pytest.mark.parametrize("case", cases("volume_binding", "assume_cache"))
def test_assume_cache(case: Case) -> None:
    old, new = (
        api_object(PersistentVolumeClaim, {"metadata": case[which]}) for which in ("old", "new")
    )
    handle = FakeHandle(listers=ClusterObjects(old).listers)
    cache = AssumeCache(handle, "persistentvolumeclaims", PersistentVolumeClaim)
    if case.get("fails"):
        with pytest.raises(AssumeError):
            cache.assume(new)
    else:
        cache.assume(new)
    assert cache.get(old.metadata.name, "ns1") is (old if case.get("fails") else new)


@pytest.mark.parametrize("case", cases("volume_binding", "scorer"))
def test_scores_of_classes_are_upstreams(case: Case) -> None:
    shape = [UtilizationShapePoint(p["utilization"], p["score"]) for p in case["shape"]]
    scorer = VolumeCapacityScorer(shape)
    for entry in case["classes"]:
        uses = [
            StorageUse(np.array([requested]), np.array([capacity]), np.array([True]))
            for requested, capacity in entry["use"]
        ]
        assert scorer.score(uses, 1).tolist() == [entry["score"]]


@pytest.mark.parametrize("case", cases("volume_binding", "volume_binding"))
def test_volume_binding(case: Case) -> None:
    scores = case.get("scoring")
    gates = DEFAULT_FEATURE_GATES | ({"StorageCapacityScoring"} if scores else set())
    pools = (api_object(CSIStorageCapacity, value) for value in case.get("capacities") or [])
    objects = ClusterObjects(*PLUGIN_OBJECTS, *claims_of(case), *volumes_of(case), *pools)
    rising = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    plugin = plugin_with(
        VolumeBinding,
        handle_with(objects, feature_gates=frozenset(gates)),
        {"shape": case.get("shape") or rising} if scores else None,
    )
    state, info = CycleState(), PodInfo(pod(case["pod"]))
    nodes = snapshot_of([api_object(Node, value) for value in case["nodes"]]).nodes
    status = plugin.pre_filter(state, info, nodes)
    assert verdict_of(status) == verdict(case.get("pre_filter"))
    if status is not None:
        return
    rejections = plugin.filter_nodes(state, info, nodes)
    found = {n: rejections and rejections.status(i) for i, n in enumerate(nodes.names)}
    statuses = {name: verdict_of(status) for name, status in found.items() if status is not None}
    assert statuses == verdicts(case.get("statuses") or {})
    assert verdict_of(plugin.pre_score(state, info, nodes)) == verdict(case.get("pre_score"))
    if "scores" in case.fields:
        scored = plugin.score_nodes(state, info, nodes)
        assert dict(zip(nodes.names, scored.tolist(), strict=True)) == case["scores"]


#: The kinds whose changes the plugin has hints for, with the names that events give them.
HINTED = {
    "CSINode": (CSINode, "storage.k8s.io/CSINode"),
    "PersistentVolumeClaim": (PersistentVolumeClaim, "PersistentVolumeClaim"),
    "StorageClass": (StorageClass, "storage.k8s.io/StorageClass"),
    "CSIStorageCapacity": (CSIStorageCapacity, "storage.k8s.io/CSIStorageCapacity"),
    "CSIDriver": (CSIDriver, "storage.k8s.io/CSIDriver"),
}


@pytest.mark.parametrize("case", cases("volume_binding", "hints"))
def test_the_hint_of_an_event_is_upstreams(case: Case) -> None:
    kind, name = HINTED[case["kind"]]
    assert KINDS_BY_NAME[case["kind"]].type is kind
    resource: EventResource = name  # type: ignore[assignment]
    ask = registered_hint(plugin_with(VolumeBinding, handle_with(ClusterObjects())), resource)
    waiting = PodInfo(pod(case.get("pod") or {}))
    if case.get("raises"):
        with pytest.raises(TypeError):
            ask(waiting, None, case["new"])
        return
    old, new = (
        api_object(kind, value) if value is not None else None
        for value in (case.get("old"), case.get("new"))
    )
    assert str(ask(waiting, old, new)) == case["hint"]


@pytest.mark.parametrize("case", cases("volume_binding", "pre_flight"))
def test_pre_bind_pre_flight(case: Case) -> None:
    objects = ClusterObjects(*PLUGIN_OBJECTS, make_volume(), *claims_of(case))
    objects.put(make_volume(storage_class="wait-sc"))
    plugin = plugin_with(VolumeBinding, handle_with(objects))
    state, info = CycleState(), PodInfo(pod_with_claims("claim"))
    nodes = snapshot_of([make_node("node-a"), make_node("node-b")]).nodes
    if "searched" in case.fields:
        assert plugin.pre_filter(state, info, nodes) is None
        searched = np.array([name in case["searched"] for name in nodes.names])
        plugin.filter_nodes(state, info, nodes.take(searched))
    if case.get("reserved"):
        plugin.reserve(state, info, "node-a")
    if "error" in case.fields:
        with pytest.raises(Exception, match="^" + re.escape(case["error"])):
            plugin.pre_bind_pre_flight(state, info, "node-a")
        return
    result = plugin.pre_bind_pre_flight(state, info, "node-a")
    assert (result.allow_parallel, result.skip) == (True, bool(case.get("skip")))


@pytest.mark.parametrize("case", cases("volume_binding", "after_assume"))
def test_after_volumes_have_been_assumed(case: Case) -> None:
    names = [claim.metadata.name for claim in claims_of(case)]
    waiting = make_pod(
        namespace="testns",
        volumes=[{"persistentVolumeClaim": {"claimName": name}} for name in names],
    )
    handle = volume_api(case)
    binder, nodes = binder_with(handle), snapshot_of([NODE]).nodes
    if case.get("revert"):
        pod_volumes = assumed_for(case)
        assert not binder.assume(waiting, "node1", pod_volumes)
        assert len(binder.volumes) + len(binder.claims) == 2
        binder.revert(pod_volumes)
        assert len(binder.volumes) + len(binder.claims) == 0
        return
    found = []
    for _ in range(2):
        search = PodVolumeSearch(
            binder.pod_volume_claims(waiting),
            handle=handle,
            volumes=binder.volumes,
            row_of=nodes.table.row_of,
            total=1,
        )
        assert search.filter_nodes(nodes) is None
        got = search.pod_volumes("node1")
        assert got is not None
        found.append([b.volume.metadata.name for b in got.static_bindings or ()])
        binder.assume(waiting, "node1", got)
    assert found[0] == found[1]
    assert [names[0], *found[0]] in case["chosen"]


@pytest.mark.parametrize("case", cases("volume_binding", "assume_cache_steps"))
def test_assume_cache_step_by_step(case: Case) -> None:
    known = ClusterObjects()
    cache = AssumeCache(
        FakeHandle(listers=known.listers), "persistentvolumeclaims", PersistentVolumeClaim
    )
    for step in case["steps"]:
        ((action, state),) = step.items()
        name, _, version = state.partition("@")
        obj = make_claim("claim", version=version, annotations={"state": name})
        match action:
            case "known" if state == "nothing":
                known.remove(obj)
            case "known":
                known.put(obj)
            case "assume":
                cache.assume(obj)
            case "restore":
                cache.restore(obj)
            case _:
                assert cache.get("claim", "default") == (None if state == "nothing" else obj), step
