"""Claims and volumes find one another; classes with a known provisioner get new volumes.

    claim pending ──fitting volume──> volume.claimRef, claim.volumeName, both Bound
          │
          └──class of a configured provisioner──> a volume is made, then bound

A claim whose class waits for its first consumer is left alone until the scheduler has put the
annotation selected-node on it. Source: pkg/controller/volume/persistentvolume of v1.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.events import EventRecorder
from fakeapi.actors.objects import (
    annotation,
    has_ended,
    key_of,
    node_of,
    spec_of,
    status_of,
    uid_of,
)
from fakeapi.actors.resources import CLAIMS, NODES, PODS, STORAGE_CLASSES, VOLUMES
from fakeapi.actors.volume_protection import claims_of
from fakeapi.decoding.selectors import EVERYTHING, label_selector_of
from fakeapi.types.objects import (
    Json,
    is_deleting,
    labels_of,
    mapping,
    mappings,
    metadata_of,
    name_of,
    namespace_of,
    text,
    texts,
)
from fakeapi.types.quantity import parse_nano

if TYPE_CHECKING:
    from fakeapi.actors.resources import Resource

_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_EXTERNAL: Final = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the "
    "system administrator. If volume creation is delayed, please verify that the provisioner is "
    "running and correctly registered."
)
_HOSTNAME: Final = "kubernetes.io/hostname"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VolumeOptions:
    """The provisioners that make volumes for the claims of their classes."""

    provisioners: frozenset[str] = frozenset()


class Volumes(Controller):
    """Binds, provisions and reclaims. Keys are `claim namespace/name` and `volume name`."""

    name = "persistentvolume-controller"

    def __init__(self, context: Context, options: VolumeOptions) -> None:
        super().__init__(context)
        self.options: Final = options
        self._recorder = EventRecorder(context, self.name)
        self._classes = self.informer(STORAGE_CLASSES)
        self._claims = self.informer(CLAIMS)
        self._volumes = self.informer(VOLUMES)
        self._nodes = self.informer(NODES)
        self._pods = self.informer(PODS)
        self._explained: dict[str, tuple[str, str]] = {}  # by uid: why a claim waits, as was told
        self._reserved: dict[str, str] = {}  # uid of a claim, by volume, while it is being bound
        self._claims.subscribe(self._claim_changed)
        self._volumes.subscribe(self._volume_changed)
        self._pods.subscribe(self._pod_changed)
        self._classes.subscribe(lambda _old, _new: self._try_pending())

    async def sync(self, key: str) -> None:
        """Deal with one claim or volume. Raises ActorApiError."""
        kind, _, name = key.partition(" ")
        if kind == "volume":
            volume = self._volumes.objects.get(name)
            if volume is not None:
                await self._judge(volume)
            else:
                self._reserved.pop(name, None)
            return
        claim = self._claims.objects.get(name)
        if claim is not None:
            await self._serve(claim)

    async def _serve(self, claim: Json) -> None:
        spec = spec_of(claim)
        wanted = text(spec.get("volumeName"))
        if wanted:
            volume = self._volumes.get("", wanted)
            if volume is not None and _claimable(volume, claim):
                await self._bind(claim, volume, chosen=False)
            elif volume is None and annotation(claim, _COMPLETED):
                await self._tell(CLAIMS, claim, {"phase": "Lost"})
            else:
                await self._tell(CLAIMS, claim, {"phase": "Pending"})
            return
        if is_deleting(claim):
            return
        volume = self._match(claim)
        if volume is not None:
            await self._bind(claim, volume, chosen=True)
            return
        await self._tell(CLAIMS, claim, {"phase": "Pending"})
        storage_class = self._classes.get("", text(spec.get("storageClassName")))
        await self._explain(claim, storage_class)
        if storage_class is not None and (not self._waits(claim) or _node_of(claim)):
            await self._provision(claim, storage_class)

    async def _explain(self, claim: Json, storage_class: Json | None) -> None:
        """Tell why a claim is not served at once, if it has not been told yet."""
        name = text(spec_of(claim).get("storageClassName"))
        provisioner = text((storage_class or {}).get("provisioner"))
        kind = "Normal"
        if self._waits(claim) and not _node_of(claim):
            told = self._awaited(claim)
        elif not name:
            why = "no persistent volumes available for this claim and no storage class is set"
            told = "FailedBinding", why
        elif storage_class is None:
            kind = "Warning"
            told = "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found'
        elif provisioner not in self.options.provisioners:
            told = "ExternalProvisioning", _EXTERNAL.format(provisioner)
        else:
            return
        uid = uid_of(claim)
        if self._explained.get(uid) != told:
            self._explained[uid] = told
            await self._recorder.record(CLAIMS, claim, *told, kind=kind)

    def _awaited(self, claim: Json) -> tuple[str, str]:
        """Whom a claim waits for, as reason and message: the pods that are to be scheduled."""
        name = name_of(claim)
        pods = [
            name_of(pod)
            for pod in self._pods.of_namespace(namespace_of(claim))
            if name in claims_of(pod) and not node_of(pod) and not has_ended(pod)
        ]
        if not pods:
            return "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
        who = f"pod{'s' if len(pods) > 1 else ''} {','.join(sorted(pods))}"
        return "WaitForPodScheduled", f"waiting for {who} to be scheduled"

    def _waits(self, claim: Json) -> bool:
        name = text(spec_of(claim).get("storageClassName"))
        found = self._classes.get("", name) or {}
        return found.get("volumeBindingMode") == "WaitForFirstConsumer"

    def _match(self, claim: Json) -> Json | None:
        """The volume that is meant for the claim, else the smallest that fits, if it may be."""
        uid = uid_of(claim)
        candidates = []
        for name, volume in sorted(self._volumes.objects.items()):
            if _is_meant(volume, claim):
                return volume
            free = self._reserved.get(name, uid) == uid and not _reference(volume)
            if free and not is_deleting(volume) and _fits(volume, claim):
                candidates.append(volume)
        if not candidates or self._waits(claim):
            return None
        best = min(candidates, key=_capacity)
        self._reserved[name_of(best)] = uid
        return best

    async def _bind(self, claim: Json, volume: Json, *, chosen: bool) -> None:
        """Reference from the volume, then its phase, then the claim's name and phase."""
        reference = _reference(volume)
        if reference.get("uid") != uid_of(claim):
            metadata: Json = {"resourceVersion": metadata_of(volume).get("resourceVersion")}
            if not reference:
                metadata["annotations"] = {_BY_CONTROLLER: "yes"}
            patch: Json = {"metadata": metadata, "spec": {"claimRef": _reference_to(claim)}}
            volume = await self.patch(VOLUMES, volume, patch)
        volume = await self._tell(VOLUMES, volume, {"phase": "Bound"})
        annotations: Json = {_COMPLETED: "yes"}
        if chosen:
            annotations[_BY_CONTROLLER] = "yes"
        present = mapping(metadata_of(claim).get("annotations"))
        if chosen or _COMPLETED not in present:
            spec: Json = {"volumeName": name_of(volume)}
            metadata = {
                "resourceVersion": metadata_of(claim).get("resourceVersion"),
                "annotations": annotations,
            }
            claim = await self.patch(CLAIMS, claim, {"metadata": metadata, "spec": spec})
        volume_spec = spec_of(volume)
        bound: Json = {
            "phase": "Bound",
            "accessModes": volume_spec.get("accessModes"),
            "capacity": volume_spec.get("capacity"),
        }
        await self._tell(CLAIMS, claim, bound)

    async def _provision(self, claim: Json, storage_class: Json) -> None:
        provisioner = text(storage_class.get("provisioner"))
        if annotation(claim, _PROVISIONER) != provisioner:
            patch: Json = {"metadata": {"annotations": {_PROVISIONER: provisioner}}}
            claim = await self.patch(CLAIMS, claim, patch)
        name = f"pvc-{metadata_of(claim).get('uid')}"
        if provisioner not in self.options.provisioners or self._volumes.get("", name):
            return
        spec = spec_of(claim)
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
        node = self._nodes.get("", _node_of(claim))
        allowed = mappings(storage_class.get("allowedTopologies"))
        terms = _terms(node, allowed)
        if terms is None:
            message = f'failed to provision volume with StorageClass "{name_of(storage_class)}": '
            message += f"node {_node_of(claim)} is in none of its allowedTopologies"
            await self._recorder.record(
                CLAIMS, claim, "ProvisioningFailed", message, kind="Warning"
            )
            return
        if terms:
            made["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        metadata: Json = {"name": name, "annotations": {_PROVISIONED_BY: provisioner}}
        filled: Json = {key: value for key, value in made.items() if value}
        await self.create(VOLUMES, {"metadata": metadata, "spec": filled})
        message = f"Successfully provisioned volume {name} using {provisioner}"
        await self._recorder.record(CLAIMS, claim, "ProvisioningSucceeded", message)

    async def _judge(self, volume: Json) -> None:
        """The phase of a volume, and its end if its claim is gone."""
        reference = _reference(volume)
        if not reference.get("uid"):
            await self._tell(VOLUMES, volume, {"phase": "Available"})
            if not reference:
                self._try_pending()
                return
        key = f"{text(reference.get('namespace'))}/{text(reference.get('name'))}"
        claim = self._claims.objects.get(key)
        if not reference.get("uid"):
            if claim is not None:
                self.queue.add(f"claim {key}")
            return
        if claim is not None and uid_of(claim) == reference.get("uid"):
            self.queue.add(f"claim {key}")
            return
        policy = spec_of(volume).get("persistentVolumeReclaimPolicy")
        ours = annotation(volume, _PROVISIONED_BY) in self.options.provisioners
        await self._tell(VOLUMES, volume, {"phase": "Released"})
        if policy == "Delete" and ours and not is_deleting(volume):
            await self.delete(VOLUMES, volume)

    async def _tell(self, resource: Resource, obj: Json, status: Json) -> Json:
        """Set fields of the status that are not so already. Raises ActorApiError."""
        old = status_of(obj)
        changes = {name: value for name, value in status.items() if old.get(name) != value}
        if not changes:
            return obj
        return await self.patch(resource, obj, {"status": changes}, subresource="status")

    def _claim_changed(self, old: Json | None, new: Json | None) -> None:
        claim = new or old or {}
        self.queue.add(f"claim {key_of(claim)}")
        volume = text(spec_of(claim).get("volumeName"))
        if new is None:
            self._explained.pop(uid_of(claim), None)
            if volume:
                self.queue.add(f"volume {volume}")

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        """Who waits for a pod to be scheduled is told so."""
        for pod in (old, new):
            for name in claims_of(pod or {}):
                claim = self._claims.get(namespace_of(pod or {}), name)
                if claim is not None and not spec_of(claim).get("volumeName"):
                    self.queue.add(f"claim {key_of(claim)}")

    def _volume_changed(self, old: Json | None, new: Json | None) -> None:
        self.queue.add(f"volume {name_of(new or old or {})}")
        if new is None:
            reference = _reference(old or {})
            if reference:
                key = f"{text(reference.get('namespace'))}/{text(reference.get('name'))}"
                self.queue.add(f"claim {key}")

    def _try_pending(self) -> None:
        for key, claim in self._claims.objects.items():
            if not spec_of(claim).get("volumeName"):
                self.queue.add(f"claim {key}")


def _reference(volume: Json) -> Json:
    return mapping(spec_of(volume).get("claimRef"))


def _is_meant(volume: Json, claim: Json) -> bool:
    """Whether the volume is reserved for that claim."""
    reference = _reference(volume)
    return (
        reference.get("name") == name_of(claim)
        and reference.get("namespace") == namespace_of(claim)
        and reference.get("uid") in (None, "", uid_of(claim))
    )


def _claimable(volume: Json, claim: Json) -> bool:
    return not _reference(volume) or _is_meant(volume, claim)


def _reference_to(claim: Json) -> Json:
    metadata = metadata_of(claim)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace_of(claim),
        "name": name_of(claim),
        "uid": metadata.get("uid"),
        "resourceVersion": metadata.get("resourceVersion"),
    }


