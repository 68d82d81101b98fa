"""The pods of a file, also of workloads, as their controllers would create them.

Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets, Jobs and CronJobs are
workloads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from scheduler.explain.cluster import Cluster, ClusterError
from scheduler.explain.manifests import Document, check_fields, read_manifests
from scheduler.reports.build import owner_of
from scheduler.simulate.daemons import is_eligible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from scheduler.api.core import Pod
    from scheduler.client import ApiObject

_TEMPLATE_HASH: Final = "new"
#: The taints that the DaemonSet controller lets its pods tolerate.
_OF_DAEMONS: Final = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        *(("not-ready", "NoExecute"), ("unreachable", "NoExecute")),
        *(("disk-pressure", "NoSchedule"), ("memory-pressure", "NoSchedule")),
        *(("pid-pressure", "NoSchedule"), ("unschedulable", "NoSchedule")),
    )
)


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


def read_templates(
    path: Path, cluster: Cluster, *, replicas: int | None = None, copies: int | None = None
) -> Templates:
    """Read the pods of a file for a cluster.

    `replicas` takes the place of the number of pods of each workload, `copies` of 1 for each pod.
    Raises `ClusterError`, which names file, object and field.
    """
    expansion = _Expansion(replicas, copies, [node.metadata.name for node in cluster.nodes])
    found, _ = read_manifests([path], expand=expansion, known=cluster)
    nodes = {node.metadata.name: node for node in cluster.nodes}
    pods = [
        pod
        for pod in found.pods
        if pod.key not in expansion.daemons or is_eligible(pod, nodes[expansion.daemons[pod.key]])
    ]
    if not pods:
        raise ClusterError(f"{path}: expected pods or workloads, such as a Deployment")
    present = {pod.key for pod in cluster.pods}
    if (known := next((pod for pod in pods if pod.key in present), None)) is not None:
        raise ClusterError(f"{path}: Pod {known.key}: metadata.name: is in the cluster already")
    if found.nodes:
        name = found.nodes[0].metadata.name
        raise ClusterError(f"{path}: Node {name}: kind: expected pods and workloads only")
    return Templates(pods, found.others)


class _Template(msgspec.Struct, frozen=True):
    spec: dict[str, Any]
    metadata: dict[str, Any] = {}


class _Workload(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of all workloads that decide which pods there are."""

    template: _Template
    replicas: int = 1
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    volume_claim_templates: tuple[dict[str, Any], ...] = ()


