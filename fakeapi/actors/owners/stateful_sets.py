"""StatefulSets: pods with names, one after the other, each with its claims.

Source: pkg/controller/statefulset of Kubernetes v1.36.3. Claims are kept when pods go (the
default policy); maxUnavailable is 1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ...objects import (
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
from ..conditions import is_ready
from ..resources import CLAIMS, PODS, STATEFUL_SETS
from .pods import is_available, phase_of, pod_from
from .revisions import REVISION_LABEL, RevisedOwner, template_of

if TYPE_CHECKING:
    from ..controller import Context

__all__ = ["StatefulSets"]

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
        wait = integer(mapping(owner.get("spec")).get("minReadySeconds"))
        self.plan_availability(key, list(pods.values()), wait)

    async def _step(self, owner: Json, pods: dict[int, Json], current: Json, update: Json) -> None:
        spec = mapping(owner.get("spec"))
        monotonic = spec.get("podManagementPolicy") != "Parallel"
        start = integer(mapping(spec.get("ordinals")).get("start"))
        wanted = range(start, start + integer(spec.get("replicas")))
        for ordinal in wanted:
            waits = await self._keep(owner, ordinal, pods, current, update)
            if waits and monotonic:
                return
        surplus = sorted((one for one in pods if one not in wanted), reverse=True)
        for ordinal in surplus:
            if monotonic and not all(self._is_up(owner, pods.get(one)) for one in wanted):
                return
            if not is_deleting(pods[ordinal]):
                await self.delete(PODS, pods[ordinal])
            if monotonic:
                return
        await self._update(owner, pods, wanted, update)

    async def _keep(
        self, owner: Json, ordinal: int, pods: dict[int, Json], current: Json, update: Json
    ) -> bool:
        """See that the pod of an ordinal is there; whether others have to wait for it."""
        pod = pods.get(ordinal)
        if pod is not None and phase_of(pod) in ("Succeeded", "Failed"):
            if not is_deleting(pod):
                await self.delete(PODS, pod)
            return True
        if pod is None:
            await self._make(owner, ordinal, _revision_for(owner, ordinal, current, update))
            return True
        return not self._is_up(owner, pod)

    def _is_up(self, owner: Json, pod: Json | None) -> bool:
        wait = integer(mapping(owner.get("spec")).get("minReadySeconds"))
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
        spec = dict(mapping(pod.get("spec")))
        spec["hostname"] = name
        spec["subdomain"] = text(mapping(owner.get("spec")).get("serviceName"))
        claims = mappings(mapping(owner.get("spec")).get("volumeClaimTemplates"))
        ours = {name_of(claim) for claim in claims}
        volumes = [one for one in mappings(spec.get("volumes")) if one.get("name") not in ours]
        for claim in claims:
            claim_name = await self._claim(owner, claim, ordinal)
            source = {"claimName": claim_name}
            volumes.append({"name": name_of(claim), "persistentVolumeClaim": source})
        if volumes:
            spec["volumes"] = volumes
        _, failure = await self.create_pods(owner, [{**pod, "spec": spec}])
        if failure is not None:
            raise failure

    async def _claim(self, owner: Json, template: Json, ordinal: int) -> str:
        name = f"{name_of(template)}-{name_of(owner)}-{ordinal}"
        if self._claims.get(namespace_of(owner), name) is None:
            selector = mapping(mapping(owner.get("spec")).get("selector"))
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
        return name

    async def _update(
        self, owner: Json, pods: dict[int, Json], wanted: range, update: Json
    ) -> None:
        """Delete the highest pod of an old template, once those above it are up."""
        strategy = mapping(mapping(owner.get("spec")).get("updateStrategy"))
        if strategy.get("type") == "OnDelete":
            return
        floor = wanted.start + integer(mapping(strategy.get("rollingUpdate")).get("partition"))
        for ordinal in reversed(wanted):
            if ordinal < floor:
                return
            pod = pods.get(ordinal)
            if pod is not None and not _has(pod, owner, update) and not is_deleting(pod):
                await self.delete(PODS, pod)
                return
            if not self._is_up(owner, pod):
                return

    async def _tell(self, owner: Json, pods: dict[int, Json], current: Json, update: Json) -> None:
        spec, now = mapping(owner.get("spec")), self.clock.now()
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
            "collisionCount": integer(mapping(owner.get("status")).get("collisionCount")),
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
    name = text(mapping(owner.get("status")).get("currentRevision"))
    return next((one for one in revisions if name_of(one) == name), update)


def _revision_for(owner: Json, ordinal: int, current: Json, update: Json) -> Json:
    """Below the partition a pod is made as it was, above it as it is to be."""
    spec = mapping(owner.get("spec"))
    strategy = mapping(spec.get("updateStrategy"))
    start = integer(mapping(spec.get("ordinals")).get("start"))
    partition = integer(mapping(strategy.get("rollingUpdate")).get("partition"))
    rolls = strategy.get("type") != "OnDelete"
    return current if rolls and ordinal < start + partition else update
