"""A pod with the values that plugins need and that are computed once from it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from scheduler.api import resources
from scheduler.api.host_ports import HostPort, host_ports
from scheduler.api.node_selectors import RequiredNodeAffinity
from scheduler.api.pod_groups import pod_group_key
from scheduler.lru_cache import LruCache
from scheduler.snapshot.claims_and_disks import ClaimsAndDisks, volumes_of
from scheduler.snapshot.pod_kind import PodKind, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.api.core import NodeAllocatableResourceClaimStatus, Pod, PodSpec


@dataclass(frozen=True, slots=True, eq=False)
class PodRequests:
    """A pod's requests as integers: cpu in thousandths of a core, all else in whole units.

    `non_zero_cpu` and `non_zero_memory` use upstream's defaults (100m, 200Mi) for containers
    without a request, so that pods without requests do not score as free.
    """

    resources: Mapping[str, int]
    non_zero_cpu: int
    non_zero_memory: int

    def __getitem__(self, name: str) -> int:
        return self.resources.get(name, 0)


class PodInfo:
    """A pod object and values computed from it: the form in which plugins get pods.

    Immutable; an update of the pod makes a new PodInfo. `like` is a PodInfo of a pod with equal
    requests, ports, volumes, labels and affinity, whose computed values are used.
    """

    __slots__ = (
        "_kind",
        "_required_node_affinity",
        "host_ports",
        "key",
        "pod",
        "priority",
        "requests",
        "started",
        "uid",
        "volumes",
    )

    def __init__(self, pod: Pod, *, like: PodInfo | None = None) -> None:
        self.pod: Final = pod
        #: `namespace/name`; computed once, as a cycle reads it a dozen times.
        self.key: Final = pod.key
        #: Differs between pods of the same name.
        self.uid: Final = pod.metadata.uid
        #: The pod's priority; a pod without one has 0.
        self.priority: Final = priority_of(pod)
        start_time = pod.status.start_time
        #: The start time that the kubelet reported, in epoch seconds; None before.
        self.started: Final = None if start_time is None else start_time.timestamp()
        self.requests: Final[PodRequests] = _requests_of(pod) if like is None else like.requests
        self.host_ports: Final[tuple[HostPort, ...]] = (
            host_ports(pod) if like is None else like.host_ports
        )
        self.volumes: Final[ClaimsAndDisks] = volumes_of(pod) if like is None else like.volumes
        self._required_node_affinity: RequiredNodeAffinity | None = None
        self._kind: PodKind | None = None if like is None else like._kind

    def assigned_to(
        self,
        node_name: str,
        claims: Sequence[NodeAllocatableResourceClaimStatus] | None = None,
    ) -> PodInfo:
        """Return this pod as it will be once it is bound to a node.

        `claims` is what the pod's claims take of the node then; None leaves the status as it is.
        """
        pod = msgspec.structs.replace(
            self.pod, spec=msgspec.structs.replace(self.pod.spec, node_name=node_name)
        )
        if claims is None or tuple(claims) == pod.status.node_allocatable_resource_claim_statuses:
            return PodInfo(pod, like=self)
        status = msgspec.structs.replace(
            pod.status, node_allocatable_resource_claim_statuses=tuple(claims)
        )
        return PodInfo(msgspec.structs.replace(pod, status=status))

    def without_node(self) -> PodInfo:
        """Return this pod as it was before it got a node or was nominated to one."""
        spec = msgspec.structs.replace(self.pod.spec, node_name="")
        status = msgspec.structs.replace(self.pod.status, nominated_node_name="")
        return PodInfo(msgspec.structs.replace(self.pod, spec=spec, status=status), like=self)

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace

    @property
    def pod_group_key(self) -> str:
        """The key of the pod's group; empty for a pod without a group."""
        return pod_group_key(self.pod)

    @property
    def labels(self) -> Mapping[str, str]:
        return self.pod.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.pod.metadata.annotations

    @property
    def spec(self) -> PodSpec:
        return self.pod.spec

    @property
    def spec_requests(self) -> Mapping[str, int]:
        """The requests by the spec alone: the amounts that a node must have free.

        These requests differ from `requests` only if the kubelet has reported on the containers.
        """
        if _is_reported_on(self.pod):
            return resources.counted(resources.pod_requests(self.pod, use_claims=True))
        return self.requests.resources

    @property
    def non_zero_container_requests(self) -> Mapping[str, int]:
        """The requests of the containers' specs, with upstream's defaults for cpu and memory.

        Pod-level requests do not count.
        """
        if _is_reported_on(self.pod) or self.pod.spec.resources is not None:
            return resources.counted(
                resources.pod_requests(
                    self.pod,
                    use_pod_level=False,
                    non_missing=resources.NON_ZERO_REQUESTS,
                )
            )
        requests = self.requests
        return {
            **requests.resources,
            resources.CPU: requests.non_zero_cpu,
            resources.MEMORY: requests.non_zero_memory,
        }

    @property
    def kind(self) -> PodKind:
        """The pod kind, which all pods with equal labels, affinity and so on share."""
        kind = self._kind
        if kind is None:
            kind = self._kind = kind_of(self.pod)
        return kind

    def is_like(self, other: PodInfo) -> bool:
        """True if the pods are the same to plugins, but for their volumes.

        Upstream's signature of a pod (`SignPod` of all plugins) compares no more.
        """
        return (
            self.kind is other.kind
            and self.requests == other.requests
            and self.annotations == other.annotations
            and _without_volumes(self.spec) == _without_volumes(other.spec)
        )

    @property
    def required_node_affinity(self) -> RequiredNodeAffinity:
        """The pod's node selector and required node affinity, parsed on first use."""
        parsed = self._required_node_affinity
        if parsed is None:
            parsed = self._required_node_affinity = RequiredNodeAffinity(self.pod.spec)
        return parsed

    def __repr__(self) -> str:
        return f"PodInfo({self.key}, uid={self.uid})"


