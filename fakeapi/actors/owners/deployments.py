"""Deployments: a ReplicaSet for each template, and rollouts from one to the next.

Source: pkg/controller/deployment of Kubernetes v1.36.3. The hash of a template is not upstream's,
which is computed from the memory of a Go struct.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.objects import Object, condition, owner_reference, with_condition
from fakeapi.actors.owners.pods import Owner, scaled, template_hash
from fakeapi.actors.resources import DEPLOYMENTS, REPLICA_SETS
from fakeapi.types import times
from fakeapi.types.objects import Json, integer, mapping, mappings, string_map, text

if TYPE_CHECKING:
    from fakeapi.actors.controller import Context

_HASH: Final = "pod-template-hash"
_REVISION: Final = "deployment.kubernetes.io/revision"
_DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
_MAX: Final = "deployment.kubernetes.io/max-replicas"
_NO_DEADLINE: Final = 2**31 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class _Rollout:
    """A Deployment, its old ReplicaSets (the oldest first) and the one of its template."""

    deployment: Object
    old: list[Object]
    new: Object | None

    @property
    def spec(self) -> Json:
        return self.deployment.spec

    @property
    def sets(self) -> list[Object]:
        return [*self.old, self.new] if self.new is not None else self.old

    @property
    def wanted(self) -> int:
        return self.deployment.replicas

    @property
    def is_recreate(self) -> bool:
        return mapping(self.spec.get("strategy")).get("type") == "Recreate"

    @property
    def max_surge(self) -> int:
        if self.is_recreate:
            return 0
        return scaled(self._rolling.get("maxSurge"), self.wanted, up=True)

    @property
    def max_unavailable(self) -> int:
        """Return maxUnavailable as a number; 1 if it and maxSurge are 0 (ResolveFenceposts)."""
        if self.is_recreate:
            return 0
        unavailable = scaled(self._rolling.get("maxUnavailable"), self.wanted, up=False)
        return min(unavailable if unavailable or self.max_surge else 1, self.wanted)

    @property
    def _rolling(self) -> Json:
        return mapping(mapping(self.spec.get("strategy")).get("rollingUpdate"))

    @property
    def new_size(self) -> int:
        """Return the replicas that the new ReplicaSet may have now (NewRSNewReplicas)."""
        if self.is_recreate:
            return 0 if any(one.replicas for one in self.old) else self.wanted
        size = self.new.replicas if self.new is not None else 0
        if size > self.wanted:
            return self.wanted
        room = self.wanted + self.max_surge - sum(one.replicas for one in self.sets)
        return size + max(min(room, self.wanted - size), 0)

    @property
    def size_annotations(self) -> Json:
        return {_DESIRED: str(self.wanted), _MAX: str(self.wanted + self.max_surge)}

    @property
    def is_scaled(self) -> bool:
        """True if `replicas` has changed since the ReplicaSets were sized."""
        sizes = [one.annotation(_DESIRED) for one in self.sets if one.replicas > 0]
        return any(size not in ("", str(self.wanted)) for size in sizes)


class Deployments(Owner):
    """Scales the ReplicaSets of each Deployment until only the newest has replicas."""

    name = "deployment-controller"
    resource = DEPLOYMENTS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._sets = self.informer(REPLICA_SETS, self._dependent_changed)

    async def sync(self, key: str) -> None:
        """Take the next step of a rollout, then write the status."""
        deployment = self.owners.objects.get(key)
        if deployment is None:
            return
        sets = sorted(await self.claimed(deployment, self._sets), key=_age)
        new = _new_of(deployment, sets)
        rollout = _Rollout(deployment, [one for one in sets if one is not new], new)
        is_paused = bool(rollout.spec.get("paused"))
        if not deployment.is_deleting:
            if not is_paused:
                rollout = await self._with_new(rollout)
            if is_paused or rollout.is_scaled:
                await self._scale_all(rollout)
            elif rollout.is_recreate:
                await self._recreate(rollout)
            else:
                await self._roll(rollout)
            if not is_paused:
                await self._truncate_history(rollout)
        await self._write_status(key, rollout)

    async def _with_new(self, rollout: _Rollout) -> _Rollout:
        """Create the ReplicaSet of the template if need be; give it the newest revision."""
        deployment, new = rollout.deployment, rollout.new
        revision = str(max(map(_revision, rollout.old), default=0) + 1)
        if new is None:
            new = await self._create_set(rollout, revision)
        elif _revision(new) < int(revision):
            new = await self.patch(REPLICA_SETS, new, _revision_patch(revision))
        if deployment.annotation(_REVISION) != new.annotation(_REVISION):
            patch = _revision_patch(new.annotation(_REVISION))
            await self.patch(DEPLOYMENTS, deployment, patch)
        return dataclasses.replace(rollout, new=new)

    async def _create_set(self, rollout: _Rollout, revision: str) -> Object:
        deployment, spec = rollout.deployment, rollout.spec
        template = deployment.template
        collisions = integer(deployment.status.get("collisionCount"))
        number = template_hash(template, collisions)
        labels = {**template.labels, _HASH: number}
        selector = mapping(spec.get("selector"))
        matched = {**mapping(selector.get("matchLabels")), _HASH: number}
        annotations: Json = {**rollout.size_annotations, _REVISION: revision}
        try:
            created = await self.create(
                REPLICA_SETS,
                {
                    "metadata": {
                        "name": f"{deployment.name}-{number}",
                        "namespace": deployment.namespace,
                        "labels": labels,
                        "annotations": annotations,
                        "ownerReferences": [owner_reference(DEPLOYMENTS, deployment)],
                    },
                    "spec": {
                        "replicas": rollout.new_size,
                        "minReadySeconds": integer(spec.get("minReadySeconds")),
                        "selector": {**selector, "matchLabels": matched},
                        "template": {
                            **template,
                            "metadata": {**template.metadata, "labels": labels},
                        },
                    },
                },
            )
        except ActorApiError as error:
            if error.reason == "AlreadyExists":
                status = {**deployment.status, "collisionCount": collisions + 1}
                await self.update_status(DEPLOYMENTS, deployment, status)
            raise
        if created.replicas:
            await self._record_scaling(deployment, created, before=0, after=created.replicas)
        return created

    async def _scale_all(self, rollout: _Rollout) -> None:
        """Distribute the replicas over the ReplicaSets in proportion to their sizes."""
        active = [one for one in rollout.sets if one.replicas > 0]
        if len(active) <= 1:
            target = active[0] if active else rollout.new
            if target is not None:
                await self._resize(rollout, target, rollout.wanted)
            return
        total = sum(one.replicas for one in active)
        allowed = rollout.wanted + rollout.max_surge if rollout.wanted else 0
        rest = allowed - total
        largest = sorted(active, key=lambda one: (-one.replicas, _age(one)))
        sizes = {}
        for one in largest:
            share = round(one.replicas * allowed / total) - one.replicas
            share = min(share, rest) if rest >= 0 else max(share, rest)
            if rest * share < 0:
                share = 0
            rest -= share
            sizes[one.name] = max(one.replicas + share, 0)
        sizes[largest[0].name] = max(sizes[largest[0].name] + rest, 0)
        for one in largest:
            await self._resize(rollout, one, sizes[one.name])

    async def _recreate(self, rollout: _Rollout) -> None:
        """Scale the new ReplicaSet up once the last old pod is gone."""
        for one in rollout.old:
            await self._resize(rollout, one, 0)
        uids = {one.uid for one in rollout.old}
        remaining = [
            pod
            for pod in self.pods.of_namespace(rollout.deployment.namespace)
            if pod.owner.get("uid") in uids and (pod.is_active or pod.is_deleting)
        ]
        if not remaining and rollout.new is not None:
            await self._resize(rollout, rollout.new, rollout.wanted)

    async def _roll(self, rollout: _Rollout) -> None:
        """Scale up within maxSurge; if there is nothing to add, down within maxUnavailable."""
        new = rollout.new
        if new is None:
            return
        await self._resize(rollout, new, rollout.new_size)
        if rollout.new_size != new.replicas:
            return
        least = rollout.wanted - rollout.max_unavailable
        total = sum(one.replicas for one in rollout.sets)
        spare = total - least - (new.replicas - _available(new))
        if spare <= 0:
            return
        sizes = _sizes_without_unavailable(rollout.old, spare)
        surplus = sum(_available(one) for one in rollout.sets) - least
        for one in rollout.old:
            down = max(min(sizes[one.name], surplus), 0)
            surplus -= down
            await self._resize(rollout, one, sizes[one.name] - down)

    async def _resize(self, rollout: _Rollout, one: Object, replicas: int) -> None:
        """Set the replicas of a ReplicaSet, and the annotations about the Deployment's size."""
        annotations = rollout.size_annotations
        is_current = all(one.annotation(name) == value for name, value in annotations.items())
        before = one.replicas
        if before == replicas and (is_current or not replicas):
            return
        patch: Json = {"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}}
        await self.patch(REPLICA_SETS, one, patch, if_unchanged=True)
        if before != replicas:
            await self._record_scaling(rollout.deployment, one, before=before, after=replicas)

    async def _record_scaling(
        self, deployment: Object, one: Object, *, before: int, after: int
    ) -> None:
        way = "up" if before < after else "down"
        message = f"Scaled {way} replica set {one.name} from {before} to {after}"
        await self.record(deployment, "ScalingReplicaSet", message)

    async def _truncate_history(self, rollout: _Rollout) -> None:
        """Delete old ReplicaSets beyond revisionHistoryLimit."""
        limit = rollout.spec.get("revisionHistoryLimit")
        if not isinstance(limit, int) or not _is_complete(rollout, rollout.deployment.status):
            return
        empty = [
            one
            for one in rollout.old
            if not one.replicas and not integer(one.status.get("replicas")) and not one.is_deleting
        ]
        empty.sort(key=_revision)
        for one in empty[: max(len(rollout.old) - limit, 0)]:
            await self.delete(REPLICA_SETS, one)

    async def _write_status(self, key: str, rollout: _Rollout) -> None:
        """Replace the status, also if the Deployment has changed meanwhile."""
        now = self.clock.now()
        status = _status(rollout)
        conditions = _conditions(rollout, status, now)
        if conditions:
            status["conditions"] = conditions
        live = self.owners.objects.get(key, rollout.deployment)
        if live.status != status:
            gone: Json = {name: None for name in live.status if name not in status}
            patch: Json = {"status": {**gone, **status}}
            await self.patch(DEPLOYMENTS, live, patch, subresource="status")
        deadline = rollout.spec.get("progressDeadlineSeconds")
        progressing = next((one for one in conditions if one["type"] == "Progressing"), {})
        has_ended = progressing.get("reason") in (
            "NewReplicaSetAvailable",
            "ProgressDeadlineExceeded",
        )
        if progressing and not has_ended and isinstance(deadline, int):
            since = times.epoch_seconds(text(progressing.get("lastUpdateTime")))
            self.queue.add_after(key, max(since + deadline - now, 0.001))


def _new_of(deployment: Object, sets: list[Object]) -> Object | None:
    """Return the oldest ReplicaSet with the template, the label of its hash ignored."""
    return next((one for one in sets if _bare_template(one) == deployment.template), None)


def _bare_template(one: Object) -> Json:
    template = one.template
    labels = {key: value for key, value in string_map(template.labels).items() if key != _HASH}
    return {**template, "metadata": {**template.metadata, "labels": labels}}


def _age(one: Object) -> tuple[str, str]:
    return one.created_at, one.name


def _revision(one: Object) -> int:
    value = one.annotation(_REVISION)
    return int(value) if value.isdecimal() else 0


def _revision_patch(revision: str) -> Json:
    return {"metadata": {"annotations": {_REVISION: revision}}}


def _available(one: Object) -> int:
    return integer(one.status.get("availableReplicas"))


def _sizes_without_unavailable(old: list[Object], spare: int) -> dict[str, int]:
    """Return the sizes of old ReplicaSets without unavailable pods, at most `spare` less."""
    sizes = {}
    for one in old:
        down = max(min(spare, one.replicas - _available(one)), 0)
        spare -= down
        sizes[one.name] = one.replicas - down
    return sizes


def _is_complete(rollout: _Rollout, status: Json) -> bool:
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    return all(integer(status.get(name)) == rollout.wanted for name in counts)


def _status(rollout: _Rollout) -> Json:
    def total(field: str, sets: list[Object]) -> int:
        return sum(integer(one.status.get(field)) for one in sets)

    sets = rollout.sets
    available = total("availableReplicas", sets)
    counts = {
        "replicas": total("replicas", sets),
        "updatedReplicas": total("replicas", [rollout.new] if rollout.new else []),
        "readyReplicas": total("readyReplicas", sets),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(one.replicas for one in sets) - available, 0),
    }
    status: Json = {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = total("terminatingReplicas", sets)
    status["observedGeneration"] = rollout.deployment.generation
    collisions = rollout.deployment.status.get("collisionCount")
    if collisions is not None:
        status["collisionCount"] = collisions
    return status


def _conditions(rollout: _Rollout, status: Json, now: float) -> list[Json]:
    stamp = times.timestamp(now)
    old = mappings(rollout.deployment.status.get("conditions"))
    enough = integer(status.get("availableReplicas")) >= rollout.wanted - rollout.max_unavailable
    reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
    has = "has" if enough else "does not have"
    available = condition(
        "Available", str(enough), reason, f"Deployment {has} minimum availability."
    )
    conditions = _with_changed(old, available, stamp)
    deadline = rollout.spec.get("progressDeadlineSeconds")
    if not isinstance(deadline, int) or deadline == _NO_DEADLINE:
        return [one for one in conditions if one.get("type") != "Progressing"]
    progress, has_moved = _progress(rollout, status, now)
    if progress is None:
        return conditions
    return _with_changed(conditions, progress, stamp, always=has_moved)


def _progress(rollout: _Rollout, status: Json, now: float) -> tuple[Json | None, bool]:
    """Return the Progressing condition if it changes, and if the rollout has made progress."""
    deployment, new = rollout.deployment, rollout.new
    current = deployment.condition("Progressing")
    left = integer(status.get("replicas")) - integer(status.get("updatedReplicas"))
    if current.get("reason") == "NewReplicaSetAvailable" and left == 0:
        return None, False
    shown = f'ReplicaSet "{new.name}"' if new else f'Deployment "{deployment.name}"'
    if _is_complete(rollout, status):
        message = f"{shown} has successfully progressed."
        return condition("Progressing", "True", "NewReplicaSetAvailable", message), False
    old = deployment.status
    left_before = integer(old.get("replicas")) - integer(old.get("updatedReplicas"))
    names = ("updatedReplicas", "readyReplicas", "availableReplicas")
    has_moved = left < left_before or any(
        integer(status.get(name)) > integer(old.get(name)) for name in names
    )
    if has_moved or not current:
        message = f"{shown} is progressing."
        return condition("Progressing", "True", "ReplicaSetUpdated", message), True
    deadline = integer(rollout.spec.get("progressDeadlineSeconds"))
    if times.epoch_seconds(text(current.get("lastUpdateTime"))) + deadline > now:
        return None, False
    message = f"{shown} has timed out progressing."
    return condition("Progressing", "False", "ProgressDeadlineExceeded", message), False


def _with_changed(
    conditions: list[Json], new: Json, stamp: str, *, always: bool = False
) -> list[Json]:
    """Set a condition unless status and reason are the same; `always` sets lastUpdateTime too."""
    present = next((one for one in conditions if one.get("type") == new["type"]), {})
    same = all(present.get(name) == new[name] for name in ("status", "reason"))
    if same and not always:
        return conditions
    return with_condition(conditions, {**new, "lastUpdateTime": stamp}, stamp)
