"""Reasons that lie in volumes: claims, volumes, classes, zones, limits, capacity."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from .world import (
    HOST,
    ZONE,
    Sketch,
    create,
    gone,
    label,
    node,
    obj,
    patch,
    pod,
    reason,
    ref,
    remedy,
    zones,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from ..api import Json
    from .world import Fields

_DRIVER: Final = "disks.example.com"
_NO_LABELS: Final[Fields] = MappingProxyType({})
_DONE: Final = {"pv.kubernetes.io/bind-completed": "yes"}


def _claim(
    name: str, *, bound: str = "", mode: str = "ReadWriteOnce", storage_class: str = "fast"
) -> Json:
    spec: Json = {
        "accessModes": [mode],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
        **({"volumeName": bound} if bound else {}),
    }
    return obj(
        "v1",
        "PersistentVolumeClaim",
        name,
        namespace="default",
        annotations=_DONE if bound else {},
        spec=spec,
        status={"phase": "Bound" if bound else "Pending"},
    )


def _volume(
    name: str,
    *,
    claim: str = "",
    labels: Fields = _NO_LABELS,
    mode: str = "ReadWriteOnce",
    spec: Fields = _NO_LABELS,
) -> Json:
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "name": claim,
        "namespace": "default",
    }
    return obj(
        "v1",
        "PersistentVolume",
        name,
        labels=labels,
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": [mode],
            "storageClassName": "fast",
            "csi": {"driver": _DRIVER, "volumeHandle": name},
            **({"claimRef": reference} if claim else {}),
            **spec,
        },
        status={"phase": "Bound" if claim else "Available"},
    )


def _class(mode: str, *, provisioner: str = _DRIVER, zones_allowed: Sequence[str] = ()) -> Json:
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": [*zones_allowed]}]}]
    return obj(
        "storage.k8s.io/v1",
        "StorageClass",
        "fast",
        provisioner=provisioner,
        volumeBindingMode=mode,
        **({"allowedTopologies": allowed} if zones_allowed else {}),  # type: ignore[arg-type]
    )


def _uses(name: str) -> Json:
    return {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}}


def _on(key: str, value: str) -> Json:
    rule = {"key": key, "operator": "In", "values": [value]}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}}


def _bound(claim: Fields) -> list[Json]:
    """Return the steps by which a controller binds a claim to its volume."""
    subject = ref(claim)
    return [
        patch(subject, {"metadata": {"annotations": _DONE}, "spec": {"volumeName": "pv"}}),
        {"update_status": {**subject, "status": {"phase": "Bound"}}},
    ]


@reason("VolumeBinding", "persistentvolumeclaim")
def claim_is_missing(rng: random.Random) -> Sketch:
    """The claim of the waiter does not exist, or is not bound."""
    claim, volume = _claim("c", bound="pv"), _volume("pv", claim="c")
    pause = [{"advance": "1s"}] if rng.random() < 0.5 else []
    return Sketch(
        cluster=[_class("Immediate"), volume, node("a")],
        waiter=_uses("c"),
        remedies={
            "claim is added": remedy(create(claim)),
            "claim is added and bound": remedy(create(_claim("c")), *pause, *_bound(claim)),
        },
    )


@reason("VolumeBinding", "unbound immediate")
def claim_is_unbound(rng: random.Random) -> Sketch:
    """The claim of the waiter is to be bound by a controller."""
    claim, volume = _claim("c"), _volume("pv", claim="c")
    cluster = [_class("Immediate"), claim, node("a")]
    late = [] if rng.random() < 0.5 else [create(volume)]
    return Sketch(
        cluster=cluster if late else [*cluster, volume],
        waiter=_uses("c"),
        remedies={
            "claim is bound": remedy(*late, *_bound(claim)),
            "claim is replaced by a bound one": remedy(
                *late, {"delete": ref(claim)}, create(_claim("c", bound="pv"))
            ),
        },
    )


@reason("VolumeBinding", "")
def volume_is_elsewhere(rng: random.Random) -> Sketch:
    """The volume of the waiter's claim is not reachable from the node."""
    key = rng.choice(["rack", HOST])
    value = "1" if key == "rack" else "b"
    remedies = {"node is added": remedy(create(node("b", labels={"rack": "1"})))}
    remedies["node gets the label"] = (
        remedy(label({"node": "a"}, rack="1")) if key == "rack" else remedies["node is added"]
    )
    return Sketch(
        cluster=[
            _class("Immediate"),
            _volume("pv", claim="c", spec=_on(key, value)),
            _claim("c", bound="pv"),
            node("a"),
        ],
        waiter=_uses("c"),
        remedies=remedies,
    )


