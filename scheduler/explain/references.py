"""The kinds that pods refer to: an answer without the objects of such a kind is unsure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, cast

from msgspec.structs import replace

from scheduler.client import object_key
from scheduler.client.kinds import KINDS_BY_NAME, GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scheduler.api.core import Pod, PodAffinityTerm
    from scheduler.api.dynamic_resources import ResourceClaim
    from scheduler.api.storage import PersistentVolumeClaim
    from scheduler.assembly.watched_kinds import WatchedKind
    from scheduler.explain.cluster import Cluster
    from scheduler.reports.model import PodReport

_CLAIMS: Final = KINDS_BY_NAME["PersistentVolumeClaim"].key
_DEVICE_CLAIMS: Final = KINDS_BY_NAME["ResourceClaim"].key
#: The kinds that pods or their claims refer to, by key, in the plural.
_PLURALS: Final = {
    KINDS_BY_NAME[kind].key: f"{kind}{'es' if kind.endswith('s') else 's'}"
    for kind in (
        *("PersistentVolumeClaim", "PersistentVolume", "StorageClass"),
        *("ResourceClaim", "ResourceSlice", "DeviceClass", "Namespace"),
    )
}


def dump_command(kinds: Iterable[WatchedKind]) -> str:
    """Return the kubectl command that prints all objects that decisions depend on."""
    names = ["nodes", "pods"]
    for kind in kinds:
        resource = kind.resource
        if isinstance(resource, GroupVersionResource):
            names.append(".".join(part for part in (resource.plural, resource.group) if part))
        else:
            names.append(resource.group_resource)
    return f"kubectl get {','.join(names)} -A -o json"


class MissingKinds:
    """The kinds without an object in the input, and the pods that refer to them."""

    def __init__(self, cluster: Cluster, *, unread: Collection[str] | None = None) -> None:
        """Find the missing kinds: `unread`, by key, or for None the kinds without objects.

        An API server that lists no object of a kind has none; a file may lack them.
        """
        missing = unread if unread is not None else [k for k in _PLURALS if k not in cluster.others]
        self._missing: Final = [key for key in _PLURALS if key in missing]
        self._claims: Final = {
            object_key(claim): cast("PersistentVolumeClaim", claim)
            for claim in cluster.others.get(_CLAIMS, ())
        }
        self._allocated: Final = {
            object_key(claim)
            for claim in cluster.others.get(_DEVICE_CLAIMS, ())
            if cast("ResourceClaim", claim).status.allocation is not None
        }

    def warnings(self, pods: Iterable[Pod]) -> Iterator[str]:
        """Yield a line for each missing kind that pods refer to, with the number of pods."""
        numbers = Counter(key for pod in pods for key in self._missing_for(pod))
        for key in self._missing:
            if number := numbers[key]:
                refer = f"{number:,} pod{' refers' if number == 1 else 's refer'}"
                yield f"no {_PLURALS[key]} in the input: {refer} to some"

    def marked(self, report: PodReport, pod: Pod) -> PodReport:
        """Return the report of a pod, marked as unsure if a kind is missing that it refers to."""
        unsure = self.kinds_for(pod)
        if not unsure:
            return report
        answer = f"{report.answer} (unsure: no {', no '.join(unsure)} in the input)"
        return replace(report, answer=answer, unsure=unsure)

    def kinds_for(self, pod: Pod) -> tuple[str, ...]:
        """Return the missing kinds that a pod refers to, in the plural."""
        return tuple(_PLURALS[key] for key in self._missing_for(pod))

    def _missing_for(self, pod: Pod) -> list[str]:
        if not self._missing:
            return []
        references = self._references(pod)
        return [key for key in self._missing if key in references]

    def _references(self, pod: Pod) -> set[str]:
        """Return the keys of the kinds that a pod or one of its claims refers to."""
        kinds: set[str] = set()
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
            elif volume.ephemeral is not None:
                name = f"{pod.metadata.name}-{volume.name}"
            else:
                continue
            kinds.add("PersistentVolumeClaim")
            found = self._claims.get(f"{pod.metadata.namespace}/{name}")
            if found is not None and found.spec.volume_name:
                kinds.add("PersistentVolume")
            elif found is not None and found.spec.storage_class_name:
                kinds.add("StorageClass")
        for claim in pod.spec.resource_claims:
            name = claim.resource_claim_name or ""
            kinds.add("ResourceClaim")
            if f"{pod.metadata.namespace}/{name}" not in self._allocated:
                kinds |= {"ResourceSlice", "DeviceClass"}
        if any(_selects_namespaces(term) for term in _required_terms(pod)):
            kinds.add("Namespace")
        return {KINDS_BY_NAME[kind].key for kind in kinds}


def _required_terms(pod: Pod) -> Iterator[PodAffinityTerm]:
    affinity = pod.spec.affinity
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        if side is not None:
            yield from side.required_during_scheduling_ignored_during_execution


def _selects_namespaces(term: PodAffinityTerm) -> bool:
    """True if the labels of namespaces matter: an empty selector selects every namespace."""
    selector = term.namespace_selector
    return selector is not None and bool(selector.match_labels or selector.match_expressions)
