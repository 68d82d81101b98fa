"""Objects as written in cases: short forms of nodes and pods, and any other object in full.

    node: {name: a, cpu: "4", taints: ["dedicated=db:NoSchedule"]}
    pod: {name: web, cpu: 500m, node_selector: {zone: z1}}
    pod_group: {name: train, min_count: 3}
    object: {apiVersion: v1, kind: Service, ...}

Every field of the API can be set: `spec` and `status` of a short form are merged over its other
fields.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from ..api import Json, ref_of
from ..errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
#: The API version of PodGroups.
POD_GROUPS: Final = "scheduling.k8s.io/v1alpha2"
#: The image of a container that names none.
DEFAULT_IMAGE: Final = "registry.example/app:v1"
_TAINT: Final = re.compile(r"(?P<key>[^=:]+)(?:=(?P<value>[^:]*))?:(?P<effect>[A-Za-z]+)")


class _Shorthand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The short form of an object. With `count` it is several, named `name-0`, `name-1`..."""

    name: str
    count: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    def names(self) -> list[str]:
        """Return the names of all the objects."""
        if self.count is None:
            return [self.name]
        return [f"{self.name}-{number}" for number in range(self.count)]


class _PrioritizedShorthand(_Shorthand, frozen=True):
    """The short form of an object in a namespace, which may have a priority."""

    namespace: str = "default"
    priority: int | None = None
    spec: Json = {}

    def _expanded(
        self, api_version: str, kind: str, spec: Json, *, status: Json | None = None
    ) -> Iterator[Json]:
        """Return the objects, after the priority class they need, if any."""
        if self.priority is not None:
            priority_class = priority_class_of(self.priority)
            spec["priorityClassName"] = ref_of(priority_class).name
            yield priority_class
        spec.update(self.spec)
        for name in self.names():
            metadata: Json = {
                "name": name,
                "namespace": self.namespace,
                "labels": self.labels,
                "annotations": self.annotations,
            }
            obj: Json = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
            yield {**obj, "spec": spec, **({"status": status} if status else {})}


class NodeShorthand(_Shorthand, frozen=True):
    """The short form of a node, by default with 4 CPUs, 32 GiB and 110 pods."""

    cpu: str | int = 4
    memory: str = "32Gi"
    pods: int = 110
    ephemeral_storage: str | None = None
    resources: dict[str, str | int] = {}
    taints: list[str | Json] = []
    unschedulable: bool = False
    images: dict[str, int] = {}
    spec: Json = {}
    status: Json = {}

    def expand(self) -> Iterator[Json]:
        """Return the nodes as API objects."""
        amounts: dict[str, object] = {
            "cpu": str(self.cpu),
            "memory": self.memory,
            "pods": str(self.pods),
            **{name: str(amount) for name, amount in self.resources.items()},
        }
        if self.ephemeral_storage is not None:
            amounts["ephemeral-storage"] = self.ephemeral_storage
        spec: Json = {**self.spec}
        if self.taints:
            spec["taints"] = [_taint(taint) for taint in self.taints]
        if self.unschedulable:
            spec["unschedulable"] = True
        status: Json = {"capacity": amounts, "allocatable": amounts}
        if self.images:
            status["images"] = [
                {"names": [name], "sizeBytes": size} for name, size in self.images.items()
            ]
        for name in self.names():
            yield {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {HOSTNAME_LABEL: name, **self.labels},
                    "annotations": self.annotations,
                },
                "spec": spec,
                "status": {**status, **self.status},
            }


