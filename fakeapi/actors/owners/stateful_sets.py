"""StatefulSets: pods with ordinals and fixed names, created in order, each with its claims.

Source: pkg/controller/statefulset of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.objects import NOTHING, Object, owner_reference
from fakeapi.actors.owners.pods import is_available, pod_from, scaled
from fakeapi.actors.owners.revisions import REVISION_LABEL, RevisedOwner, template_of
from fakeapi.actors.resources import CLAIMS, PODS, STATEFUL_SETS
from fakeapi.types.objects import Json, integer, mapping, mappings, string_map, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeapi.actors.controller import Context

_POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
_INDEX: Final = "apps.kubernetes.io/pod-index"
_ORDINAL: Final = re.compile(r"-(\d+)$", re.ASCII).search


@dataclasses.dataclass(frozen=True, slots=True)
class _Replicas:
    """The pods of a StatefulSet by ordinal, its current revision and its template's revision."""

    owner: Object
    pods: Mapping[int, Object]
    current: Object
    update: Object
    now: float

    @property
    def spec(self) -> Json:
        return self.owner.spec

    @property
    def wanted(self) -> range:
        """Return the ordinals that shall exist."""
        start = integer(mapping(self.spec.get("ordinals")).get("start"))
        return range(start, start + self.owner.replicas)

    @property
    def rolling(self) -> Json:
        return mapping(mapping(self.spec.get("updateStrategy")).get("rollingUpdate"))

    @property
    def claim_templates(self) -> list[Object]:
        return [Object(one) for one in mappings(self.spec.get("volumeClaimTemplates"))]

    @property
    def is_on_delete(self) -> bool:
        return mapping(self.spec.get("updateStrategy")).get("type") == "OnDelete"

    @property
    def partition(self) -> int:
        """Return the lowest ordinal that is updated."""
        return self.wanted.start + integer(self.rolling.get("partition"))

    def pod_name(self, ordinal: int) -> str:
        return f"{self.owner.name}-{ordinal}"

    def is_up(self, pod: Object | None) -> bool:
        """True if the pod is available and stays."""
        return pod is not None and not pod.is_deleting and self.is_available(pod)

    def is_available(self, pod: Object) -> bool:
        return is_available(pod, integer(self.spec.get("minReadySeconds")), self.now)

    def has_revision(self, pod: Object, revision: Object) -> bool:
        label = text(pod.labels.get(REVISION_LABEL))
        return f"{self.owner.name}-{label}" == revision.name

    def revision_for(self, ordinal: int) -> Object:
        """Return the revision of a new pod."""
        if self.is_on_delete or ordinal >= self.partition:
            return self.update
        return self.current


