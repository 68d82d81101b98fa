"""Binds claims to volumes, and creates volumes for classes of the configured provisioners.

    claim pending ──fitting volume──> volume.claimRef, claim.volumeName, both Bound
          │
          └──class of a configured provisioner──> a volume is created, then bound

A claim whose class has WaitForFirstConsumer stays pending until the scheduler sets its annotation
selected-node. Source: pkg/controller/volume/persistentvolume of v1.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.events import EventRecorder
from fakeapi.actors.objects import NOTHING, Object
from fakeapi.actors.resources import CLAIMS, NODES, PODS, STORAGE_CLASSES, VOLUMES
from fakeapi.actors.volume_protection import claims_of
from fakeapi.decoding.selectors import EVERYTHING, label_selector_of
from fakeapi.types.objects import Json, mapping, mappings, text, texts
from fakeapi.types.quantity import parse_nano

_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_EXTERNAL_MESSAGE: Final = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the "
    "system administrator. If volume creation is delayed, please verify that the provisioner is "
    "running and correctly registered."
)
_HOSTNAME: Final = "kubernetes.io/hostname"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VolumeOptions:
    """The provisioners for whose classes volumes are created."""

    provisioners: frozenset[str] = frozenset()


class Volumes(Controller):
    """Binds, provisions and reclaims. Keys are `claim namespace/name` and `volume name`."""

    name = "persistentvolume-controller"

    def __init__(self, context: Context, options: VolumeOptions) -> None:
        super().__init__(context)
        self.options: Final = options
        self._recorder = EventRecorder(context, self.name)
        self._classes = self.informer(STORAGE_CLASSES, lambda _old, _new: self._try_pending())
        self._claims = self.informer(CLAIMS, self._claim_changed)
        self._volumes = self.informer(VOLUMES, self._volume_changed)
        self._nodes = self.informer(NODES)
        self._pods = self.informer(PODS, self._pod_changed)
        self._last_events: dict[str, tuple[str, str]] = {}  # of waiting claims, by uid
        self._reserved: dict[str, str] = {}  # uids of claims that are being bound, by volume

    async def sync(self, key: str) -> None:
        """Handle one claim or volume."""
        kind, _, name = key.partition(" ")
        if kind == "volume":
            volume = self._volumes.objects.get(name)
            if volume is not None:
                await self._sync_volume(volume)
            else:
                self._reserved.pop(name, None)
            return
        claim = self._claims.objects.get(name)
        if claim is not None:
            await self._sync_claim(claim)

    async def _sync_claim(self, claim: Object) -> None:
        wanted = text(claim.spec.get("volumeName"))
        if wanted:
            volume = self._volumes.get("", wanted)
            if volume is not None and _is_free_for(volume, claim):
                await self._bind(claim, volume, chosen=False)
            elif volume is None and claim.annotation(_BIND_COMPLETED):
                await self.patch_status(CLAIMS, claim, {"phase": "Lost"})
            else:
                await self.patch_status(CLAIMS, claim, {"phase": "Pending"})
            return
        if claim.is_deleting:
            return
        volume = self._match(claim)
        if volume is not None:
            await self._bind(claim, volume, chosen=True)
            return
        await self.patch_status(CLAIMS, claim, {"phase": "Pending"})
        storage_class = self._class_of(claim)
        await self._record_wait(claim, storage_class)
        is_waiting = _waits_for_consumer(storage_class) and not _selected_node(claim)
        if storage_class is not None and not is_waiting:
            await self._provision(claim, storage_class)

    async def _record_wait(self, claim: Object, storage_class: Object | None) -> None:
        """Write an event with the reason why a claim waits, unless it is the same as before."""
        name = text(claim.spec.get("storageClassName"))
        provisioner = text((storage_class or NOTHING).get("provisioner"))
        kind = "Normal"
        if _waits_for_consumer(storage_class) and not _selected_node(claim):
            event = self._consumer_event(claim)
        elif not name:
            why = "no persistent volumes available for this claim and no storage class is set"
            event = "FailedBinding", why
        elif storage_class is None:
            kind = "Warning"
            event = "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found'
        elif provisioner not in self.options.provisioners:
            event = "ExternalProvisioning", _EXTERNAL_MESSAGE.format(provisioner)
        else:
            return
        if self._last_events.get(claim.uid) != event:
            self._last_events[claim.uid] = event
            await self._recorder.record(CLAIMS, claim, *event, kind=kind)

    def _consumer_event(self, claim: Object) -> tuple[str, str]:
        """Return reason and message for a claim that waits for its pods to be scheduled."""
        pods = [
            pod.name
            for pod in self._pods.of_namespace(claim.namespace)
            if claim.name in claims_of(pod) and not pod.node and not pod.has_ended
        ]
        if not pods:
            return "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
        shown = f"pod{'s' if len(pods) > 1 else ''} {','.join(sorted(pods))}"
        return "WaitForPodScheduled", f"waiting for {shown} to be scheduled"

    def _class_of(self, claim: Object) -> Object | None:
        return self._classes.get("", text(claim.spec.get("storageClassName")))

    def _match(self, claim: Object) -> Object | None:
        """Return the volume reserved for the claim, else the smallest that fits."""
        candidates = []
        for name, volume in sorted(self._volumes.objects.items()):
            if _is_reserved_for(volume, claim):
                return volume
            free = self._reserved.get(name, claim.uid) == claim.uid and not _reference(volume)
            if free and not volume.is_deleting and _fits(volume, claim):
                candidates.append(volume)
        if not candidates or _waits_for_consumer(self._class_of(claim)):
            return None
        best = min(candidates, key=_capacity)
        self._reserved[best.name] = claim.uid
        return best

    async def _bind(self, claim: Object, volume: Object, *, chosen: bool) -> None:
        """Write claimRef and phase of the volume, then volumeName and phase of the claim."""
        reference = _reference(volume)
        if reference.get("uid") != claim.uid:
            patch: Json = {"spec": {"claimRef": _reference_to(claim)}}
            if not reference:
                patch["metadata"] = {"annotations": {_BOUND_BY_CONTROLLER: "yes"}}
            volume = await self.patch(VOLUMES, volume, patch, if_unchanged=True)
        volume = await self.patch_status(VOLUMES, volume, {"phase": "Bound"})
        if chosen or not claim.annotation(_BIND_COMPLETED):
            annotations = {_BIND_COMPLETED: "yes"} | (
                {_BOUND_BY_CONTROLLER: "yes"} if chosen else {}
            )
            spec: Json = {"volumeName": volume.name}
            patch = {"metadata": {"annotations": annotations}, "spec": spec}
            claim = await self.patch(CLAIMS, claim, patch, if_unchanged=True)
        bound: Json = {
            "phase": "Bound",
            "accessModes": volume.spec.get("accessModes"),
            "capacity": volume.spec.get("capacity"),
        }
        await self.patch_status(CLAIMS, claim, bound)

    async def _provision(self, claim: Object, storage_class: Object) -> None:
        provisioner = text(storage_class.get("provisioner"))
        if claim.annotation(_PROVISIONER) != provisioner:
            patch: Json = {"metadata": {"annotations": {_PROVISIONER: provisioner}}}
            claim = await self.patch(CLAIMS, claim, patch)
        name = f"pvc-{claim.uid}"
        if provisioner not in self.options.provisioners or self._volumes.get("", name):
            return
        spec = claim.spec
        made: Json = {
            "capacity": {"storage": _request(claim)},
            "accessModes": spec.get("accessModes"),
            "volumeMode": spec.get("volumeMode") or "Filesystem",
            "storageClassName": spec.get("storageClassName"),
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
            "mountOptions": storage_class.get("mountOptions"),
            "claimRef": _reference_to(claim),
            "csi": {"driver": provisioner, "volumeHandle": name},
        }
        node = _selected_node(claim)
        allowed = mappings(storage_class.get("allowedTopologies"))
        terms = _terms(self._nodes.get("", node), allowed)
        if terms is None:
            message = (
                f'failed to provision volume with StorageClass "{storage_class.name}": '
                f"node {node} is in none of its allowedTopologies"
            )
            event = "ProvisioningFailed", message
            await self._recorder.record(CLAIMS, claim, *event, kind="Warning")
            return
        if terms:
            made["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        metadata: Json = {"name": name, "annotations": {_PROVISIONED_BY: provisioner}}
        filled: Json = {key: value for key, value in made.items() if value}
        await self.create(VOLUMES, {"metadata": metadata, "spec": filled})
        message = f"Successfully provisioned volume {name} using {provisioner}"
        await self._recorder.record(CLAIMS, claim, "ProvisioningSucceeded", message)

    async def _sync_volume(self, volume: Object) -> None:
        """Set the phase of a volume; reclaim it if its claim is gone."""
        reference = _reference(volume)
        key = _claim_key(reference)
        claim = self._claims.objects.get(key)
        if not reference.get("uid"):
            await self.patch_status(VOLUMES, volume, {"phase": "Available"})
            if not reference:
                self._try_pending()
        if claim is not None and reference.get("uid") in (None, "", claim.uid):
            self.queue.add(f"claim {key}")
        elif reference.get("uid"):
            await self._reclaim(volume)

    async def _reclaim(self, volume: Object) -> None:
        """Release a volume, and delete it if it was created here and its policy is Delete."""
        policy = volume.spec.get("persistentVolumeReclaimPolicy")
        ours = volume.annotation(_PROVISIONED_BY) in self.options.provisioners
        await self.patch_status(VOLUMES, volume, {"phase": "Released"})
        if policy == "Delete" and ours and not volume.is_deleting:
            await self.delete(VOLUMES, volume)

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        claim = new or old or NOTHING
        self.queue.add(f"claim {claim.key}")
        volume = text(claim.spec.get("volumeName"))
        if new is None:
            self._last_events.pop(claim.uid, None)
            if volume:
                self.queue.add(f"volume {volume}")

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        for pod in (old, new):
            for name in claims_of(pod or NOTHING):
                claim = self._claims.get((pod or NOTHING).namespace, name)
                if claim is not None and not claim.spec.get("volumeName"):
                    self.queue.add(f"claim {claim.key}")

    def _volume_changed(self, old: Object | None, new: Object | None) -> None:
        self.queue.add(f"volume {(new or old or NOTHING).name}")
        if new is None:
            reference = _reference(old or NOTHING)
            if reference:
                self.queue.add(f"claim {_claim_key(reference)}")

    def _try_pending(self) -> None:
        for key, claim in self._claims.objects.items():
            if not claim.spec.get("volumeName"):
                self.queue.add(f"claim {key}")


def _waits_for_consumer(storage_class: Object | None) -> bool:
    return (storage_class or NOTHING).get("volumeBindingMode") == "WaitForFirstConsumer"


def _reference(volume: Object) -> Json:
    return mapping(volume.spec.get("claimRef"))


def _claim_key(reference: Json) -> str:
    return f"{text(reference.get('namespace'))}/{text(reference.get('name'))}"


def _is_reserved_for(volume: Object, claim: Object) -> bool:
    """True if the volume is reserved for the claim."""
    reference = _reference(volume)
    return (
        reference.get("name") == claim.name
        and reference.get("namespace") == claim.namespace
        and reference.get("uid") in (None, "", claim.uid)
    )


def _is_free_for(volume: Object, claim: Object) -> bool:
    return not _reference(volume) or _is_reserved_for(volume, claim)


def _reference_to(claim: Object) -> Json:
    metadata = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": metadata.get("uid"),
        "resourceVersion": metadata.get("resourceVersion"),
    }


def _request(claim: Object) -> str:
    resources = mapping(claim.spec.get("resources"))
    return text(mapping(resources.get("requests")).get("storage")) or "0"


def _capacity(volume: Object) -> int:
    return parse_nano(text(mapping(volume.spec.get("capacity")).get("storage")) or "0")


def _fits(volume: Object, claim: Object) -> bool:
    have, want = volume.spec, claim.spec
    selector = want.get("selector")
    chosen = label_selector_of(selector) if selector is not None else EVERYTHING
    mode = "Filesystem"
    return (
        text(have.get("storageClassName")) == text(want.get("storageClassName"))
        and (have.get("volumeMode") or mode) == (want.get("volumeMode") or mode)
        and set(texts(want.get("accessModes"))) <= set(texts(have.get("accessModes")))
        and chosen.matches(volume.labels)
        and _capacity(volume) >= parse_nano(_request(claim))
    )


def _selected_node(claim: Object) -> str:
    return claim.annotation(_SELECTED_NODE)


def _terms(node: Object | None, allowed: list[Json]) -> list[Json] | None:
    """Return the node selector terms of a new volume: near the node, or all that are allowed.

    None if the node is in none of the allowed topologies. Source:
    GenerateAccessibilityRequirements of the external provisioner v5.
    """
    if node is None:
        return [
            {
                "matchExpressions": [
                    {"key": one.get("key"), "operator": "In", "values": one.get("values")}
                    for one in mappings(term.get("matchLabelExpressions"))
                ]
            }
            for term in allowed
        ]
    labels = node.labels
    keys = [_HOSTNAME]
    if allowed:
        fitting = [
            mappings(term.get("matchLabelExpressions"))
            for term in allowed
            if all(
                labels.get(text(one.get("key"))) in texts(one.get("values"))
                for one in mappings(term.get("matchLabelExpressions"))
            )
        ]
        if not fitting:
            return None
        keys = [text(one.get("key")) for one in fitting[0]]
    values = {key: text(labels.get(key)) or node.name for key in keys}
    expressions = [
        {"key": key, "operator": "In", "values": [value]} for key, value in values.items()
    ]
    return [{"matchExpressions": expressions}]
