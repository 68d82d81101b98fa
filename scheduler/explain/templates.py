"""The pods of a file, also of workloads, as their controllers would create them.

Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets, Jobs and CronJobs are
workloads. A file is read with the first pod of each workload; the others are copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.explain.cluster import Cluster, ClusterError
from scheduler.explain.daemons import daemon_pods, is_daemon
from scheduler.explain.manifests import Document, check_fields, read_manifests
from scheduler.reports.build import owner_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from scheduler.api.core import Pod
    from scheduler.api.pod_groups import PodGroup
    from scheduler.api.storage import PersistentVolumeClaim
    from scheduler.client import ApiObject

T = TypeVar("T", "Pod", "PodGroup", "PersistentVolumeClaim")

_TEMPLATE_HASH: Final = "new"
_CLAIMS: Final = "persistentvolumeclaims"
#: The path of the spec with the template of the pods, by kind.
_WORKLOADS: Final = {
    **dict.fromkeys(("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"), "spec"),
    **dict.fromkeys(("DaemonSet", "Job"), "spec"),
    "CronJob": "spec.jobTemplate.spec",
}
#: Profiles spread the pods of these kinds by the selector of the owner.
_SPREAD: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})


class Templates(NamedTuple):
    """The pods of a file, in order, and its other objects by kind."""

    pods: list[Pod]
    others: Mapping[str, list[ApiObject]]

    def by_workload(self) -> dict[str, list[Pod]]:
        """Return the pods by their pod group, their workload, or their own name."""
        found: dict[str, list[Pod]] = {}
        for pod in self.pods:
            group = pod.spec.scheduling_group
            name = group.pod_group_name if group is not None else owner_of(pod) or pod.key
            found.setdefault(name, []).append(pod)
        return found


def read_templates(path: Path, cluster: Cluster, *, count: int | None = None) -> Templates:
    """Read the pods of a file for a cluster.

    `count` takes the place of the number of pods of each workload, and of 1 for each other pod.
    Raises `ClusterError`, which names file, object and field.
    """
    reading = _Reading()
    found, _ = read_manifests([path], expand=reading, known=cluster)
    others, pods = found.others, []
    for pod in found.pods:
        name, workload = pod.metadata.name, reading.workloads.get(pod.key)
        if is_daemon(pod):
            pods += [each for node in cluster.nodes for each in daemon_pods([pod], node)]
        elif workload is not None:
            number = workload.number if count is None or pod.spec.scheduling_group else count
            pods += [_pod_of(pod, index, workload.claims) for index in range(number)]
            claims: list[PersistentVolumeClaim] = others.get(_CLAIMS, [])  # type: ignore[assignment]
            claims += [
                renamed(claim, _numbered(claim.metadata.name, index))
                for index in range(1, number)
                for claim in tuple(claims)
                if claim.metadata.name in workload.claims
            ]
        else:
            is_alone = count is None or count == 1
            pods += [pod] if is_alone else [renamed(pod, f"{name}-{n}") for n in range(count or 1)]
    if not pods:
        raise ClusterError(f"{path}: expected pods or workloads, such as a Deployment")
    present = {pod.key for pod in cluster.pods}
    if (known := next((pod for pod in pods if pod.key in present), None)) is not None:
        raise ClusterError(f"{path}: Pod {known.key}: metadata.name: is in the cluster already")
    if found.nodes:
        name = found.nodes[0].metadata.name
        raise ClusterError(f"{path}: Node {name}: kind: expected pods and workloads only")
    return Templates(pods, others)


class _Template(msgspec.Struct, frozen=True):
    spec: dict[str, Any]
    metadata: dict[str, Any] = {}


class _Workload(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of all workloads that decide which pods there are."""

    template: _Template
    replicas: int = 1
    parallelism: int | None = None
    completions: int | None = None
    volume_claim_templates: tuple[_Template, ...] = ()


class _Copied(NamedTuple):
    """The number of a workload's pods, and the claims of the first one."""

    number: int
    claims: frozenset[str]


