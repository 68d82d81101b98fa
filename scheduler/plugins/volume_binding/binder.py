"""Bind the claims of a pod on its node.

    PreFilter   pod_volume_claims   group the claims: bound, to be bound now, immediate
    Filter      PodVolumeSearch     find volumes on each node (`pod_volumes`)
    Reserve     assume              take the volumes in the assume caches
    PreBind     bind                write to the API server, wait for the volume controller
    Unreserve   revert              drop unwritten objects from the assume caches

Source: `pkg/scheduler/framework/plugins/volumebinding/binder.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from scheduler.api.core import Node, Pod
from scheduler.api.field import quoted
from scheduler.api.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.api.volumes import (
    ANN_SELECTED_NODE,
    bound_to_claim,
    claim_class,
    claim_key,
    claim_name,
    is_for_pod,
    is_fully_bound,
    volume_class,
    with_selected_node,
)
from scheduler.plugins._csi_translation import (
    CsiTranslationError,
    in_tree_plugin,
    migrated_node_affinity,
    migrated_plugins,
)
from scheduler.plugins.volume_binding.assume_cache import AssumeCache, AssumeError
from scheduler.plugins.volume_binding.pod_volumes import (
    BindingInfo,
    DynamicProvision,
    PodVolumeClaims,
    PodVolumes,
)
from scheduler.plugins.volume_binding.reachability import affinity_mismatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.api.core import Volume
    from scheduler.api.storage import VolumeNodeAffinity
    from scheduler.framework.handle import Handle

_K = TypeVar("_K", PersistentVolume, PersistentVolumeClaim)

#: Pause between two checks of the volume controller's progress.
_POLL_SECONDS: Final = 1.0


class VolumeBindingError(Exception):
    """Volumes cannot be found or bound now; the pod is retried. Upstream's texts."""


