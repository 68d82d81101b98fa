"""StatefulSets: pods with names, one after the other, each with its claims.

Source: pkg/controller/statefulset of Kubernetes v1.36.3.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.objects import has_ended, is_ready, phase_of, spec_of, status_of, uid_of
from fakeapi.actors.owners.claim_retention import claim_name, is_stale, owners_of_claim
from fakeapi.actors.owners.pods import is_available, pod_from, scaled
from fakeapi.actors.owners.revisions import REVISION_LABEL, RevisedOwner, template_of
from fakeapi.actors.resources import CLAIMS, PODS, STATEFUL_SETS
from fakeapi.types.objects import (
    Json,
    integer,
    is_deleting,
    labels_of,
    mapping,
    mappings,
    metadata_of,
    name_of,
    namespace_of,
    string_map,
    text,
)

if TYPE_CHECKING:
    from fakeapi.actors.controller import Context

_POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
_INDEX: Final = "apps.kubernetes.io/pod-index"
_ORDINAL: Final = re.compile(r"-(\d+)$", re.ASCII).search


class StatefulSets(RevisedOwner):
    """Makes pods from the lowest ordinal up, and takes them down from the highest."""

    name = "statefulset-controller"
    resource = STATEFUL_SETS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._claims = self.informer(CLAIMS)

    async def sync(self, key: str) -> None:
        """Take the next step for one set, then tell. Raises ActorApiError."""
        owner = self.owners.objects.get(key)
        if owner is None:
            return
        pods = {_ordinal(pod): pod for pod in await self.claimed(owner, self.pods)}
        update, revisions = await self.revise(owner)
        current = _current_revision(owner, revisions, update)
        if not is_deleting(owner):
            await self._step(owner, pods, current, update)
        await self._tell(owner, pods, current, update)
        used = {labels_of(pod).get(REVISION_LABEL) for pod in pods.values()}
        names = {f"{name_of(owner)}-{one}" for one in used} | {name_of(current), name_of(update)}
        await self.forget_revisions(owner, revisions, names)
        wait = integer(spec_of(owner).get("minReadySeconds"))
        self.plan_availability(key, list(pods.values()), wait)

    async def _step(self, owner: Json, pods: dict[int, Json], current: Json, update: Json) -> None:
        spec = spec_of(owner)
        monotonic = spec.get("podManagementPolicy") != "Parallel"
        start = integer(mapping(spec.get("ordinals")).get("start"))
        wanted = range(start, start + integer(spec.get("replicas")))
        for ordinal in wanted:
            waits = await self._keep(owner, ordinal, pods, current, update)
            if waits and monotonic:
                return
        surplus = sorted((one for one in pods if one not in wanted and one >= 0), reverse=True)
        for ordinal in surplus:
            await self._own_claims(owner, pods[ordinal], scaled_down=True)
        if await self._scale_down(owner, pods, wanted, surplus, monotonic=monotonic):
            return
        await self._update(owner, pods, wanted, update)

    async def _keep(
        self, owner: Json, ordinal: int, pods: dict[int, Json], current: Json, update: Json
    ) -> bool:
        """See that the pod of an ordinal is there; whether others have to wait for it."""
        pod = pods.get(ordinal)
        if pod is not None and has_ended(pod):
            if not is_deleting(pod):
                await self._take_down(owner, pod)
            return True
        if pod is None:
            await self._make(owner, ordinal, _revision_for(owner, ordinal, current, update))
            return True
        if phase_of(pod) == "Pending":
            await self._claims_of(owner, ordinal, pod)  # one may have been lost
        if not self._is_up(owner, pod):
            return True
        await self._own_claims(owner, pod, scaled_down=False)
        return False

    async def _scale_down(
        self,
        owner: Json,
        pods: dict[int, Json],
        wanted: range,
        surplus: list[int],
        *,
        monotonic: bool,
    ) -> bool:
        """Take down what is beyond the wish, one by one or all at once; whether updates wait."""
        broken = [one for one in sorted(pods) if not self._is_up(owner, pods[one])]
        broken.sort(key=lambda one: one not in wanted)
        for ordinal in surplus:
            pod = pods[ordinal]
            if is_deleting(pod):
                if monotonic:
                    return True
                continue
            if monotonic and not self._is_up(owner, pod) and ordinal != broken[0]:
                return True
            await self._take_down(owner, pod)
            if monotonic:
                return True
        return False

    async def _take_down(self, owner: Json, pod: Json) -> None:
        await self.delete(PODS, pod)
        message = f"Delete Pod {name_of(pod)} in StatefulSet {name_of(owner)} successful"
        await self.tell(owner, "SuccessfulDelete", message)

    def _is_up(self, owner: Json, pod: Json | None) -> bool:
        wait = integer(spec_of(owner).get("minReadySeconds"))
        return (
            pod is not None and not is_deleting(pod) and is_available(pod, wait, self.clock.now())
        )

    async def _make(self, owner: Json, ordinal: int, revision: Json) -> None:
        name = f"{name_of(owner)}-{ordinal}"
        template = template_of(revision)
        labels = {
            _POD_NAME: name,
            _INDEX: str(ordinal),
            REVISION_LABEL: name_of(revision).removeprefix(f"{name_of(owner)}-"),
        }
        pod = pod_from(self.resource, owner, template, name=name, labels=labels)
        spec = dict(spec_of(pod))
        spec["hostname"] = name
        spec["subdomain"] = text(spec_of(owner).get("serviceName"))
        claims = await self._claims_of(owner, ordinal, {})
        volumes = [one for one in mappings(spec.get("volumes")) if one.get("name") not in claims]
        for volume, claim in claims.items():
            volumes.append({"name": volume, "persistentVolumeClaim": {"claimName": claim}})
        if volumes:
            spec["volumes"] = volumes
        try:
            made = await self.create(PODS, {**pod, "spec": spec})
        except ActorApiError as error:
            message = f"Create Pod {name} in StatefulSet {name_of(owner)} failed error: {error}"
            await self.tell(owner, "FailedCreate", message, kind="Warning")
            raise
        message = f"Create Pod {name} in StatefulSet {name_of(owner)} successful"
        await self.tell(owner, "SuccessfulCreate", message)
        await self._own_claims(owner, made, scaled_down=False)

    async def _claims_of(self, owner: Json, ordinal: int, pod: Json) -> dict[str, str]:
        """The claims of a pod by volume, made if they are missing.

        Raises ActorApiError, also for one that is on its way out.
        """
        names: dict[str, str] = {}
        pod_name, uid = f"{name_of(owner)}-{ordinal}", uid_of(pod)
        for template in mappings(spec_of(owner).get("volumeClaimTemplates")):
            name = names[name_of(template)] = claim_name(owner, template, ordinal)
            present = self._claims.get(namespace_of(owner), name)
            if present is None:
                await self._claim(owner, template, name)
            elif is_deleting(present) or is_stale(present, pod_name, uid):
                raise ActorApiError(0, "Deleting", f"pvc {name} is being deleted")
        return names

    async def _claim(self, owner: Json, template: Json, name: str) -> None:
        selector = mapping(spec_of(owner).get("selector"))
        given = metadata_of(template)
        labels = {
            **string_map(given.get("labels")),
            **string_map(selector.get("matchLabels")),
        }
        metadata: Json = {
            "name": name,
            "namespace": namespace_of(owner),
            "labels": labels,
            "annotations": string_map(given.get("annotations")),
        }
        await self.create(CLAIMS, {"metadata": metadata, "spec": template.get("spec")})
        pod = name.removeprefix(f"{name_of(template)}-")
        message = f"Create Claim {name} Pod {pod} in StatefulSet {name_of(owner)} success"
        await self.tell(owner, "SuccessfulCreate", message)

    async def _own_claims(self, owner: Json, pod: Json, *, scaled_down: bool) -> None:
        """Let the pod's claims go with it, with the set, or with nobody, as the policy says."""
        for template in mappings(spec_of(owner).get("volumeClaimTemplates")):
            name = claim_name(owner, template, _ordinal(pod))
            claim = self._claims.get(namespace_of(owner), name)
            if claim is None or is_deleting(claim):
                continue
            owners = owners_of_claim(claim, owner, pod, scaled_down=scaled_down)
            if owners is not None:
                await self.patch(CLAIMS, claim, {"metadata": {"ownerReferences": owners}})

    async def _update(
        self, owner: Json, pods: dict[int, Json], wanted: range, update: Json
    ) -> None:
        """Delete the highest pods of an old template.

        One at a time once those above it are up, or, where the set says maxUnavailable (upstream's
        server keeps it with the gate MaxUnavailableStatefulSet only), as many as that allows.
        """
        strategy = mapping(spec_of(owner).get("updateStrategy"))
        if strategy.get("type") == "OnDelete":
            return
        rolling = mapping(strategy.get("rollingUpdate"))
        floor = wanted.start + integer(rolling.get("partition"))
        limit = rolling.get("maxUnavailable")
        missing = sum(not self._is_up(owner, pods.get(one)) for one in wanted)
        budget = max(scaled(limit, len(wanted), up=False), 1) - missing
        for ordinal in reversed(wanted):
            if ordinal < floor or (limit is not None and budget <= 0):
                return
            pod = pods.get(ordinal)
            if pod is not None and not _has(pod, owner, update) and not is_deleting(pod):
                await self._take_down(owner, pod)
                budget -= 1
                if limit is None:
                    return
            elif limit is None and not self._is_up(owner, pod):
                return

    async def _tell(self, owner: Json, pods: dict[int, Json], current: Json, update: Json) -> None:
        spec, now = spec_of(owner), self.clock.now()
        wait = integer(spec.get("minReadySeconds"))
        living = list(pods.values())
        updated = sum(_has(pod, owner, update) for pod in living)
        ready = sum(is_ready(pod) for pod in living)
        partition = mapping(mapping(spec.get("updateStrategy")).get("rollingUpdate"))
        wanted = integer(spec.get("replicas"))
        done = updated == ready == len(living) == wanted and not integer(partition.get("partition"))
        if done:
            current = update
        counts = {
            "readyReplicas": ready,
            "currentReplicas": sum(_has(pod, owner, current) for pod in living),
            "updatedReplicas": updated,
        }
        status: Json = {
            "observedGeneration": metadata_of(owner).get("generation"),
            "replicas": len(living),
            "currentRevision": name_of(current),
            "updateRevision": name_of(update),
            "collisionCount": integer(status_of(owner).get("collisionCount")),
            **{name: count for name, count in counts.items() if count},
            "availableReplicas": sum(is_available(pod, wait, now) for pod in living),
        }
        await self.update_status(self.resource, owner, status)


def _ordinal(pod: Json) -> int:
    found = _ORDINAL(name_of(pod))
    return int(found[1]) if found else -1


def _has(pod: Json, owner: Json, revision: Json) -> bool:
    label = text(labels_of(pod).get(REVISION_LABEL))
    return f"{name_of(owner)}-{label}" == name_of(revision)


def _current_revision(owner: Json, revisions: list[Json], update: Json) -> Json:
    name = text(status_of(owner).get("currentRevision"))
    return next((one for one in revisions if name_of(one) == name), update)


def _revision_for(owner: Json, ordinal: int, current: Json, update: Json) -> Json:
    """Below the partition a pod is made as it was, above it as it is to be."""
    spec = spec_of(owner)
    strategy = mapping(spec.get("updateStrategy"))
    start = integer(mapping(spec.get("ordinals")).get("start"))
    partition = integer(mapping(strategy.get("rollingUpdate")).get("partition"))
    rolls = strategy.get("type") != "OnDelete"
    return current if rolls and ordinal < start + partition else update
