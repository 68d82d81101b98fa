"""Plugins that change or check the spec of one pod: tolerations and anti-affinity.

Source: plugin/pkg/admission/{defaulttolerationseconds,extendedresourcetoleration,antiaffinity} and
AddOrUpdateTolerationInPod in pkg/apis/core/helper/helpers.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation, Review
from fakeapi.types.errors import Forbidden
from fakeapi.types.kind import PODS
from fakeapi.types.objects import Json, mapping, mappings, name_of, sequence, text
from fakeapi.types.pod_resources import is_extended_resource

_KEYS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS: Final = 300
_WRITES: Final = (Operation.CREATE, Operation.UPDATE)


class DefaultTolerationSeconds(Plugin):
    """Makes pods tolerate a node that is not ready or not reachable for 300 seconds."""

    name = "DefaultTolerationSeconds"
    resources = (PODS,)
    operations = _WRITES

    def mutate(self, review: Review) -> None:
        """Add the tolerations, except for taints that the pod tolerates already."""
        spec = mapping(review.object.get("spec"))
        tolerations = sequence(spec.get("tolerations"))
        missing: tuple[str, ...] = _KEYS
        if tolerations:
            missing = tuple(k for k in _KEYS if not any(_tolerates(t, k) for t in tolerations))
        added = [
            {"key": k, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
            for k in missing
        ]
        if added:
            review.object["spec"] = {**spec, "tolerations": [*tolerations, *added]}


def _tolerates(toleration: object, key: str) -> bool:
    if not isinstance(toleration, dict):
        return False
    return toleration.get("key", "") in (key, "") and toleration.get("effect", "") in (
        "NoExecute",
        "",
    )


class ExtendedResourceToleration(Plugin):
    """Makes pods tolerate the taints of extended resources that they request; off by default."""

    name = "ExtendedResourceToleration"
    resources = (PODS,)
    operations = _WRITES

    def mutate(self, review: Review) -> None:
        """Add a toleration for each extended resource, in order of their names."""
        spec = mapping(review.object.get("spec"))
        containers = mappings(spec.get("containers")) + mappings(spec.get("initContainers"))
        requested = {
            name
            for container in containers
            for name in mapping(mapping(container.get("resources")).get("requests"))
            if is_extended_resource(name)
        }
        tolerations = mappings(spec.get("tolerations"))
        for name in sorted(requested):
            wanted: Json = {"key": name, "operator": "Exists", "effect": "NoSchedule"}
            tolerations = _with(tolerations, wanted)
        if requested:
            review.object["spec"] = {**spec, "tolerations": tolerations}


def _with(tolerations: list[Json], wanted: Json) -> list[Json]:
    """Return the tolerations with this one, in place of tolerations with other seconds."""
    updated = [wanted if _key(item) == _key(wanted) else item for item in tolerations]
    return updated if wanted in updated else [*tolerations, wanted]


def _key(toleration: Json) -> tuple[object, ...]:
    fields = ("key", "effect", "operator", "value")
    return tuple(toleration.get(field) or "" for field in fields)


_HOST: Final = "kubernetes.io/hostname"


class LimitPodHardAntiAffinityTopology(Plugin):
    """Refuses required anti-affinity between more than hosts; off by default."""

    name = "LimitPodHardAntiAffinityTopology"
    resources = (PODS,)
    operations = _WRITES

    def check(self, review: Review) -> None:
        affinity = mapping(mapping(review.object.get("spec")).get("affinity"))
        terms = mapping(affinity.get("podAntiAffinity"))
        for term in mappings(terms.get("requiredDuringSchedulingIgnoredDuringExecution")):
            key = text(term.get("topologyKey"))
            if key != _HOST:
                raise Forbidden(
                    "pods",
                    "",
                    name_of(review.object),
                    f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but "
                    f"only key {_HOST} is allowed",
                )