def _request(claim: Json) -> str:
    resources = mapping(spec_of(claim).get("resources"))
    return text(mapping(resources.get("requests")).get("storage")) or "0"


def _capacity(volume: Json) -> int:
    return parse_nano(text(mapping(spec_of(volume).get("capacity")).get("storage")) or "0")


def _fits(volume: Json, claim: Json) -> bool:
    have, want = spec_of(volume), spec_of(claim)
    selector = want.get("selector")
    chosen = label_selector_of(selector) if selector is not None else EVERYTHING
    mode = "Filesystem"
    return (
        text(have.get("storageClassName")) == text(want.get("storageClassName"))
        and (have.get("volumeMode") or mode) == (want.get("volumeMode") or mode)
        and set(texts(want.get("accessModes"))) <= set(texts(have.get("accessModes")))
        and chosen.matches(labels_of(volume))
        and _capacity(volume) >= parse_nano(_request(claim))
    )


def _node_of(claim: Json) -> str:
    return annotation(claim, _SELECTED_NODE)


def _terms(node: Json | None, allowed: list[Json]) -> list[Json] | None:
    """Where a new volume can be used: near the node, or anywhere that is allowed.

    None if the node is where no volume may be. Source: GenerateAccessibilityRequirements of the
    external provisioner v5.
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
    labels = labels_of(node)
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
    values = {key: text(labels.get(key)) or name_of(node) for key in keys}
    expressions = [
        {"key": key, "operator": "In", "values": [value]} for key, value in values.items()
    ]
    return [{"matchExpressions": expressions}]