class VolumeBinder:
    """Bind the volumes of pods; one per profile, as upstream."""

    def __init__(self, handle: Handle, *, bind_timeout_seconds: float) -> None:
        self._handle: Final = handle
        self._bind_timeout_seconds: Final = bind_timeout_seconds
        self.volumes: Final = AssumeCache(handle, "persistentvolumes", PersistentVolume)
        self.claims: Final = AssumeCache(handle, "persistentvolumeclaims", PersistentVolumeClaim)

    def pod_volume_claims(self, pod: Pod) -> PodVolumeClaims:
        """Return a pod's claims by the way they are bound; raises `VolumeBindingError`."""
        bound, delayed, immediate = [], [], []
        for volume in pod.spec.volumes:
            claim = self._claim_of(pod, volume)
            if claim is None:
                continue
            if is_fully_bound(claim):
                bound.append(claim)
            elif self._waits_for_consumer(claim) and not claim.spec.volume_name:
                delayed.append(claim)
            else:
                # Includes claims with a volume name set by a user: the controller binds them.
                immediate.append(claim)
        volumes: dict[str, list[PersistentVolume]] = {claim_class(claim): [] for claim in delayed}
        if volumes:
            for stored in self.volumes.list():
                if (of_class := volumes.get(volume_class(stored))) is not None:
                    of_class.append(stored)
        return PodVolumeClaims(bound, delayed, immediate, volumes)

    def assume(self, pod: Pod, node_name: str, pod_volumes: PodVolumes) -> bool:
        """Assume the volumes of a pod; return True if all were bound already.

        Raises `AssumeError`; then nothing is assumed.
        """
        if self._are_all_bound(pod):
            return True
        bindings: list[BindingInfo] = []
        provisions: list[DynamicProvision] = []
        try:
            for binding in pod_volumes.static_bindings or ():
                volume, changed = bound_to_claim(binding.volume, binding.claim)
                if changed:
                    self.volumes.assume(volume)
                bindings.append(BindingInfo(binding.claim, volume))
            for provision in pod_volumes.dynamic_provisions:
                claim = with_selected_node(provision.claim, node_name)
                self.claims.assume(claim)
                provisions.append(DynamicProvision(claim))
        except AssumeError:
            self.revert(PodVolumes(bindings, provisions))
            raise
        pod_volumes.static_bindings, pod_volumes.dynamic_provisions = bindings, provisions
        return False

    def revert(self, pod_volumes: PodVolumes) -> None:
        """Drop the assumed objects of a pod."""
        for binding in pod_volumes.static_bindings or ():
            self.volumes.restore(binding.volume)
        for provision in pod_volumes.dynamic_provisions:
            self.claims.restore(provision.claim)

    async def bind(self, pod: Pod, pod_volumes: PodVolumes) -> None:
        """Write the assumed objects, and wait until all claims are bound.

        Raises `VolumeBindingError`, or the client's errors.
        """
        bindings = pod_volumes.static_bindings
        if bindings is None:
            raise VolumeBindingError(f"failed to get cached bindings for pod {quoted(pod.key)}")
        claims = await self._write(bindings, pod_volumes.dynamic_provisions)
        try:
            await self._wait_until_bound(pod, bindings, claims)
        except VolumeBindingError as error:
            raise VolumeBindingError(f"binding volumes: {error}") from error

    async def _write(
        self, bindings: list[BindingInfo], provisions: Sequence[DynamicProvision]
    ) -> list[PersistentVolumeClaim]:
        """Write volumes, then claims; return the claims of the server's answers.

        After an error objects that were not written are reverted; the others are left to the
        controller.
        """
        api = self._handle.api
        updated: list[PersistentVolumeClaim] = []
        bound = 0
        try:
            for binding in bindings:
                binding.volume = await api.update_persistent_volume(binding.volume)
                bound += 1
            for provision in provisions:
                written = await api.update_persistent_volume_claim(provision.claim)
                updated.append(written)
        finally:
            self.revert(PodVolumes(bindings[bound:], provisions[len(updated) :]))
        return updated

    async def _wait_until_bound(
        self,
        pod: Pod,
        bindings: Sequence[BindingInfo],
        claims: Sequence[PersistentVolumeClaim],
    ) -> None:
        deadline = self._handle.monotonic() + self._bind_timeout_seconds
        while True:
            left = deadline - self._handle.monotonic()
            await self._handle.sleep(min(_POLL_SECONDS, max(left, 0.0)))
            if self._handle.monotonic() >= deadline:
                raise VolumeBindingError("context deadline exceeded")
            if self._is_bound(pod, bindings, claims):
                return

    def _is_bound(
        self,
        pod: Pod,
        bindings: Iterable[BindingInfo],
        claims: Iterable[PersistentVolumeClaim],
    ) -> bool:
        """True if the controller has bound everything; raises `VolumeBindingError` if it cannot.

        Reads the informers, not the assume caches: another pod may have assumed the same volumes
        since. Source: `checkBindings`.
        """
        node = self._handle.lister(Node).get(pod.spec.node_name)
        if node is None:
            name = quoted(pod.spec.node_name)
            raise VolumeBindingError(f"failed to get node {name}: node {name} not found")
        name, namespace = pod.metadata.name, pod.metadata.namespace
        if self._handle.lister(Pod).get(name, namespace) is None:
            raise VolumeBindingError(f"pod does not exist any more: pod {quoted(name)} not found")
        return all(self._is_binding_done(binding, node) for binding in bindings) and all(
            self._is_provision_done(claim, node) for claim in claims
        )

    def _is_binding_done(self, binding: BindingInfo, node: Node) -> bool:
        failed = "failed to check binding"
        volume = self._read(self.volumes, binding.volume, failed)
        claim = self._read(self.claims, binding.claim, failed)
        if _version(binding.volume) > _version(volume):
            return False  # the informer has not received our write yet
        self._check_reach(volume, node, "failed to translate pv to csi: ")
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            name = quoted(volume.metadata.name)
            raise VolumeBindingError(f"ClaimRef got reset for pv {name}")
        return is_fully_bound(claim)

    def _is_provision_done(self, written: PersistentVolumeClaim, node: Node) -> bool:
        claim = self._read(self.claims, written, "failed to check provisioning pvc")
        if _version(written) > _version(claim):
            return False
        name, annotations = quoted(claim.metadata.name), claim.metadata.annotations
        if not annotations:
            raise VolumeBindingError(f"selectedNode annotation reset for PVC {name}")
        if annotations.get(ANN_SELECTED_NODE, "") != node.metadata.name:
            # A provisioner that fails resets the annotation.
            raise VolumeBindingError(f"provisioning failed for PVC {name}")
        if claim.spec.volume_name:
            volume = self.volumes.api_object(claim.spec.volume_name)
            if volume is None:
                return False  # the informer has not received the volume yet
            self._check_reach(volume, node, "")
        return is_fully_bound(claim)

    def _check_reach(self, volume: PersistentVolume, node: Node, translating: str) -> None:
        """Raise `VolumeBindingError` if the node cannot reach the volume."""
        try:
            affinity = self._affinity_on(volume, node)
        except CsiTranslationError as error:
            raise VolumeBindingError(f"{translating}could not translate pv: {error}") from error
        mismatch = affinity_mismatch(affinity, node.metadata.labels)
        if mismatch:
            raise VolumeBindingError(
                f"pv {quoted(volume.metadata.name)} node affinity doesn't match node "
                f"{quoted(node.metadata.name)}: {mismatch}"
            )

    def _affinity_on(self, volume: PersistentVolume, node: Node) -> VolumeNodeAffinity | None:
        """Return a volume's affinity, translated if its plugin is migrated on the node."""
        plugin = in_tree_plugin(volume.spec)
        if plugin is not None:
            csi_node = self._handle.lister(CSINode).get(node.metadata.name)
            if csi_node is not None and plugin in migrated_plugins(csi_node):
                return migrated_node_affinity(volume, plugin)
        return volume.spec.node_affinity

    def _claim_of(self, pod: Pod, volume: Volume) -> PersistentVolumeClaim | None:
        name = claim_name(pod, volume)
        if name is None:
            return None
        namespace = pod.metadata.namespace
        claim = self.claims.get(name, namespace)
        if claim is None:
            key = f"{namespace}/{name}"
            raise VolumeBindingError(
                f"error getting PVC {quoted(key)}: {self.claims.not_found(key)}"
            )
        if volume.ephemeral is not None and not is_for_pod(claim, pod):
            raise VolumeBindingError(not_created_for_pod(claim, pod))
        return claim

    def _waits_for_consumer(self, claim: PersistentVolumeClaim) -> bool:
        """True if the claim is bound when a pod has a node. Source: `IsDelayBindingMode`."""
        name = claim_class(claim)
        if not name:
            return False
        storage_class = self._handle.lister(StorageClass).get(name)
        if storage_class is None:
            return False
        if storage_class.volume_binding_mode is None:
            raise VolumeBindingError(f"VolumeBindingMode not set for StorageClass {quoted(name)}")
        return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    def _are_all_bound(self, pod: Pod) -> bool:
        """True if all claims of the pod exist and are bound."""
        try:
            claims = [self._claim_of(pod, volume) for volume in pod.spec.volumes]
        except VolumeBindingError:
            return False
        return all(claim is None or is_fully_bound(claim) for claim in claims)

    def _read(self, cache: AssumeCache[_K], wanted: _K, failed: str) -> _K:
        """Return the informer's object; raises `VolumeBindingError` if it is missing."""
        metadata = wanted.metadata
        obj = cache.api_object(metadata.name, metadata.namespace)
        if obj is None:
            key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
            raise VolumeBindingError(f"{failed}: {cache.not_found(key)}")
        return obj


def not_created_for_pod(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """Return the text for a claim with an ephemeral volume's name that is not the pod's."""
    return f"PVC {claim_key(claim)} was not created for pod {pod.key} (pod is not owner)"


def _version(obj: PersistentVolume | PersistentVolumeClaim) -> int:
    """Return the resource version as a number; versions of one kind can be compared."""
    return int(obj.metadata.resource_version or 0)