def _without_volumes(spec: PodSpec) -> PodSpec:
    return msgspec.structs.replace(spec, volumes=()) if spec.volumes else spec


def priority_of(pod: Pod) -> int:
    """Return the pod's priority; 0 if admission has not set one (`corev1helpers.PodPriority`)."""
    return pod.spec.priority or 0


class _CachedRequests(NamedTuple):
    """The requests of a spec, and its parts: the cache key has their `id()`s.

    The spec does not keep them alive: `PartSharing` replaces them.
    """

    parts: tuple[object, ...]
    requests: PodRequests


#: By the `id()`s of the parts of the spec (shared parts: `scheduler.assembly.part_sharing`).
_requests: Final[LruCache[tuple[int, ...], _CachedRequests]] = LruCache(4096)


def _requests_of(pod: Pod) -> PodRequests:
    """Return the pod's requests, shared between pods with equal ones.

    Most pods come from a few templates, so that 150,000 pods do not hold 150,000 dictionaries.
    """
    if _is_reported_on(pod):
        return _count_requests(pod)
    spec = pod.spec
    parts = (spec.containers, spec.init_containers, spec.overhead or None, spec.resources)
    key = tuple(map(id, parts))
    cached = _requests.touch(key)
    if cached is None:
        cached = _CachedRequests(parts, _count_requests(pod))
        _requests.put(key, cached)
    return cached.requests


def _is_reported_on(pod: Pod) -> bool:
    """True if the status has resources: reports of the kubelet, or what claims take."""
    claims = pod.status.node_allocatable_resource_claim_statuses
    return bool(claims) or resources.reports_resources(pod)


def _count_requests(pod: Pod) -> PodRequests:
    requests = resources.pod_requests(pod, use_status=True, use_claims=True)
    missing = dict(resources.NON_ZERO_REQUESTS)
    if resources.pod_level_requests_set(pod):
        missing = {name: nanos for name, nanos in missing.items() if name not in requests}
    non_zero = (
        resources.pod_requests(pod, use_status=True, use_claims=True, non_missing=missing)
        if missing
        else requests
    )
    return _shared_requests(
        tuple(sorted(resources.counted(requests).items())),
        resources.count(resources.CPU, non_zero.get(resources.CPU, 0)),
        resources.count(resources.MEMORY, non_zero.get(resources.MEMORY, 0)),
    )


@functools.lru_cache(maxsize=8192)
def _shared_requests(
    counts: tuple[tuple[str, int], ...], non_zero_cpu: int, non_zero_memory: int
) -> PodRequests:
    return PodRequests(dict(counts), non_zero_cpu, non_zero_memory)
