"""The suite's own matching rules: selectors, tolerations, terms of affinity.

The rules are written from the API's reference, apart from the API server's and the scheduler's.
Source: `metav1.LabelSelector`, `v1.NodeSelectorTerm`, `v1.Toleration` and `v1.PodAffinityTerm` in
the Kubernetes API v1.36.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..format.reading import texts
from ..format.resources import objects, part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..api import Json

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})


def labels_of(obj: Json) -> dict[str, str]:
    """Return the labels of an object."""
    labels = part(part(obj, "metadata"), "labels")
    return {key: str(value) for key, value in labels.items()}


def selects(selector: object, labels: Mapping[str, str]) -> bool:
    """Return True if a selector selects labels: None selects nothing, an empty selector all."""
    if not isinstance(selector, dict):
        return False
    if any(labels.get(key) != value for key, value in part(selector, "matchLabels").items()):
        return False
    return all(_meets(rule, labels) for rule in objects(selector.get("matchExpressions")))


def _meets(expression: Json, labels: Mapping[str, str]) -> bool:
    """Return True if labels meet a requirement. NotIn also holds for labels without the key."""
    key, operator, values = (
        expression.get("key"),
        expression.get("operator"),
        texts(expression.get("values")),
    )
    value = labels.get(str(key))
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if value is None or not value.lstrip("-").isdecimal() or len(values) != 1:
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])


def any_term_matches(terms: list[Json], node: Json) -> bool:
    """Return True if one of a node selector's terms matches; an empty term matches no node."""
    name = {"metadata.name": str(part(node, "metadata").get("name"))}
    return any(
        (term.get("matchExpressions") or term.get("matchFields"))
        and all(_meets(rule, labels_of(node)) for rule in objects(term.get("matchExpressions")))
        and all(_meets(rule, name) for rule in objects(term.get("matchFields")))
        for term in terms
    )


def node_affinity_matches(pod: Json, node: Json) -> bool:
    """Return True if a node meets a pod's node selector and required node affinity."""
    spec = part(pod, "spec")
    wanted = part(spec, "nodeSelector")
    if any(labels_of(node).get(key) != value for key, value in wanted.items()):
        return False
    required = part(part(spec, "affinity"), "nodeAffinity").get(_REQUIRED)
    if not isinstance(required, dict):
        return True
    return any_term_matches(objects(required.get("nodeSelectorTerms")), node)


def repelling_taints(node: Json) -> list[Json]:
    """Return the taints that keep pods off a node."""
    taints = objects(part(node, "spec").get("taints"))
    return [taint for taint in taints if taint.get("effect") in _REPELLING]


def tolerates(pod: Json, taint: Json) -> bool:
    """Return True if one of a pod's tolerations is for a taint."""
    return any(
        toleration.get("effect") in (None, "", taint.get("effect"))
        and toleration.get("key") in (None, "", taint.get("key"))
        and (
            toleration.get("operator") == "Exists"
            or (
                bool(toleration.get("key"))
                and (toleration.get("value") or "") == (taint.get("value") or "")
            )
        )
        for toleration in objects(part(pod, "spec").get("tolerations"))
    )


def required_terms(pod: Json, kind: str) -> list[Json]:
    """Return the required terms of `podAffinity` or `podAntiAffinity`."""
    return objects(part(part(part(pod, "spec"), "affinity"), kind).get(_REQUIRED))


def term_matches(
    term: Json, owner: Json, other: Json, namespaces: Mapping[str, Mapping[str, str]]
) -> bool:
    """Return True if a term of a pod's affinity is about another pod.

    `namespaces` are the labels of namespaces by name. The API server has merged `matchLabelKeys`
    into the selector when the pod was created.
    """
    namespace = str(part(other, "metadata").get("namespace"))
    named = term.get("namespaces") or []
    selector = term.get("namespaceSelector")
    if not named and selector is None:
        named = [part(owner, "metadata").get("namespace")]
    assert isinstance(named, list)
    in_scope = namespace in named or selects(selector, namespaces.get(namespace, {}))
    return in_scope and selects(term.get("labelSelector"), labels_of(other))
