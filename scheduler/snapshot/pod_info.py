"""A pod with everything worked out once that plugins ask of it again and again."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from scheduler.api import resources
from scheduler.api.host_ports import HostPort, host_ports
from scheduler.api.node_selectors import RequiredNodeAffinity
from scheduler.snapshot.pod_kind import PodKind, kind_of
from scheduler.snapshot.pod_volumes import PodVolumes, volumes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.api.core import Pod, PodSpec


class PodRequests:
    """A pod's requests, counted: cpu in thousandths of a core, everything else in units.

    `non_zero_cpu` and `non_zero_memory` put upstream's defaults (100m, 200Mi) in place of what a
    container does not ask for; scores use them so that empty pods do not look free.
    """

    __slots__ = ("non_zero_cpu", "non_zero_memory", "resources")

    def __init__(self, counts: Mapping[str, int], non_zero_cpu: int, non_zero_memory: int) -> None:
        self.resources: Final = counts
        self.non_zero_cpu: Final = non_zero_cpu
        self.non_zero_memory: Final = non_zero_memory

    def __getitem__(self, name: str) -> int:
        return self.resources.get(name, 0)


class PodInfo:
    """A pod as the scheduler handles it: the object, and what follows from it.

    Immutable; an update of the pod makes a new one. Plugins get this wherever upstream's get a
    `*v1.Pod`: the API object is `pod`, its parts are in reach without digging. `like` is a twin
    that asks for the same, to take over what was worked out for it.
    """

    __slots__ = (
        "_kind",
        "_required_node_affinity",
        "host_ports",
        "pod",
        "priority",
        "requests",
        "started",
        "uid",
        "volumes",
    )

    def __init__(self, pod: Pod, *, like: PodInfo | None = None) -> None:
        self.pod: Final = pod
        #: What tells this pod from another of the same name.
        self.uid: Final = pod.metadata.uid
        #: The pod's priority; a pod without one has 0.
        self.priority: Final = priority_of(pod)
        start_time = pod.status.start_time
        #: When the kubelet took the pod on, in epoch seconds; None if it has not.
        self.started: Final = None if start_time is None else start_time.timestamp()
        self.requests: Final[PodRequests] = _requests_of(pod) if like is None else like.requests
        self.host_ports: Final[tuple[HostPort, ...]] = (
            host_ports(pod) if like is None else like.host_ports
        )
        self.volumes: Final[PodVolumes] = volumes_of(pod) if like is None else like.volumes
        self._required_node_affinity: RequiredNodeAffinity | None = None
        self._kind: PodKind | None = None if like is None else like._kind

    def assigned_to(self, node_name: str) -> PodInfo:
        """This pod as it will be once it is bound to a node."""
        spec = msgspec.structs.replace(self.pod.spec, node_name=node_name)
        return PodInfo(msgspec.structs.replace(self.pod, spec=spec), like=self)

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.pod.metadata.name

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.pod.metadata.namespace

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.pod.key

    @property
    def labels(self) -> Mapping[str, str]:
        """The pod's labels."""
        return self.pod.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """The pod's annotations."""
        return self.pod.metadata.annotations

    @property
    def spec(self) -> PodSpec:
        """What the pod wants."""
        return self.pod.spec

    @property
    def spec_requests(self) -> Mapping[str, int]:
        """What the pod asks for by its spec alone, counted: what a node must have room for.

        Differs from `requests` only where the kubelet has already reported on the pod.
        """
        if _is_reported_on(self.pod):
            return resources.counted(resources.pod_requests(self.pod))
        return self.requests.resources

    @property
    def non_zero_container_requests(self) -> Mapping[str, int]:
        """What the pod's containers ask for by their specs, with upstream's defaults for those that
        do not ask for cpu or memory; requests of the pod as a whole do not count.
        """
        if _is_reported_on(self.pod) or self.pod.spec.resources is not None:
            return resources.counted(
                resources.pod_requests(
                    self.pod, use_pod_level=False, non_missing=resources.NON_ZERO_REQUESTS
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
        """What selectors and affinity terms can tell of the pod, shared by all that are alike."""
        kind = self._kind
        if kind is None:
            kind = self._kind = kind_of(self.pod)
        return kind

    @property
    def required_node_affinity(self) -> RequiredNodeAffinity:
        """The pod's node selector and required node affinity, parsed on first use."""
        parsed = self._required_node_affinity
        if parsed is None:
            parsed = self._required_node_affinity = RequiredNodeAffinity(self.pod.spec)
        return parsed

    def __repr__(self) -> str:
        return f"PodInfo({self.key}, uid={self.uid})"


def priority_of(pod: Pod) -> int:
    """The priority of a pod; 0 if admission has not set one (`corev1helpers.PodPriority`)."""
    return pod.spec.priority or 0


class _Counted(NamedTuple):
    """What a spec's requests come from, kept so that no other object gets its place in memory."""

    spec: PodSpec
    requests: PodRequests


#: By the identity of the parts of the spec: pods from one template share them (`PartSharing`).
_counted: Final[dict[tuple[int, ...], _Counted]] = {}
_COUNTED_MAX: Final = 4096


def _requests_of(pod: Pod) -> PodRequests:
    """A pod's requests, shared between pods that ask for the same.

    Most pods come from a few templates, and 150,000 of them need not hold 150,000 dictionaries.
    """
    if _is_reported_on(pod):
        return _count_requests(pod)
    spec = pod.spec
    overhead = id(spec.overhead) if spec.overhead else 0
    key = (id(spec.containers), id(spec.init_containers), overhead, id(spec.resources))
    known = _counted.get(key)
    if known is None:
        if len(_counted) >= _COUNTED_MAX:
            _counted.clear()
        known = _counted[key] = _Counted(spec, _count_requests(pod))
    return known.requests


def _is_reported_on(pod: Pod) -> bool:
    """Whether the kubelet has said what the pod's containers have got."""
    status = pod.status
    return bool(status.container_statuses or status.init_container_statuses or status.resources)


def _count_requests(pod: Pod) -> PodRequests:
    requests = resources.pod_requests(pod, use_status=True)
    missing = dict(resources.NON_ZERO_REQUESTS)
    if resources.pod_level_requests_set(pod):
        missing = {name: nanos for name, nanos in missing.items() if name not in requests}
    non_zero = (
        resources.pod_requests(pod, use_status=True, non_missing=missing) if missing else requests
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