class _Reading:
    """Puts the first pod of a workload in the place of the workload's document."""

    def __init__(self) -> None:
        #: By the key of the first pod.
        self.workloads: Final[dict[str, _Copied]] = {}

    def __call__(self, document: Document) -> Iterator[Document]:
        kind = document.value["kind"]
        if kind not in _WORKLOADS:
            yield document
            return
        path = _WORKLOADS[kind]
        workload, owner = _workload(document, path), _owner(document)
        pod, name = f"{owner['name']}-0", document.name
        labels: dict[str, str] = {}
        if kind == "Deployment":
            yield _replica_set(document, owner)
            labels["pod-template-hash"] = _TEMPLATE_HASH
        elif kind in _SPREAD:
            yield document
        claims: dict[str, str] = {}
        for number, template in enumerate(workload.volume_claim_templates):
            own = str(template.metadata.get("name"))
            claims[own] = f"{own}-{name}-0"
            within = f"{document.title}: spec.volumeClaimTemplates[{number}]"
            metadata = {**template.metadata, "name": claims[own], "namespace": document.namespace}
            value = {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template.spec}
            yield document._replace(value={"apiVersion": "v1", **value}, within=within)
        yield _pod(document, workload.template, path, pod, owner, labels, claims)
        number = workload.replicas
        if kind in ("Job", "CronJob"):
            number = 1 if workload.parallelism is None else workload.parallelism
            number = number if workload.completions is None else min(number, workload.completions)
        key = f"{document.namespace}/{pod}"
        self.workloads[key] = _Copied(number, frozenset(claims.values()))


def _workload(document: Document, path: str) -> _Workload:
    """Return the spec of a workload at a path; raises `ClusterError`."""
    value: Any = document.value
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    check_fields(document)
    try:
        return msgspec.convert(value, _Workload)
    except msgspec.ValidationError as error:
        text = str(error).replace("`$.", f"`{path}.").replace("`$`", f"`{path}`")
        raise document.error(f"{path}: {text}") from error


def _owner(document: Document) -> dict[str, Any]:
    """Return the reference to the controller of a workload's pods."""
    kind, name = document.value["kind"], document.name
    if kind == "Deployment":
        kind, name = "ReplicaSet", f"{name}-{_TEMPLATE_HASH}"
    return {
        "apiVersion": document.value.get("apiVersion", ""),
        "kind": "Job" if kind == "CronJob" else kind,
        "name": name,
        "uid": f"{kind}-{document.namespace}-{name}",
        "controller": True,
    }


def _replica_set(document: Document, owner: Mapping[str, Any]) -> Document:
    """Return the ReplicaSet that a Deployment creates."""
    selector = (document.value.get("spec") or {}).get("selector") or {}
    labels = {**(selector.get("matchLabels") or {}), "pod-template-hash": _TEMPLATE_HASH}
    value = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "metadata": {
            "name": owner["name"],
            "namespace": document.namespace,
            "uid": owner["uid"],
        },
        "spec": {"selector": {**selector, "matchLabels": labels}},
    }
    return document._replace(value=value, within=document.title)


def _pod(
    document: Document,
    template: _Template,
    path: str,
    name: str,
    owner: Mapping[str, Any],
    labels: Mapping[str, str],
    claims: Mapping[str, str],
) -> Document:
    """Return a pod of a workload; `claims` has a StatefulSet's claims by volume."""
    metadata = {
        **template.metadata,
        "name": name,
        "namespace": document.namespace,
        "labels": {**(template.metadata.get("labels") or {}), **labels},
        "ownerReferences": [owner],
    }
    others = [each for each in template.spec.get("volumes") or () if each.get("name") not in claims]
    volumes = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
        for volume, claim in claims.items()
    ]
    spec = {**template.spec, "volumes": [*others, *volumes]} if claims else template.spec
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return document._replace(value=value, within=f"{document.title}: {path}.template")


def renamed(obj: T, name: str) -> T:
    """Return a copy of an object under another name."""
    uid = f"{obj.metadata.namespace}/{name}"
    return replace(obj, metadata=replace(obj.metadata, name=name, uid=uid))


def _numbered(name: str, number: int) -> str:
    """Return a name with a number at the end, maybe in the place of 0."""
    return f"{name.removesuffix('-0')}-{number}"


def _pod_of(first: Pod, number: int, claims: frozenset[str]) -> Pod:
    """Return a pod of a workload, with its own claims."""
    pod = renamed(first, _numbered(first.metadata.name, number))
    volumes = []
    for volume in pod.spec.volumes:
        source = volume.persistent_volume_claim
        if source is not None and source.claim_name in claims:
            source = replace(source, claim_name=_numbered(source.claim_name, number))
            volume = replace(volume, persistent_volume_claim=source)
        volumes.append(volume)
    return replace(pod, spec=replace(pod.spec, volumes=(*volumes,)))
