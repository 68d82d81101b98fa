"""Build a case from the objects of a cluster: the cluster before a decision, and the decision.

The pods of interest are created in a step. Their observed outcome becomes the expectation.
Other pods without a node are left out, unless they are nominated to a node or belong to a group of
a pod of interest: such pods could not be placed, or have not been tried yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..errors import InputError
from ..format.reading import node_of, short_name_of
from ..format.resources import objects, part
from ..format.short_forms import entry_of
from .anonymise import Anonymiser
from .cluster import CONTROLLERS, KINDS, kept_part, without

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ..api import Json

_AREA: Final = "captured"
_SOURCE: Final = "captured from a cluster"
#: Kinds behind alpha gates, and the gates.
_GROUP_GATES: Final = ("GenericWorkload", "GangScheduling")
_POD_GROUP: Final = "PodGroup"


@dataclass(frozen=True, kw_only=True)
class Captured:
    """A cluster before the decisions on some pods, and the observed outcome of each pod."""

    cluster: Sequence[Json]
    #: The pods of interest, each followed by the objects that it owns.
    waiting: Sequence[Json]
    expectations: Sequence[Json]
    owners: Mapping[int, str] = field(default_factory=dict)
    config: Json | None = None

    @property
    def gates(self) -> dict[str, bool]:
        """The feature gates without which the objects cannot be created."""
        needs_groups = any(obj["kind"] == _POD_GROUP for obj in self.cluster)
        return dict.fromkeys(_GROUP_GATES, True) if needs_groups else {}


def captured(
    items: Sequence[Json],
    *,
    names: Collection[str] = (),
    config: Json | None = None,
    anonymises: bool = True,
) -> Captured:
    """Return the cluster of some objects before the decisions on the named pods.

    `names` are `namespace/name`; without names all pods that wait for a node are of interest.
    Raises InputError for an unknown name, or if no pod waits.
    """
    pods = {key_of(obj): obj for obj in items if obj["kind"] == "Pod"}
    for name in names:
        if name not in pods:
            raise InputError(f"there is no pod {name}")
    chosen = [pods[name] for name in names] or [pod for pod in pods.values() if _is_waiting(pod)]
    if not chosen:
        raise InputError("no pod waits for a node; name one with --pod")
    chosen.sort(key=_queue_position)
    interest = {key_of(pod) for pod in chosen}
    groups = {_group_of(pod) for pod in chosen} - {""}
    companions = [
        pod
        for key, pod in pods.items()
        if key not in interest and _is_waiting(pod) and _group_of(pod) in groups
    ]
    left_out = interest | {key_of(pod) for pod in companions}
    before = [
        obj
        for obj in items
        if obj["kind"] != "Pod" or (key_of(obj) not in left_out and _was_there(obj, chosen))
    ]
    used = {str(part(obj, "spec").get("priorityClassName")) for obj in items}
    before = [obj for obj in before if obj["kind"] != "PriorityClass" or short_name_of(obj) in used]
    controllers = {_controller_of(pod) for pod in chosen}
    before = [
        obj
        for obj in before
        if obj["kind"] not in CONTROLLERS or (obj["kind"], key_of(obj)) in controllers
    ]
    return _assembled(before, [*companions, *chosen], chosen, config, anonymises=anonymises)


def _assembled(
    before: Iterable[Json],
    waiting: Sequence[Json],
    chosen: Sequence[Json],
    config: Json | None,
    *,
    anonymises: bool,
) -> Captured:
    """Put the parts together: objects that a pod owns are created after it."""
    anonymiser = Anonymiser() if anonymises else None
    cluster: list[Json] = []
    owned: dict[str, list[Json]] = {}
    kinds = [kind for _, kind in KINDS]
    group = [obj for obj in before if obj["kind"] in kinds]
    for obj in sorted(group, key=lambda obj: kinds.index(str(obj["kind"]))):
        kept = kept_part(obj)
        if kept is not None:
            owner = _owner_of(obj)
            (owned.setdefault(owner, []) if owner else cluster).append(kept)
    created: list[Json] = []
    owners: dict[int, str] = {}
    for pod in waiting:
        kept = kept_part(pod)
        if kept is None:
            raise InputError(f"pod {key_of(pod)} has ended")
        created.append(_undecided(kept, _controller_of(pod)))
        for obj in owned.pop(key_of(pod), []):
            owners[len(created)] = key_of(pod)
            created.append(_released(obj))
    bound_owners: dict[int, str] = {}
    for owner, objects_of_owner in owned.items():
        for obj in objects_of_owner:
            bound_owners[len(cluster)] = owner
            cluster.append(obj)
    expectations = [_expectation(pod) for pod in chosen]
    if anonymiser is not None:
        everything = anonymiser.objects([*cluster, *created])
        cluster, created = everything[: len(cluster)], everything[len(cluster) :]
        expectations = [_renamed(obj, anonymiser) for obj in expectations]
        owners = {number: _renamed_key(key, anonymiser) for number, key in owners.items()}
        bound_owners = {n: _renamed_key(key, anonymiser) for n, key in bound_owners.items()}
        config = anonymiser.config(config) if config is not None else None
    offset = len(cluster)
    return Captured(
        cluster=cluster,
        waiting=created,
        expectations=expectations,
        owners={**bound_owners, **{offset + number: key for number, key in owners.items()}},
        config=config,
    )


def document_of(whole: Captured, name: str) -> Json:
    """Return the content of a case file."""
    offset = len(whole.cluster)
    nodes = sum(1 for item in whole.cluster if item["kind"] == "Node")
    description = f"Decisions that were observed in a cluster of {nodes} nodes."
    cluster = [_entry(item, whole.owners.get(n)) for n, item in enumerate(whole.cluster)]
    create = [_entry(item, whole.owners.get(offset + n)) for n, item in enumerate(whole.waiting)]
    case: Json = {"name": name, "source": _SOURCE, "description": description}
    if whole.gates:
        case["gates"] = whole.gates
    if whole.config:
        case["config"] = whole.config
    case["cluster"] = cluster
    case["steps"] = [{"create": create}, *({"expect": item} for item in whole.expectations)]
    return {"area": _AREA, "cases": [case]}


def _entry(obj: Json, owner: str | None) -> Json:
    """Return the entry of a case for an object, which may belong to a pod."""
    return {"object": obj, "controlled_by": owner} if owner else entry_of(obj)


def head_of(message: str) -> str:
    """Return a condition's message up to the text of PostFilter, with the period."""
    head, period, _ = message.partition(". ")
    return f"{head}." if period else head


