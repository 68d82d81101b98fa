"""Classes of equal pods: pods of a class are interchangeable, and share their dry runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from scheduler.snapshot.claims_and_disks import NO_VOLUMES
from scheduler.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The value of `whenUnsatisfiable` of a hard constraint.
_HARD: Final = "DoNotSchedule"


class PodClass:
    """Equal pods in their order. `pods` has only the first one of a class with `one_per_round`."""

    def __init__(self, pod: PodInfo) -> None:
        self.pods: Final = [pod]
        self.one_per_round: Final = depends_on_other_nodes(pod)

    @property
    def first(self) -> PodInfo:
        return self.pods[0]

    def filler(self, number: int) -> PodInfo:
        """Return a pod that takes the place of a pod of this class in a dry run.

        A class of which one pod is planned may share a node with other classes: its fillers only
        have its requests.
        """
        pod = self.first.pod
        metadata = replace(pod.metadata, uid=f"{pod.metadata.uid}/{number}")
        if not self.one_per_round:
            return PodInfo(replace(pod, metadata=metadata), like=self.first)
        spec = replace(
            pod.spec,
            affinity=None,
            topology_spread_constraints=(),
            volumes=(),
            resource_claims=(),
        )
        return PodInfo(replace(pod, metadata=replace(metadata, labels={}), spec=spec))


def depends_on_other_nodes(pod: PodInfo) -> bool:
    """True if pods on other nodes, volumes or devices can make the pod fit or not fit on a node.

    A dry run changes one node at a time and does not see what such pods do to one another.
    """
    terms, spec = pod.kind.affinity, pod.spec
    return bool(
        terms.required_affinity
        or terms.required_anti_affinity
        or any(c.when_unsatisfiable == _HARD for c in spec.topology_spread_constraints)
        or pod.volumes is not NO_VOLUMES
        or spec.resource_claims
    )


def classes_of(pods: Iterable[PodInfo]) -> list[PodClass]:
    """Return the classes in the order of their first pods."""
    classes: list[PodClass] = []
    candidates: dict[tuple[int, int], list[PodClass]] = {}
    for pod in pods:
        # Equal kinds and requests are mostly the same object, and looked up before the rest.
        some = candidates.setdefault((id(pod.kind), id(pod.requests)), [])
        known = next((each for each in some if each.first.is_like(pod)), None)
        if known is None:
            some.append(PodClass(pod))
            classes.append(some[-1])
        elif not known.one_per_round:
            known.pods.append(pod)
    return classes