class _Expansion:
    """Returns the pods of a workload's document, and copies of a pod's document."""

    def __init__(self, replicas: int | None, copies: int | None, nodes: list[str]) -> None:
        self._replicas: Final = replicas
        self._copies_of_pods: Final = copies
        self._nodes: Final = nodes
        #: The node of each pod of a DaemonSet, by the pod's key.
        self.daemons: Final[dict[str, str]] = {}

    def __call__(self, document: Document) -> Iterator[Document]:
        kind = document.value["kind"]
        if kind == "Pod":
            yield from self._copies(document)
        elif kind in ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job"):
            # A profile spreads pods by the selector of their owner.
            if kind != "Job":
                yield _replica_set(document) if kind == "Deployment" else document
            yield from self._pods(document, _workload(document, "spec"), "spec")
        elif kind == "CronJob":
            path = "spec.jobTemplate.spec"
            yield from self._pods(document, _workload(document, path), path)
        elif kind == "DaemonSet":
            yield from self._daemon_pods(document, _workload(document, "spec"))
        else:
            yield document

    def _copies(self, document: Document) -> Iterator[Document]:
        if self._copies_of_pods is None:
            yield document
            return
        metadata = document.value.get("metadata") or {}
        for number in range(self._copies_of_pods):
            changed = {**metadata, "name": f"{metadata.get('name')}-{number}", "uid": ""}
            yield document._replace(value={**document.value, "metadata": changed})

    def _pods(self, document: Document, workload: _Workload, path: str) -> Iterator[Document]:
        kind = document.value["kind"]
        number = workload.replicas
        if kind in ("Job", "CronJob"):
            limit = workload.parallelism if workload.completions is None else workload.completions
            number = min(workload.parallelism, limit)
        name, owner = document.name, _owner(document)
        if self._replicas is not None and "schedulingGroup" not in workload.template.spec:
            number = self._replicas
        for index in range(number):
            pod = f"{owner['name']}-{index}"
            labels: dict[str, str] = {}
            spec = workload.template.spec
            if kind == "Deployment":
                labels["pod-template-hash"] = _TEMPLATE_HASH
            elif kind == "StatefulSet":
                labels["apps.kubernetes.io/pod-index"] = str(index)
                labels["statefulset.kubernetes.io/pod-name"] = pod
                claims = [f"{_name_of(each)}-{name}-{index}" for each in _claims(workload)]
                yield from self._claim_documents(document, workload, claims)
                spec = _with_claims(workload, claims)
            elif workload.completion_mode == "Indexed":
                labels["batch.kubernetes.io/job-completion-index"] = str(index)
            yield _pod(document, workload, path, pod, owner, labels, spec)

    def _claim_documents(
        self, document: Document, workload: _Workload, names: list[str]
    ) -> Iterator[Document]:
        for number, (template, name) in enumerate(zip(_claims(workload), names, strict=True)):
            metadata = {**template.get("metadata", {}), "name": name}
            metadata["namespace"] = document.namespace
            value = {**template, "kind": "PersistentVolumeClaim", "metadata": metadata}
            value.pop("status", None)
            within = f"{document.title}: spec.volumeClaimTemplates[{number}]"
            yield document._replace(value={"apiVersion": "v1", **value}, within=within)

    def _daemon_pods(self, document: Document, workload: _Workload) -> Iterator[Document]:
        spec = workload.template.spec
        tolerations = [*(spec.get("tolerations") or ()), *_OF_DAEMONS]
        for node in self._nodes:
            affinity = _pinned(spec.get("affinity") or {}, node)
            pinned = {**spec, "tolerations": tolerations, "affinity": affinity}
            owner = _owner(document)
            name = f"{owner['name']}-{node}"
            self.daemons[f"{document.namespace}/{name}"] = node
            yield _pod(document, workload, "spec", name, owner, {}, pinned)


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
    api_version = document.value.get("apiVersion", "")
    uid = f"{kind}-{document.namespace}-{name}"
    return {
        "apiVersion": api_version,
        "kind": "Job" if kind == "CronJob" else kind,
        "name": name,
        "uid": uid,
        "controller": True,
    }


def _replica_set(document: Document) -> Document:
    """Return the ReplicaSet that a Deployment creates."""
    owner, selector = _owner(document), (document.value.get("spec") or {}).get("selector") or {}
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
    workload: _Workload,
    path: str,
    name: str,
    owner: dict[str, Any],
    labels: dict[str, str],
    spec: dict[str, Any],
) -> Document:
    metadata = workload.template.metadata
    value = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": name,
            "namespace": document.namespace,
            "labels": {**(metadata.get("labels") or {}), **labels},
            "ownerReferences": [owner],
        },
        "spec": spec,
    }
    return document._replace(value=value, within=f"{document.title}: {path}.template")


def _claims(workload: _Workload) -> tuple[dict[str, Any], ...]:
    return workload.volume_claim_templates


def _name_of(template: dict[str, Any]) -> str:
    return str((template.get("metadata") or {}).get("name"))


def _with_claims(workload: _Workload, claims: list[str]) -> dict[str, Any]:
    """Return the spec of a StatefulSet's pod, with the claims that were created for the pod."""
    spec = workload.template.spec
    own = {_name_of(each): name for each, name in zip(_claims(workload), claims, strict=True)}
    others = [each for each in spec.get("volumes") or () if each.get("name") not in own]
    volumes = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim in own.items()
    ]
    return {**spec, "volumes": [*others, *volumes]}


def _pinned(affinity: dict[str, Any], node: str) -> dict[str, Any]:
    """Return the affinity of a DaemonSet's pod for one node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    of_nodes = dict(affinity.get("nodeAffinity") or {})
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = (of_nodes.get(key) or {}).get("nodeSelectorTerms") or [{}]
    pinned = [{**term, "matchFields": [*(term.get("matchFields") or ()), field]} for term in terms]
    of_nodes[key] = {"nodeSelectorTerms": pinned}
    return {**affinity, "nodeAffinity": of_nodes}