@reason("VolumeBinding", "persistent volumes")
def no_volume_to_bind(rng: random.Random) -> Sketch:
    """The claim waits for its first consumer, and no volume fits on the node."""
    there = rng.choice(
        [
            [],
            [_volume("far", spec=_on(HOST, "z"))],
            [_volume("small", spec={"capacity": {"storage": "1Mi"}})],
        ]
    )
    local = _class("WaitForFirstConsumer", provisioner="kubernetes.io/no-provisioner")
    good = _volume("pv", spec=_on(HOST, "a") if rng.random() < 0.5 else {})
    return Sketch(
        cluster=[local, *there, _claim("c"), node("a")],
        waiter=_uses("c"),
        remedies={
            "volume is added": remedy(create(good)),
            "volume is released": remedy(
                create(_volume("pv", claim="old")),
                {"advance": "1s"},
                patch(ref(good), {"spec": {"claimRef": None}}),
                {"update_status": {**ref(good), "status": {"phase": "Available"}}},
            ),
        },
    )


@reason("VolumeBinding", "")
def volume_is_being_made(rng: random.Random) -> Sketch:
    """The node is chosen, and the binding waits for a volume for that node."""
    del rng
    claim = _claim("c")
    rejected: Json = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": None}}}
    return Sketch(
        cluster=[_class("WaitForFirstConsumer"), claim, node("a")],
        waiter=_uses("c"),
        remedies={
            "node is rejected": remedy(patch(ref(claim), rejected)),
            "volume is made": remedy(create(_volume("pv", claim="c")), *_bound(claim)),
            "node is deleted": remedy({"delete": {"node": "a"}}, create(node("b"))),
        },
    )


@reason("VolumeBinding", "")
def class_is_missing(rng: random.Random) -> Sketch:
    """The storage class of the claim does not exist."""
    del rng
    return Sketch(
        cluster=[_claim("c"), node("a"), _volume("pv")],
        waiter=_uses("c"),
        remedies={
            "class is added": remedy(
                create(_class("WaitForFirstConsumer", provisioner="kubernetes.io/no-provisioner"))
            )
        },
    )


@reason("VolumeBinding", "")
def topology_is_not_allowed(rng: random.Random) -> Sketch:
    """The storage class allows volumes in another zone only, and nothing can provision there."""
    local = "kubernetes.io/no-provisioner"
    fast = _class(
        "WaitForFirstConsumer",
        provisioner=local,
        zones_allowed=["b"],
    )
    return Sketch(
        cluster=[fast, _claim("c"), _volume("pv", spec=_on(ZONE, "b")), *zones("a")],
        waiter=_uses("c"),
        remedies={
            "node is added": remedy(create(*zones("b"))),
            "node changes its zone": remedy(label({"node": "a"}, **{ZONE: "b"})),
        },
    )


@reason("VolumeZone", "volume zone")
def zone_of_the_volume(rng: random.Random) -> Sketch:
    """The volume is labelled with another zone."""
    volume = _volume("pv", claim="c", labels={ZONE: rng.choice(["b", "b__c"])})
    return Sketch(
        cluster=[_class("Immediate"), volume, _claim("c", bound="pv"), *zones("a")],
        waiter=_uses("c"),
        remedies={
            "node is added": remedy(create(*zones("b"))),
            "node changes its zone": remedy(label({"node": "a"}, **{ZONE: "b"})),
            "volume changes its zone": remedy(label(ref(volume), **{ZONE: "a"})),
            "volume loses its zone": remedy(label(ref(volume), **{ZONE: None})),
        },
    )


@reason("VolumeRestrictions", "ReadWriteOncePod")
def claim_is_for_one_pod(rng: random.Random) -> Sketch:
    """Another pod uses the claim, which is for one pod only."""
    mode = "ReadWriteOncePod"
    nodes = [node(name) for name in "ab"[: rng.choice([1, 2])]]
    return Sketch(
        cluster=[
            _class("Immediate"),
            _volume("pv", claim="c", mode=mode),
            _claim("c", bound="pv", mode=mode),
            *nodes,
            pod("user", node="a", **_uses("c")),
        ],
        waiter=_uses("c"),
        remedies=gone("user"),
    )


