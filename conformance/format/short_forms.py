"""Objects of the API as entries of a case: the inverse of `objects.objects_of`.

`entries_of` returns the shortest entries for some objects: `node: {name: a, cpu: 1}` if this entry
makes an equal node, `object: {...}` if no short form has all fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..errors import InputError
from .objects import (
    DEFAULT_IMAGE,
    HOSTNAME_LABEL,
    Item,
    PodShorthand,
    objects_of,
    priority_class_of,
)
from .reading import present, texts
from .resources import objects, part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..api import Json

_AMOUNTS = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "ephemeral_storage"}


def entries_of(things: Iterable[Json]) -> list[Json]:
    """Return the entries of `cluster` or `create` for objects, in their order.

    A priority class that the short form of a later pod creates has no entry of its own.
    """
    pairs: list[tuple[Json, Json]] = [(thing, entry_of(thing)) for thing in things]
    made = [
        priority_class_of(priority)
        for _, entry in pairs
        if isinstance(priority := part(entry, "pod").get("priority"), int)
    ]
    return [entry for thing, entry in pairs if thing not in made]


def entry_of(thing: Json) -> Json:
    """Return the entry for an object. Empty fields of the object are left out."""
    thing = _without_empty(thing)
    makers = {"Node": _node, "Pod": _pod, "Namespace": _namespace}
    if thing.get("apiVersion") == "v1" and (make := makers.get(str(thing.get("kind")))):
        entry = make(thing)
        if _stands_for(entry, thing):
            return entry
    return {"object": thing}


def _stands_for(entry: Json, thing: Json) -> bool:
    try:
        made = [*objects_of(msgspec.convert(entry, Item))]
    except (InputError, msgspec.ValidationError):
        return False
    # The first object of a pod with a priority is its class.
    return _without_empty(made[-1]) == thing


def _without_empty(thing: Json) -> Json:
    """Return an object without empty metadata, spec and status, which are the same as none."""
    metadata = {name: value for name, value in part(thing, "metadata").items() if value != {}}
    if thing.get("kind") in ("Pod", "PersistentVolumeClaim", "PodDisruptionBudget"):
        metadata.setdefault("namespace", "default")
    return {
        name: metadata if name == "metadata" else value
        for name, value in thing.items()
        if value != {}
    }


def _namespace(thing: Json) -> Json:
    return {"namespace": part(thing, "metadata").get("name")}


def _node(thing: Json) -> Json:
    metadata, spec, status = (part(thing, name) for name in ("metadata", "spec", "status"))
    amounts = {**part(status, "allocatable")}
    node: Json = {"name": metadata.get("name")}
    for resource, field, default in (
        ("cpu", "cpu", "4"),
        ("memory", "memory", "32Gi"),
        ("pods", "pods", "110"),
        ("ephemeral-storage", "ephemeral_storage", None),
    ):
        amount = amounts.pop(resource, None)
        if amount != default:
            node[field] = int(str(amount)) if resource == "pods" else amount
    labels = {
        key: value for key, value in part(metadata, "labels").items() if key != HOSTNAME_LABEL
    }
    node |= present(labels=labels, annotations=metadata.get("annotations"), resources=amounts)
    rest = {**spec}
    taints = [_taint(taint) for taint in objects(rest.pop("taints", None))]
    node |= present(taints=taints, unschedulable=rest.pop("unschedulable", None), spec=rest)
    left = {
        name: value for name, value in status.items() if name not in ("allocatable", "capacity")
    }
    images = objects(left.get("images"))
    if images and all(len(texts(image.get("names"))) == 1 for image in images):
        del left["images"]
        node["images"] = {texts(image.get("names"))[0]: image.get("sizeBytes") for image in images}
    if status.get("allocatable") != status.get("capacity"):
        left["capacity"] = status.get("capacity")
    return {"node": {**node, **present(status=left)}}


def _taint(taint: Json) -> str | Json:
    """Return a taint as kubectl writes it, if it has only key, value and effect."""
    if not {*taint} <= {"key", "value", "effect"}:
        return taint
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def _pod(thing: Json) -> Json:
    metadata, spec = part(thing, "metadata"), {**part(thing, "spec")}
    pod: Json = {"name": metadata.get("name")}
    if metadata.get("namespace") != "default":
        pod["namespace"] = metadata.get("namespace")
    pod |= present(labels=metadata.get("labels"), annotations=metadata.get("annotations"))
    pod |= present(node=spec.pop("nodeName", None), scheduler_name=spec.pop("schedulerName", None))
    pod |= _priority(spec)
    pod |= _containers(objects(spec.pop("containers", None)))
    inits = objects(spec.pop("initContainers", None))
    pod |= present(init_containers=_without_defaults(inits, "init"))
    pod |= present(node_selector=spec.pop("nodeSelector", None))
    pod |= _affinity(part(spec, "affinity"))
    spec.pop("affinity", None)
    pod |= present(tolerations=spec.pop("tolerations", None))
    gates = [gate.get("name") for gate in objects(spec.pop("schedulingGates", None))]
    group = part(spec, "schedulingGroup").get("podGroupName")
    if group is not None:
        del spec["schedulingGroup"]
    pod |= present(scheduling_gates=gates, pod_group=group, spec=spec, status=thing.get("status"))
    return {"pod": pod}


def _priority(spec: Json) -> Json:
    """Take the priority class out of a pod's spec; return the field that names it."""
    name = spec.pop("priorityClassName", None)
    if not isinstance(name, str):
        return {}
    number = name.removeprefix("priority-").replace("minus-", "-")
    if number.removeprefix("-").isdecimal():
        made = priority_class_of(int(number))
        if part(made, "metadata").get("name") == name:
            return {"priority": int(number)}
    return {"priority_class": name}