class StatefulSets(RevisedOwner):
    """Creates pods from the lowest ordinal up, and deletes them from the highest down."""

    name = "statefulset-controller"
    resource = STATEFUL_SETS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._claims = self.informer(CLAIMS)

    async def sync(self, key: str) -> None:
        """Take the next step for one set, then write its status."""
        owner = self.owners.objects.get(key)
        if owner is None:
            return
        pods = {_ordinal(pod): pod for pod in await self.claimed(owner, self.pods)}
        update, revisions = await self.sync_revisions(owner)
        name = text(owner.status.get("currentRevision"))
        current = next((one for one in revisions if one.name == name), update)
        replicas = _Replicas(owner, pods, current, update, self.clock.now())
        if not owner.is_deleting:
            await self._step(replicas)
        await self.update_status(self.resource, owner, _status(replicas))
        used = {f"{owner.name}-{p.labels.get(REVISION_LABEL)}" for p in pods.values()}
        await self.truncate_history(owner, revisions, used | {current.name, update.name})
        wait = integer(owner.spec.get("minReadySeconds"))
        self.plan_availability(key, list(pods.values()), wait)

    async def _step(self, replicas: _Replicas) -> None:
        is_ordered = replicas.spec.get("podManagementPolicy") != "Parallel"
        for ordinal in replicas.wanted:
            is_up = await self._bring_up(replicas, ordinal)
            if not is_up and is_ordered:
                return
        surplus = [one for one in replicas.pods if one not in replicas.wanted and one >= 0]
        surplus.sort(reverse=True)
        for ordinal in surplus:
            await self._set_claim_owners(replicas, replicas.pods[ordinal], scaled_down=True)
        if is_ordered and surplus:
            await self._delete_next(replicas, surplus[0])
            return
        for ordinal in surplus:
            if not replicas.pods[ordinal].is_deleting:
                await self._delete(replicas, replicas.pods[ordinal])
        await self._update(replicas)

    async def _bring_up(self, replicas: _Replicas, ordinal: int) -> bool:
        """Create the pod of an ordinal if it is missing; return True if it is available."""
        pod = replicas.pods.get(ordinal)
        if pod is None:
            await self._create_pod(replicas, ordinal)
            return False
        if pod.has_ended:
            if not pod.is_deleting:
                await self._delete(replicas, pod)
            return False
        if pod.phase == "Pending":
            await self._create_claims(replicas, ordinal, pod)  # one may have been deleted
        if not replicas.is_up(pod):
            return False
        await self._set_claim_owners(replicas, pod, scaled_down=False)
        return True

    async def _delete_next(self, replicas: _Replicas, ordinal: int) -> None:
        """Delete the highest pod; it waits for the others to be up unless it is broken itself."""
        pod = replicas.pods[ordinal]
        broken = [one for one in sorted(replicas.pods) if not replicas.is_up(replicas.pods[one])]
        broken.sort(key=lambda one: one not in replicas.wanted)
        may_go = replicas.is_up(pod) or ordinal == broken[0]
        if may_go and not pod.is_deleting:
            await self._delete(replicas, pod)

    async def _delete(self, replicas: _Replicas, pod: Object) -> None:
        await self.delete(PODS, pod)
        owner = replicas.owner
        message = f"Delete Pod {pod.name} in StatefulSet {owner.name} successful"
        await self.record(owner, "SuccessfulDelete", message)

    async def _create_pod(self, replicas: _Replicas, ordinal: int) -> None:
        owner, name = replicas.owner, replicas.pod_name(ordinal)
        revision = replicas.revision_for(ordinal)
        labels = {
            _POD_NAME: name,
            _INDEX: str(ordinal),
            REVISION_LABEL: revision.name.removeprefix(f"{owner.name}-"),
        }
        pod = pod_from(self.resource, owner, template_of(revision), name=name, labels=labels)
        claims = await self._create_claims(replicas, ordinal, NOTHING)
        spec = {**pod.spec, "hostname": name, "subdomain": text(replicas.spec.get("serviceName"))}
        volumes = [one for one in mappings(spec.get("volumes")) if one.get("name") not in claims]
        for volume, claim in claims.items():
            volumes.append({"name": volume, "persistentVolumeClaim": {"claimName": claim}})
        if volumes:
            spec["volumes"] = volumes
        try:
            created = await self.create(PODS, {**pod, "spec": spec})
        except ActorApiError as error:
            message = f"Create Pod {name} in StatefulSet {owner.name} failed error: {error}"
            await self.record(owner, "FailedCreate", message, kind="Warning")
            raise
        message = f"Create Pod {name} in StatefulSet {owner.name} successful"
        await self.record(owner, "SuccessfulCreate", message)
        await self._set_claim_owners(replicas, created, scaled_down=False)

    async def _create_claims(
        self, replicas: _Replicas, ordinal: int, pod: Object
    ) -> dict[str, str]:
        """Create the missing claims of a pod; return the names of all by volume.

        Raises ActorApiError if one is being deleted.
        """
        owner, pod_name = replicas.owner, replicas.pod_name(ordinal)
        names: dict[str, str] = {}
        for template in replicas.claim_templates:
            name = names[template.name] = f"{template.name}-{pod_name}"
            present = self._claims.get(owner.namespace, name)
            if present is None:
                await self.create(CLAIMS, _new_claim(owner, template, name))
                message = f"Create Claim {name} Pod {pod_name} in StatefulSet "
                message += f"{owner.name} success"
                await self.record(owner, "SuccessfulCreate", message)
            elif present.is_deleting or _is_of_earlier_pod(present, pod_name, pod.uid):
                raise ActorApiError(0, "Deleting", f"pvc {name} is being deleted")
        return names

    async def _set_claim_owners(
        self, replicas: _Replicas, pod: Object, *, scaled_down: bool
    ) -> None:
        """Set the owners of the pod's claims as persistentVolumeClaimRetentionPolicy demands."""
        for template in replicas.claim_templates:
            claim = self._claims.get(replicas.owner.namespace, f"{template.name}-{pod.name}")
            if claim is None or claim.is_deleting:
                continue
            owners = _claim_owners(claim, replicas.owner, pod, scaled_down=scaled_down)
            if owners is not None:
                await self.patch(CLAIMS, claim, {"metadata": {"ownerReferences": owners}})

    async def _update(self, replicas: _Replicas) -> None:
        """Delete pods of old revisions from the highest ordinal down.

        Without maxUnavailable, one at a time once those above it are up. Upstream's server keeps
        maxUnavailable with the feature gate MaxUnavailableStatefulSet only.
        """
        if replicas.is_on_delete:
            return
        limit = replicas.rolling.get("maxUnavailable")
        wanted = replicas.wanted
        unavailable = sum(not replicas.is_up(replicas.pods.get(one)) for one in wanted)
        budget = max(scaled(limit, len(wanted), up=False), 1) - unavailable
        for ordinal in reversed(wanted):
            if ordinal < replicas.partition or (limit is not None and budget <= 0):
                return
            pod = replicas.pods.get(ordinal)
            is_old = pod is not None and not replicas.has_revision(pod, replicas.update)
            if pod is not None and is_old and not pod.is_deleting:
                await self._delete(replicas, pod)
                budget -= 1
                if limit is None:
                    return
            elif limit is None and not replicas.is_up(pod):
                return