@reason("VolumeRestrictions", "no available disk")
def disk_is_in_use(rng: random.Random) -> Sketch:
    """A pod on the node uses the disk, which only one pod can write."""
    disk: Json = rng.choice(
        [
            {"gcePersistentDisk": {"pdName": "d"}},
            {"awsElasticBlockStore": {"volumeID": "d"}},
            {"rbd": {"monitors": ["m"], "image": "d", "pool": "p"}},
            {"iscsi": {"targetPortal": "t", "iqn": "iqn.2026-01.example:d", "lun": 0}},
        ]
    )
    uses = {"spec": {"volumes": [{"name": "v", **disk}]}}
    return Sketch(
        cluster=[node("a"), pod("user", node="a", **uses)],
        waiter=uses,
        remedies={**gone("user"), "node is added": remedy(create(node("b")))},
    )


def _csi_node(count: int) -> Json:
    drivers = [{"name": _DRIVER, "nodeID": "a", "allocatable": {"count": count}}]
    return obj("storage.k8s.io/v1", "CSINode", "a", spec={"drivers": drivers})


@reason("NodeVolumeLimits", "max volume count")
def too_many_volumes(rng: random.Random) -> Sketch:
    """The node has as many volumes of the driver as it may have."""
    used = rng.choice(["pod", "attachment"])
    csi = _csi_node(1)
    attachment = obj(
        "storage.k8s.io/v1",
        "VolumeAttachment",
        "va",
        spec={"attacher": _DRIVER, "nodeName": "a", "source": {"persistentVolumeName": "pv-0"}},
    )
    cluster = [_class("Immediate"), csi, node("a")]
    for name in ("0", "1"):
        cluster += [
            _volume(f"pv-{name}", claim=f"c-{name}"),
            _claim(f"c-{name}", bound=f"pv-{name}"),
        ]
    by_pod = used == "pod"
    cluster.append(pod("user", node="a", **_uses("c-0")) if by_pod else attachment)
    free = (
        gone("user") if by_pod else dict.fromkeys(gone("user"), remedy({"delete": ref(attachment)}))
    )
    more = patch(
        ref(csi),
        {"spec": {"drivers": [{"name": _DRIVER, "nodeID": "a", "allocatable": {"count": 5}}]}},
    )
    return Sketch(
        cluster=cluster,
        waiter=_uses("c-1"),
        remedies={
            **free,
            "limit grows": remedy(more),
            "limit is replaced": remedy({"delete": ref(csi)}, create(_csi_node(9))),
            "node is added": remedy(create(node("b"))),
        },
    )


def _capacity(amount: str) -> Json:
    return obj(
        "storage.k8s.io/v1",
        "CSIStorageCapacity",
        "cap",
        namespace="default",
        storageClassName="fast",
        capacity=amount,
        nodeTopology={"matchLabels": {"rack": "1"}},
    )


def _driver(*, has_capacity: bool) -> Json:
    return obj("storage.k8s.io/v1", "CSIDriver", _DRIVER, spec={"storageCapacity": has_capacity})


@reason("VolumeBinding", "not have enough free storage")
def too_little_capacity(rng: random.Random) -> Sketch:
    """The driver has too little capacity in the domain of the node."""
    there = [_capacity("1Mi")] if rng.random() < 0.5 else []
    grows = patch(ref(_capacity("")), {"capacity": "9Gi"}) if there else create(_capacity("9Gi"))
    return Sketch(
        cluster=[
            _driver(has_capacity=True),
            _class("WaitForFirstConsumer"),
            _claim("c"),
            *there,
            node("a", labels={"rack": "1"}),
        ],
        waiter=_uses("c"),
        remedies={
            "capacity grows": remedy(grows),
            "driver needs no capacity": remedy(
                patch(ref(_driver(has_capacity=True)), {"spec": {"storageCapacity": False}})
            ),
            "node is added": remedy(
                create(
                    obj(
                        "storage.k8s.io/v1",
                        "CSIStorageCapacity",
                        "more",
                        namespace="default",
                        storageClassName="fast",
                        capacity="9Gi",
                        nodeTopology={"matchLabels": {"rack": "2"}},
                    )
                ),
                create(node("b", labels={"rack": "2"})),
            ),
        },
    )