def _containers(containers: list[Json]) -> Json:
    """Return the fields of a pod's containers; `containers` where the short ones do not do."""
    if len(containers) == 1:
        fields = _one_container(containers[0])
        made = PodShorthand(name="p", **fields)  # type: ignore[arg-type]
        if part(next(iter(made.expand())), "spec").get("containers") == containers:
            return fields
    return present(containers=_without_defaults(containers, "main"))


def _one_container(container: Json) -> Json:
    requests = {**part(part(container, "resources"), "requests")}
    fields = present(**{field: requests.pop(name, None) for name, field in _AMOUNTS.items()})
    image = container.get("image")
    fields |= present(resources=requests, image=None if image == DEFAULT_IMAGE else image)
    return fields | present(host_ports=[_port(port) for port in objects(container.get("ports"))])


def _port(port: Json) -> object:
    number = port.get("hostPort")
    rest = {**port}
    if rest.get("containerPort") == number:
        del rest["containerPort"]
    return number if [*rest] == ["hostPort"] else rest


def _without_defaults(containers: list[Json], prefix: str) -> list[Json]:
    """Return containers without the names and images that a case completes."""
    defaults = [{"name": f"{prefix}-{n}", "image": DEFAULT_IMAGE} for n in range(len(containers))]
    return [
        {name: value for name, value in container.items() if default.get(name) != value}
        for container, default in zip(containers, defaults, strict=True)
    ]


def _affinity(affinity: Json) -> Json:
    """Return the fields of an affinity, node affinity in the short form."""
    rest = {name: value for name, value in affinity.items() if name != "nodeAffinity"}
    of_nodes = part(affinity, "nodeAffinity")
    terms = part(of_nodes, "requiredDuringSchedulingIgnoredDuringExecution")
    preferred = of_nodes.get("preferredDuringSchedulingIgnoredDuringExecution")
    short = present(required=terms.get("nodeSelectorTerms"), preferred=preferred)
    return present(node_affinity=short, affinity=rest)
