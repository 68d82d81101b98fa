"""Sorts out a pod's claims, and binds them on the node that was chosen.

    PreFilter   pod_volume_claims   which claims are bound, which are to be bound now
    Filter      PodVolumeSearch     what each node has for them (see `_pod_volumes`)
    Reserve     assume              take the volumes, in memory
    PreBind     bind                write it down, wait until the volume controller is done
    Unreserve   revert              give back what was not written

Source: `pkg/scheduler/framework/plugins/volumebinding/binder.go`, v1.36.3.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, TypeVar, cast

from scheduler.api.field import quoted
from scheduler.api.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
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
from scheduler.plugins.volume_binding.node_ranking import affinity_mismatch
from scheduler.plugins.volume_binding.pod_volumes import (
    BindingInfo,
    DynamicProvision,
    PodVolumeClaims,
    PodVolumes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scheduler.api.core import Node, Pod, Volume
    from scheduler.api.storage import CSINode, StorageClass, VolumeNodeAffinity
    from scheduler.framework.handle import Handle

_K = TypeVar("_K", PersistentVolume, PersistentVolumeClaim)

#: How often the volume controller's progress is looked at.
_POLL_SECONDS: Final = 1.0


class VolumeBindingError(Exception):
    """Volumes cannot be sorted out or bound now; the pod is tried again. Upstream's texts."""