class NodeAffinity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The short form of node affinity. `required` terms are alternatives."""

    required: list[Json] | None = None
    preferred: list[Json] | None = None

    def expand(self) -> Json:
        """Return the affinity as an API object."""
        affinity: Json = {}
        if self.required is not None:
            terms: Json = {"nodeSelectorTerms": self.required}
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = terms
        if self.preferred is not None:
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = self.preferred
        return affinity


class PodShorthand(_PrioritizedShorthand, frozen=True):
    """The short form of a pod, by default with one container and no requests."""

    node: str | None = None
    scheduler_name: str | None = None
    priority_class: str | None = None
    cpu: str | int | None = None
    memory: str | None = None
    ephemeral_storage: str | None = None
    resources: dict[str, str | int] = {}
    image: str = DEFAULT_IMAGE
    host_ports: list[int | Json] = []
    containers: list[Json] = []
    init_containers: list[Json] = []
    node_selector: dict[str, str] = {}
    node_affinity: NodeAffinity | None = None
    affinity: Json = {}
    tolerations: list[Json] = []
    scheduling_gates: list[str] = []
    pod_group: str | None = None
    status: Json = {}

    def expand(self) -> Iterator[Json]:
        """Return the pods as API objects, after the priority class they need, if any."""
        return self._expanded("v1", "Pod", self._spec(), status=self.status)

    def _spec(self) -> Json:
        spec: Json = {"containers": self._containers()}
        if self.init_containers:
            spec["initContainers"] = _completed(self.init_containers, "init")
        affinity = {**self.affinity}
        if self.node_affinity is not None:
            affinity["nodeAffinity"] = self.node_affinity.expand()
        short: Json = {
            "nodeName": self.node,
            "schedulerName": self.scheduler_name,
            "priorityClassName": self.priority_class,
            "nodeSelector": self.node_selector,
            "affinity": affinity,
            "tolerations": self.tolerations,
            "schedulingGates": [{"name": gate} for gate in self.scheduling_gates],
            "schedulingGroup": self.pod_group and {"podGroupName": self.pod_group},
        }
        spec.update({name: value for name, value in short.items() if value})
        return spec

    def _containers(self) -> list[Json]:
        if self.containers:
            return _completed(self.containers, "main")
        container: Json = {"name": "main", "image": self.image}
        requests = self._requests()
        if requests:
            # Extended resources and huge pages need limits equal to the requests.
            limits = {name: str(amount) for name, amount in self.resources.items()}
            container["resources"] = {
                "requests": requests,
                **({"limits": limits} if limits else {}),
            }
        if self.host_ports:
            container["ports"] = [_port(port) for port in self.host_ports]
        return [container]

    def _requests(self) -> Json:
        amounts = {
            "cpu": self.cpu,
            "memory": self.memory,
            "ephemeral-storage": self.ephemeral_storage,
            **self.resources,
        }
        return {name: str(amount) for name, amount in amounts.items() if amount is not None}


class PodGroupShorthand(_PrioritizedShorthand, frozen=True):
    """The short form of a PodGroup: with `min_count` a gang, else of the basic policy.

    `topology` is the label of the nodes whose values are the domains.
    """

    min_count: int | None = None
    topology: str | None = None
    disruption_mode: str | None = None

    def expand(self) -> Iterator[Json]:
        """Return the PodGroups as API objects, after the priority class they need, if any."""
        gang: Json = {"gang": {"minCount": self.min_count}}
        spec: Json = {"schedulingPolicy": {"basic": {}} if self.min_count is None else gang}
        if self.topology is not None:
            spec["schedulingConstraints"] = {"topology": [{"key": self.topology}]}
        if self.disruption_mode is not None:
            spec["disruptionMode"] = self.disruption_mode
        return self._expanded(POD_GROUPS, "PodGroup", spec)


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of a list of objects. Exactly one field is set, and perhaps `controlled_by`.

    `controlled_by` is the pod that an object belongs to, by its ownerReference.
    """

    node: NodeShorthand | None = None
    pod: PodShorthand | None = None
    pod_group: PodGroupShorthand | None = None
    namespace: str | None = None
    object: Json | None = None
    controlled_by: str | None = None

    def __post_init__(self) -> None:
        names = [name for name in self.__struct_fields__ if name != "controlled_by"]
        if sum(getattr(self, name) is not None for name in names) != 1:
            raise InputError(f"expected exactly one of {', '.join(names)}")
        if self.controlled_by is not None and self.object is None:
            raise InputError("expected controlled_by only with object")


def objects_of(item: Item) -> Iterator[Json]:
    """Return the API objects of an entry, in the order of creation."""
    if item.node is not None:
        yield from item.node.expand()
    elif item.pod is not None:
        yield from item.pod.expand()
    elif item.pod_group is not None:
        yield from item.pod_group.expand()
    elif item.namespace is not None:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": item.namespace}}
    else:
        assert item.object is not None, "one of them is set"
        yield item.object


def priority_class_of(value: int) -> Json:
    """Return the priority class of a value."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"priority-{value}".replace("--", "-minus-")},
        "value": value,
    }


def _taint(taint: str | Json) -> Json:
    """Parse a taint in kubectl's form, `key=value:Effect` or `key:Effect`, or as an API object."""
    if not isinstance(taint, str):
        return taint
    parts = _TAINT.fullmatch(taint)
    if parts is None:
        raise InputError(f"taint {taint}: expected key=value:Effect or key:Effect")
    value = {"value": parts["value"]} if parts["value"] else {}
    return {"key": parts["key"], "effect": parts["effect"], **value}


def _port(port: int | Json) -> Json:
    """Parse a host port: a number or an API object. The container port is the same number."""
    if isinstance(port, int):
        return {"hostPort": port, "containerPort": port}
    return {"containerPort": port.get("hostPort"), **port}


def _completed(containers: list[Json], prefix: str) -> list[Json]:
    """Complete containers with the names and images that they need."""
    return [
        {"name": f"{prefix}-{number}", "image": DEFAULT_IMAGE, **container}
        for number, container in enumerate(containers)
    ]