def key_of(pod: Json) -> str:
    """Return `namespace/name` of an object."""
    return f"{part(pod, 'metadata').get('namespace', 'default')}/{short_name_of(pod)}"


def _expectation(pod: Json) -> Json:
    """Return the observed outcome of a pod as an expectation."""
    name = key_of(pod).removeprefix("default/")
    node = node_of(pod)
    if node:
        return {"pod": name, "bound_to": node}
    for condition in objects(part(pod, "status").get("conditions")):
        if condition.get("type") != "PodScheduled":
            continue
        reason, message = condition.get("reason"), str(condition.get("message", ""))
        if reason == "SchedulingGated":
            return {"pod": name, "gated": True}
        if reason == "Unschedulable":
            return {"pod": name, "unschedulable": {"message_prefix": head_of(message)}}
    return {"pod": name, "not_bound": True}


def _renamed(expectation: Json, anonymiser: Anonymiser) -> Json:
    fresh = {**expectation, "pod": _renamed_key(str(expectation["pod"]), anonymiser)}
    if "bound_to" in fresh:
        fresh["bound_to"] = anonymiser.name(str(fresh["bound_to"]))
    prefix = part(fresh, "unschedulable").get("message_prefix")
    if prefix is not None:
        fresh["unschedulable"] = {"message_prefix": anonymiser.message(str(prefix))}
    return fresh


def _renamed_key(key: str, anonymiser: Anonymiser) -> str:
    return "/".join(anonymiser.name(word) for word in key.split("/"))


def _undecided(pod: Json, controller: tuple[str, str]) -> Json:
    """Return a pod as it was before the decision, with its controller (kind and key)."""
    spec, status, metadata = part(pod, "spec"), part(pod, "status"), part(pod, "metadata")
    kept = {name: status[name] for name in ("resourceClaimStatuses",) if name in status}
    kind, key = controller
    if kind:
        api_version = "v1" if kind == "ReplicationController" else "apps/v1"
        owner = {"apiVersion": api_version, "kind": kind, "name": key.partition("/")[2]}
        metadata = {**metadata, "ownerReferences": [{**owner, "uid": "none", "controller": True}]}
    fresh = {**without(pod, "status"), "metadata": metadata, "spec": without(spec, "nodeName")}
    return {**fresh, "status": kept} if kept else fresh


def _released(obj: Json) -> Json:
    """Return an object of an undecided pod: a claim is not allocated yet."""
    return without(obj, "status") if obj["kind"] == "ResourceClaim" else obj


def _was_there(pod: Json, chosen: Sequence[Json]) -> bool:
    """True if a pod had its node, or was nominated, before the last decision of interest."""
    if _is_waiting(pod):
        return bool(part(pod, "status").get("nominatedNodeName"))
    moments = [moment for each in chosen if (moment := _scheduled_at(each))]
    if len(moments) < len(chosen):
        return True  # one of them waits now
    return (_scheduled_at(pod), _created_at(pod)) <= max(
        (_scheduled_at(each), _created_at(each)) for each in chosen
    )


def _is_waiting(pod: Json) -> bool:
    metadata = part(pod, "metadata")
    return not node_of(pod) and "deletionTimestamp" not in metadata


def _scheduled_at(pod: Json) -> str:
    """Return the time at which a pod got its node; empty without one."""
    for condition in objects(part(pod, "status").get("conditions")):
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "True"):
            return str(condition.get("lastTransitionTime") or "")
    return ""


def _created_at(obj: Json) -> str:
    return str(part(obj, "metadata").get("creationTimestamp") or "")


def _queue_position(pod: Json) -> tuple[int, str, str]:
    priority = part(pod, "spec").get("priority")
    return -(priority if isinstance(priority, int) else 0), _created_at(pod), key_of(pod)


def _group_of(pod: Json) -> str:
    name = part(part(pod, "spec"), "schedulingGroup").get("podGroupName")
    return f"{key_of(pod).partition('/')[0]}/{name}" if name else ""


def _owner_of(obj: Json) -> str:
    """Return the pod that controls a claim, as `namespace/name`; empty without one."""
    if obj["kind"] not in ("PersistentVolumeClaim", "ResourceClaim"):
        return ""
    metadata = part(obj, "metadata")
    for owner in objects(metadata.get("ownerReferences")):
        if owner.get("kind") == "Pod" and owner.get("controller"):
            return f"{metadata.get('namespace', 'default')}/{owner.get('name')}"
    return ""


def _controller_of(pod: Json) -> tuple[str, str]:
    """Return the kind and the key of the controller by which a pod is spread, empty without one."""
    metadata = part(pod, "metadata")
    for owner in objects(metadata.get("ownerReferences")):
        if owner.get("controller") and owner.get("kind") in CONTROLLERS:
            namespace = metadata.get("namespace", "default")
            return str(owner["kind"]), f"{namespace}/{owner.get('name')}"
    return "", ""
