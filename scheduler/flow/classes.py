"""Classes of equal pods: pods of a class are interchangeable, and share their dry runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from scheduler.api.core import PodResourceClaim
from scheduler.api.dynamic_resources import claim_referenced_by
from scheduler.snapshot.claims_and_disks import NO_VOLUMES
from scheduler.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterable


class PodClass:
    """Equal pods in their order. `pods` has only the first one of a class with `one_per_round`."""

    def __init__(self, pod: PodInfo) -> None:
        self.pods: Final = [pod]
        self.one_per_round: Final = depends_on_other_nodes(pod)
        self.has_claims: Final = bool(pod.spec.resource_claims)

    @property
    def first(self) -> PodInfo:
        return self.pods[0]

    def filler(self, number: int) -> PodInfo:
        """Return a pod that takes the place of a pod of this class in a dry run.

        A class of which one pod is planned may share a node with other classes: its fillers only
        have its requests. So do those of a class with claims, which dry runs do not allocate.
        """
        pod = self.first.pod
        metadata = replace(pod.metadata, uid=f"{pod.metadata.uid}/{number}")
        if not self.one_per_round and not self.has_claims:
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
    """True if pods on other nodes, or volumes, decide where the pod fits, or its score.

    A dry run changes one node at a time and does not see what such pods do to one another.
    """
    terms = pod.kind.affinity
    return bool(
        terms.required_affinity
        or terms.required_anti_affinity
        or pod.spec.topology_spread_constraints
        or pod.volumes is not NO_VOLUMES
    )


def with_claims_of(pod: PodInfo, others: Iterable[PodInfo]) -> PodInfo:
    """Return the pod with the claims of others, too: it fits where devices suffice for all."""
    claims = [
        PodResourceClaim(name=f"{number}/{claim.name}", resource_claim_name=reference.name)
        for number, each in enumerate((pod, *others))
        for claim in each.spec.resource_claims
        if (reference := claim_referenced_by(each.pod, claim)) is not None
    ]
    return PodInfo(replace(pod.pod, spec=replace(pod.spec, resource_claims=tuple(claims))))


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
