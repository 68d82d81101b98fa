"""Deployments: a ReplicaSet for each template, and rollouts from one to the next.

Source: pkg/controller/deployment of Kubernetes v1.36.3. The hash of a template is not upstream's,
which is computed from the memory of a Go struct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.objects import (
    annotation,
    condition_of,
    controller_of,
    is_active,
    owner_reference,
    spec_of,
    status_of,
    uid_of,
    with_condition,
)
from fakeapi.actors.owners.pods import Owner, scaled, template_hash
from fakeapi.actors.resources import DEPLOYMENTS, REPLICA_SETS
from fakeapi.types import times
from fakeapi.types.objects import (
    Json,
    integer,
    is_deleting,
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

_HASH: Final = "pod-template-hash"
_REVISION: Final = "deployment.kubernetes.io/revision"
_DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
_MAX: Final = "deployment.kubernetes.io/max-replicas"
_NO_DEADLINE: Final = 2**31 - 1


class Deployments(Owner):
    """Scales the ReplicaSets of each Deployment until only the newest has replicas."""

    name = "deployment-controller"
    resource = DEPLOYMENTS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._sets = self.informer(REPLICA_SETS)
        self._sets.subscribe(self._dependent_changed)

    async def sync(self, key: str) -> None:
        """Take the next step of a rollout, then write the status."""
        deployment = self.owners.objects.get(key)
        if deployment is None:
            return
        sets = await self.claimed(deployment, self._sets)
        sets.sort(key=_age)
        if is_deleting(deployment):
            await self._write_status(key, deployment, sets, _new_of(deployment, sets))
            return
        spec = spec_of(deployment)
        new = _new_of(deployment, sets)
        paused = bool(spec.get("paused"))
        if not paused:
            new, sets = await self._current(deployment, sets, new)
        old = [one for one in sets if one is not new]
        if paused or self._is_scaling(deployment, sets):
            await self._scale_all(deployment, sets, new)
        elif mapping(spec.get("strategy")).get("type") == "Recreate":
            await self._recreate(deployment, old, new)
        elif new is not None:
            await self._roll(deployment, old, new)
        if not paused:
            await self._clean_up(deployment, old)
        await self._write_status(key, deployment, sets, new)

    async def _current(
        self, deployment: Json, sets: list[Json], new: Json | None
    ) -> tuple[Json, list[Json]]:
        """Return the ReplicaSet of the template, created if need be, with the newest revision."""
        old = [one for one in sets if one is not new]
        revision = str(max((_revision(one) for one in old), default=0) + 1)
        if new is None:
            new = await self._create(deployment, old, revision)
        elif _revision(new) < int(revision):
            patch: Json = {"metadata": {"annotations": {_REVISION: revision}}}
            new = await self.patch(REPLICA_SETS, new, patch)
        shown = annotation(new, _REVISION)
        if annotation(deployment, _REVISION) != shown:
            patch = {"metadata": {"annotations": {_REVISION: shown}}}
            await self.patch(DEPLOYMENTS, deployment, patch)
        return new, [*old, new]

    async def _create(self, deployment: Json, old: list[Json], revision: str) -> Json:
        spec = spec_of(deployment)
        template = mapping(spec.get("template"))
        collisions = integer(status_of(deployment).get("collisionCount"))
        number = template_hash(template, collisions)
        labels = {**string_map(metadata_of(template).get("labels")), _HASH: number}
        selector = mapping(spec.get("selector"))
        matched = {**string_map(selector.get("matchLabels")), _HASH: number}
        annotations: Json = {**_size_annotations(deployment), _REVISION: revision}
        made: Json = {
            "metadata": {
                "name": f"{name_of(deployment)}-{number}",
                "namespace": namespace_of(deployment),
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [owner_reference(DEPLOYMENTS, deployment)],
            },
            "spec": {
                "replicas": _room(deployment, old, 0),
                "minReadySeconds": integer(spec.get("minReadySeconds")),
                "selector": {**selector, "matchLabels": matched},
                "template": {**template, "metadata": {**metadata_of(template), "labels": labels}},
            },
        }
        try:
            created = await self.create(REPLICA_SETS, made)
        except ActorApiError as error:
            if error.reason == "AlreadyExists":
                status = {**status_of(deployment), "collisionCount": collisions + 1}
                await self.update_status(DEPLOYMENTS, deployment, status)
            raise
        if _replicas(created):
            message = f"Scaled up replica set {name_of(created)} from 0 to {_replicas(created)}"
            await self.record(deployment, "ScalingReplicaSet", message)
        return created

    def _is_scaling(self, deployment: Json, sets: list[Json]) -> bool:
        """True if `replicas` has changed since the ReplicaSets were scaled."""
        wanted = str(integer(spec_of(deployment).get("replicas")))
        sizes = [annotation(one, _DESIRED) for one in sets if _replicas(one) > 0]
        return any(size not in ("", wanted) for size in sizes)

    async def _scale_all(self, deployment: Json, sets: list[Json], new: Json | None) -> None:
        """Distribute the replicas over the ReplicaSets in proportion to their sizes."""
        active = [one for one in sets if _replicas(one) > 0]
        wanted = _replicas(deployment)
        if len(active) <= 1:
            target = active[0] if active else new
            if target is not None:
                await self._resize(deployment, target, wanted)
            return
        total = sum(_replicas(one) for one in active)
        allowed = wanted + _surge(deployment) if wanted else 0
        rest = allowed - total
        largest = sorted(active, key=lambda one: (-_replicas(one), _age(one)))
        sizes = {}
        for one in largest:
            share = round(_replicas(one) * allowed / total) - _replicas(one)
            share = min(share, rest) if rest >= 0 else max(share, rest)
            if rest * share < 0:
                share = 0
            rest -= share
            sizes[name_of(one)] = max(_replicas(one) + share, 0)
        sizes[name_of(largest[0])] = max(sizes[name_of(largest[0])] + rest, 0)
        for one in largest:
            await self._resize(deployment, one, sizes[name_of(one)])

    async def _recreate(self, deployment: Json, old: list[Json], new: Json | None) -> None:
        """Scale the new ReplicaSet up once the last old pod is gone."""
        for one in old:
            await self._resize(deployment, one, 0)
        uids = {uid_of(one) for one in old}
        pods = self.pods.of_namespace(namespace_of(deployment))
        left = [
            pod
            for pod in pods
            if controller_of(pod).get("uid") in uids and (is_active(pod) or is_deleting(pod))
        ]
        if not left and new is not None:
            wanted = _replicas(deployment)
            await self._resize(deployment, new, wanted)

    async def _roll(self, deployment: Json, old: list[Json], new: Json) -> None:
        """Scale up within maxSurge; if there is nothing to add, down within maxUnavailable."""
        wanted = _replicas(deployment)
        size = _replicas(new)
        grown = wanted if size > wanted else size + _room(deployment, [*old, new], size)
        if grown != size:
            await self._resize(deployment, new, grown)
            return
        await self._resize(deployment, new, size)  # its annotations may be old
        floor = wanted - _unavailable(deployment)
        total = sum(_replicas(one) for one in [*old, new])
        spare = total - floor - (_replicas(new) - _available(new))
        if spare <= 0:
            return
        sizes = _without_unhealthy(old, spare)
        surplus = sum(_available(one) for one in [*old, new]) - floor
        for one in old:
            down = max(min(sizes[name_of(one)], surplus), 0)
            surplus -= down
            await self._resize(deployment, one, sizes[name_of(one)] - down)

    async def _resize(self, deployment: Json, one: Json, replicas: int) -> None:
        annotations = _size_annotations(deployment)
        is_annotated = all(annotation(one, name) == value for name, value in annotations.items())
        if _replicas(one) == replicas and (is_annotated or not replicas):
            return
        patch: Json = {"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}}
        await self.patch(REPLICA_SETS, one, patch, if_unchanged=True)
        before = _replicas(one)
        if before != replicas:
            way = "up" if before < replicas else "down"
            message = f"Scaled {way} replica set {name_of(one)} from {before} to {replicas}"
            await self.record(deployment, "ScalingReplicaSet", message)

    async def _clean_up(self, deployment: Json, old: list[Json]) -> None:
        """Delete old ReplicaSets beyond revisionHistoryLimit."""
        limit = spec_of(deployment).get("revisionHistoryLimit")
        if not isinstance(limit, int) or not _is_complete(deployment):
            return
        empty = [
            one
            for one in old
            if not _replicas(one)
            and not integer(status_of(one).get("replicas"))
            and not is_deleting(one)
        ]
        empty.sort(key=_revision)
        for one in empty[: max(len(old) - limit, 0)]:
            await self.delete(REPLICA_SETS, one)

    async def _write_status(
        self, key: str, deployment: Json, sets: list[Json], new: Json | None
    ) -> None:
        status = _status(deployment, sets, new)
        now = self.clock.now()
        conditions = _conditions(deployment, status, new, now)
        if conditions:
            status["conditions"] = conditions
        live = self.owners.objects.get(key, deployment)
        await self._patch_status(live, status)
        deadline = spec_of(deployment).get("progressDeadlineSeconds")
        progressing = next((one for one in conditions if one["type"] == "Progressing"), {})
        due = progressing.get("reason") not in (
            "NewReplicaSetAvailable",
            "ProgressDeadlineExceeded",
        )
        if progressing and due and isinstance(deadline, int):
            since = times.epoch_seconds(text(progressing.get("lastUpdateTime")))
            self.queue.add_after(key, max(since + deadline - now, 0.001))

    async def _patch_status(self, deployment: Json, status: Json) -> None:
        """Replace the status, also if the object has changed."""
        old = status_of(deployment)
        if old == status:
            return
        gone: Json = {name: None for name in old if name not in status}
        await self.patch(
            DEPLOYMENTS, deployment, {"status": {**gone, **status}}, subresource="status"
        )


def _new_of(deployment: Json, sets: list[Json]) -> Json | None:
    """Return the oldest ReplicaSet with the template, the label of its hash ignored."""
    template = mapping(spec_of(deployment).get("template"))
    return next((one for one in sets if _bare_template(one) == template), None)


def _bare_template(one: Json) -> Json:
    template = mapping(spec_of(one).get("template"))
    metadata = dict(metadata_of(template))
    labels = {
        key: value for key, value in string_map(metadata.get("labels")).items() if key != _HASH
    }
    metadata["labels"] = labels
    return {**template, "metadata": metadata}


def _age(one: Json) -> tuple[str, str]:
    return text(metadata_of(one).get("creationTimestamp")), name_of(one)


def _revision(one: Json) -> int:
    value = annotation(one, _REVISION)
    return int(value) if value.isdecimal() else 0


def _replicas(one: Json) -> int:
    return integer(spec_of(one).get("replicas"))


def _available(one: Json) -> int:
    return integer(status_of(one).get("availableReplicas"))


def _rolling_limits(deployment: Json) -> tuple[int, int]:
    """Return maxSurge and maxUnavailable as numbers, not both 0 (ResolveFenceposts)."""
    spec = spec_of(deployment)
    wanted = integer(spec.get("replicas"))
    rolling = mapping(mapping(spec.get("strategy")).get("rollingUpdate"))
    surge = scaled(rolling.get("maxSurge"), wanted, up=True)
    unavailable = scaled(rolling.get("maxUnavailable"), wanted, up=False)
    return surge, unavailable if surge or unavailable else 1


def _rolls(deployment: Json) -> bool:
    strategy = mapping(spec_of(deployment).get("strategy"))
    return strategy.get("type") != "Recreate"


def _surge(deployment: Json) -> int:
    return _rolling_limits(deployment)[0] if _rolls(deployment) else 0


def _unavailable(deployment: Json) -> int:
    wanted = _replicas(deployment)
    return min(_rolling_limits(deployment)[1], wanted) if _rolls(deployment) and wanted else 0


def _room(deployment: Json, sets: list[Json], size: int) -> int:
    """Return the number of replicas that the new ReplicaSet may add (NewRSNewReplicas)."""
    wanted = _replicas(deployment)
    if not _rolls(deployment):
        return wanted if not any(_replicas(one) for one in sets) else 0
    room = wanted + _surge(deployment) - sum(_replicas(one) for one in sets)
    return max(min(room, wanted - size), 0)


def _size_annotations(deployment: Json) -> dict[str, str]:
    wanted = _replicas(deployment)
    return {_DESIRED: str(wanted), _MAX: str(wanted + _surge(deployment))}


def _without_unhealthy(old: list[Json], spare: int) -> dict[str, int]:
    """Return the sizes of old ReplicaSets without unavailable pods, at most `spare` less."""
    sizes = {}
    for one in old:
        down = max(min(spare, _replicas(one) - _available(one)), 0)
        spare -= down
        sizes[name_of(one)] = _replicas(one) - down
    return sizes


def _is_complete(deployment: Json) -> bool:
    wanted, status = _replicas(deployment), status_of(deployment)
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    return all(integer(status.get(name)) == wanted for name in counts)


def _status(deployment: Json, sets: list[Json], new: Json | None) -> Json:
    def total(field: str, of: list[Json]) -> int:
        return sum(integer(status_of(one).get(field)) for one in of)

    available = total("availableReplicas", sets)
    counts = {
        "replicas": total("replicas", sets),
        "updatedReplicas": total("replicas", [new] if new else []),
        "readyReplicas": total("readyReplicas", sets),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(map(_replicas, sets)) - available, 0),
    }
    status: Json = {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = total("terminatingReplicas", sets)
    status["observedGeneration"] = metadata_of(deployment).get("generation")
    collisions = status_of(deployment).get("collisionCount")
    if collisions is not None:
        status["collisionCount"] = collisions
    return status


def _conditions(deployment: Json, status: Json, new: Json | None, now: float) -> list[Json]:
    stamp = times.timestamp(now)
    spec, old = spec_of(deployment), status_of(deployment)
    floor = integer(spec.get("replicas")) - _unavailable(deployment)
    enough = integer(status.get("availableReplicas")) >= floor
    words = "has minimum availability" if enough else "does not have minimum availability"
    available: Json = {
        "type": "Available",
        "status": "True" if enough else "False",
        "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "message": f"Deployment {words}.",
    }
    conditions = _updated(mappings(old.get("conditions")), available, stamp)
    deadline = spec.get("progressDeadlineSeconds")
    if not isinstance(deadline, int) or deadline == _NO_DEADLINE:
        return [one for one in conditions if one.get("type") != "Progressing"]
    progress = _progress(deployment, status, new, now)
    if progress is not None:
        conditions = _updated(conditions, progress, stamp, always=bool(progress.pop("moved", None)))
    return conditions


def _progress(deployment: Json, status: Json, new: Json | None, now: float) -> Json | None:
    """Return the Progressing condition if it changes."""
    current = condition_of(deployment, "Progressing")
    settled = current.get("reason") == "NewReplicaSetAvailable"
    if settled and integer(status.get("replicas")) == integer(status.get("updatedReplicas")):
        return None
    shown = f'ReplicaSet "{name_of(new)}"' if new else f'Deployment "{name_of(deployment)}"'
    base: Json = {"type": "Progressing", "status": "True"}
    if _is_complete({**deployment, "status": status}):
        message = f"{shown} has successfully progressed."
        return {**base, "reason": "NewReplicaSetAvailable", "message": message}
    old = status_of(deployment)
    retiring = integer(old.get("replicas")) - integer(old.get("updatedReplicas"))
    left = integer(status.get("replicas")) - integer(status.get("updatedReplicas"))
    names = ("updatedReplicas", "readyReplicas", "availableReplicas")
    moved = left < retiring or any(
        integer(status.get(name)) > integer(old.get(name)) for name in names
    )
    if moved or not current:
        message = f"{shown} is progressing."
        return {**base, "reason": "ReplicaSetUpdated", "message": message, "moved": True}
    deadline = integer(spec_of(deployment).get("progressDeadlineSeconds"))
    if times.epoch_seconds(text(current.get("lastUpdateTime"))) + deadline <= now:
        message = f"{shown} has timed out progressing."
        reason = "ProgressDeadlineExceeded"
        return {**base, "status": "False", "reason": reason, "message": message}
    return None


def _updated(
    conditions: list[Json], condition: Json, stamp: str, *, always: bool = False
) -> list[Json]:
    """Set a condition unless status and reason are the same; `always` sets lastUpdateTime too."""
    present = next((one for one in conditions if one.get("type") == condition["type"]), {})
    same = all(present.get(name) == condition[name] for name in ("status", "reason"))
    if same and not always:
        return conditions
    return with_condition(conditions, {**condition, "lastUpdateTime": stamp}, stamp)