class VolumeBinder:
    """Binds the volumes of pods; one for each profile, as upstream has it.

    `volumes` and `claims` show what pods on their way to a node have been promised.
    """

    def __init__(self, handle: Handle, *, bind_timeout_seconds: float) -> None:
        self._handle: Final = handle
        self._bind_timeout_seconds: Final = bind_timeout_seconds
        self.volumes: Final = AssumeCache(handle, "persistentvolumes", PersistentVolume)
        self.claims: Final = AssumeCache(handle, "persistentvolumeclaims", PersistentVolumeClaim)

    def pod_volume_claims(self, pod: Pod) -> PodVolumeClaims:
        """A pod's claims, sorted out; raises `VolumeBindingError`."""
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
                # One that a user has given a volume counts as well: the controller binds it.
                immediate.append(claim)
        volumes: dict[str, list[PersistentVolume]] = {claim_class(claim): [] for claim in delayed}
        if volumes:
            for known in self.volumes.list():
                if (of_class := volumes.get(volume_class(known))) is not None:
                    of_class.append(known)
        return PodVolumeClaims(bound, delayed, immediate, volumes)

    def assume(self, pod: Pod, node_name: str, pod_volumes: PodVolumes) -> bool:
        """Take the volumes found for a pod; whether there was nothing left to do.

        Raises `AssumeError`, having taken nothing.
        """
        with self.counting_errors("assume"):
            return self._assume(pod, node_name, pod_volumes)

    def _assume(self, pod: Pod, node_name: str, pod_volumes: PodVolumes) -> bool:
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
            self._revert(bindings, (provision.claim for provision in provisions))
            raise
        pod_volumes.static_bindings, pod_volumes.dynamic_provisions = bindings, provisions
        return False

    def revert(self, pod_volumes: PodVolumes) -> None:
        """Give back what was taken for a pod and not written."""
        self._revert(
            pod_volumes.static_bindings or (),
            (provision.claim for provision in pod_volumes.dynamic_provisions),
        )

    async def bind(self, pod: Pod, pod_volumes: PodVolumes) -> None:
        """Write down what was taken, and wait until all of it is bound.

        Raises `VolumeBindingError`, or the client's errors.
        """
        with self.counting_errors("bind"):
            await self._bind(pod, pod_volumes)

    async def _bind(self, pod: Pod, pod_volumes: PodVolumes) -> None:
        bindings = pod_volumes.static_bindings
        if bindings is None:
            raise VolumeBindingError(f"failed to get cached bindings for pod {quoted(pod.key)}")
        claims = [provision.claim for provision in pod_volumes.dynamic_provisions]
        claims = await self._write(bindings, claims)
        try:
            await self._wait_until_bound(pod, bindings, claims)
        except VolumeBindingError as error:
            raise VolumeBindingError(f"binding volumes: {error}") from error

    @contextlib.contextmanager
    def counting_errors(self, stage: str) -> Iterator[None]:
        """A stage that fails is counted (`VolumeSchedulingStageFailed`)."""
        try:
            yield
        except Exception:
            self._handle.metrics.volume_scheduling_stage_errors[(stage,)] += 1
            raise

    async def _write(
        self, bindings: Sequence[BindingInfo], claims: Sequence[PersistentVolumeClaim]
    ) -> list[PersistentVolumeClaim]:
        """Write volumes, then claims; returns the claims as the server has them.

        What could not be written is given back, what was is the controller's to finish.
        """
        api = self._handle.api
        updated: list[PersistentVolumeClaim] = []
        bound = 0
        try:
            for binding in bindings:
                binding.volume = await api.update_persistent_volume(binding.volume)
                bound += 1
            for claim in claims:
                written = await api.update_persistent_volume_claim(claim)
                updated.append(written)
        finally:
            self._revert(bindings[bound:], claims[len(updated) :])
        return updated

    async def _wait_until_bound(
        self,
        pod: Pod,
        bindings: Sequence[BindingInfo],
        claims: Sequence[PersistentVolumeClaim],
    ) -> None:
        deadline = self._handle.now() + self._bind_timeout_seconds
        while True:
            left = deadline - self._handle.now()
            await self._handle.sleep(min(_POLL_SECONDS, max(left, 0.0)))
            if self._handle.now() >= deadline:
                raise VolumeBindingError("context deadline exceeded")
            if self._is_bound(pod, bindings, claims):
                return

    def _is_bound(
        self,
        pod: Pod,
        bindings: Iterable[BindingInfo],
        claims: Iterable[PersistentVolumeClaim],
    ) -> bool:
        """Whether the controller has done its part; raises `VolumeBindingError` if it never will.

        Looks at what the API server says, not at what is assumed: another pod may have assumed
        something of the same volumes since. Source: `checkBindings`.
        """
        node = cast("Node | None", self._handle.lister("nodes").get(pod.spec.node_name))
        if node is None:
            name = quoted(pod.spec.node_name)
            raise VolumeBindingError(f"failed to get node {name}: node {name} not found")
        name, namespace = pod.metadata.name, pod.metadata.namespace
        if self._handle.lister("pods").get(name, namespace) is None:
            raise VolumeBindingError(f"pod does not exist any more: pod {quoted(name)} not found")
        return all(self._is_binding_done(binding, node) for binding in bindings) and all(
            self._is_provision_done(claim, node) for claim in claims
        )

    def _is_binding_done(self, binding: BindingInfo, node: Node) -> bool:
        failed = "failed to check binding"
        volume = self._read(self.volumes, binding.volume, failed)
        claim = self._read(self.claims, binding.claim, failed)
        if _version(binding.volume) > _version(volume):
            return False  # our own write has not come back yet
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
            # That is how a provisioner says that it cannot make the volume there.
            raise VolumeBindingError(f"provisioning failed for PVC {name}")
        if claim.spec.volume_name:
            volume = self.volumes.api_object(claim.spec.volume_name)
            if volume is None:
                return False  # made, but not heard of yet
            self._check_reach(volume, node, "")
        return is_fully_bound(claim)

    def _check_reach(self, volume: PersistentVolume, node: Node, translating: str) -> None:
        """Raises `VolumeBindingError` if a volume cannot be reached from a node."""
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
        """A volume's affinity, in the words of the driver if one handles it on this node."""
        plugin = in_tree_plugin(volume.spec)
        if plugin is not None:
            csi_nodes = self._handle.lister("csinodes")
            csi_node = cast("CSINode | None", csi_nodes.get(node.metadata.name))
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
        """Whether a claim is to be bound only when a pod needs it. Source: `IsDelayBindingMode`."""
        name = claim_class(claim)
        if not name:
            return False
        found = cast("StorageClass | None", self._handle.lister("storageclasses").get(name))
        if found is None:
            return False
        if found.volume_binding_mode is None:
            raise VolumeBindingError(f"VolumeBindingMode not set for StorageClass {quoted(name)}")
        return found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    def _are_all_bound(self, pod: Pod) -> bool:
        """Whether all claims of a pod are bound; one that cannot be had is not."""
        try:
            claims = [self._claim_of(pod, volume) for volume in pod.spec.volumes]
        except VolumeBindingError:
            return False
        return all(claim is None or is_fully_bound(claim) for claim in claims)

    def _revert(
        self, bindings: Iterable[BindingInfo], claims: Iterable[PersistentVolumeClaim]
    ) -> None:
        for binding in bindings:
            self.volumes.restore(binding.volume)
        for claim in claims:
            self.claims.restore(claim)

    def _read(self, cache: AssumeCache[_K], wanted: _K, failed: str) -> _K:
        """An object as the API server has it; raises `VolumeBindingError` if it is gone."""
        metadata = wanted.metadata
        found = cache.api_object(metadata.name, metadata.namespace)
        if found is None:
            key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
            raise VolumeBindingError(f"{failed}: {cache.not_found(key)}")
        return found


def not_created_for_pod(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """What is said of a claim that has an ephemeral volume's name and is not that volume's."""
    return f"PVC {claim_key(claim)} was not created for pod {pod.key} (pod is not owner)"


def _version(obj: PersistentVolume | PersistentVolumeClaim) -> int:
    """A resource version as a number: these are compared, as one kind's may be."""
    return int(obj.metadata.resource_version or 0)