def _status(replicas: _Replicas) -> Json:
    owner, pods, current = replicas.owner, list(replicas.pods.values()), replicas.current
    updated = sum(replicas.has_revision(pod, replicas.update) for pod in pods)
    ready = sum(pod.is_ready for pod in pods)
    is_done = updated == ready == len(pods) == owner.replicas
    if is_done and not integer(replicas.rolling.get("partition")):
        current = replicas.update
    counts = {
        "readyReplicas": ready,
        "currentReplicas": sum(replicas.has_revision(pod, current) for pod in pods),
        "updatedReplicas": updated,
    }
    return {
        "observedGeneration": owner.generation,
        "replicas": len(pods),
        "currentRevision": current.name,
        "updateRevision": replicas.update.name,
        "collisionCount": integer(owner.status.get("collisionCount")),
        **{name: count for name, count in counts.items() if count},
        "availableReplicas": sum(map(replicas.is_available, pods)),
    }


def _ordinal(pod: Object) -> int:
    match = _ORDINAL(pod.name)
    return int(match[1]) if match else -1


def _new_claim(owner: Object, template: Object, name: str) -> Json:
    selector = mapping(owner.spec.get("selector"))
    metadata: Json = {
        "name": name,
        "namespace": owner.namespace,
        "labels": {**template.labels, **string_map(selector.get("matchLabels"))},
        "annotations": string_map(template.metadata.get("annotations")),
    }
    return {"metadata": metadata, "spec": template.get("spec")}


def _is_of_earlier_pod(claim: Object, pod_name: str, pod_uid: str) -> bool:
    """True if an earlier pod of this name owns the claim, which will be deleted then."""
    return any(
        one.get("kind") == "Pod" and one.get("name") == pod_name and one.get("uid") != pod_uid
        for one in claim.owners
    )


def _claim_owners(
    claim: Object, owner: Object, pod: Object, *, scaled_down: bool
) -> list[Json] | None:
    """Return the new owner references of a claim, None if they are to be left.

    Source: updateClaimOwnerRefForSetAndPod in stateful_set_utils.go.
    """
    present = claim.owners
    uids = {owner.uid, pod.uid}
    names = {("StatefulSet", owner.name), ("Pod", pod.name)}
    others = [one for one in present if one.get("uid") not in uids]
    if any((one.get("kind"), one.get("name")) in names for one in others):
        return None  # an earlier set or pod of this name, which is being deleted
    wanted = list(others)
    if not any(one.get("controller") for one in others):
        policy = mapping(owner.spec.get("persistentVolumeClaimRetentionPolicy"))
        if policy.get("whenScaled") == "Delete" and scaled_down:
            wanted.append(owner_reference(PODS, pod))
        elif policy.get("whenDeleted") == "Delete":
            wanted.append(owner_reference(STATEFUL_SETS, owner))
    return None if wanted == present else wanted
