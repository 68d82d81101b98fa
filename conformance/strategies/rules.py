"""Strategies for the rules within nodes and pods: labels, selectors, taints, affinities, spreads.

Everything is drawn from short lists, so that two nodes often have the same taint and a pod often
selects a label that exists. All values are parts of valid API objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from hypothesis import strategies as st

from ..format.objects import HOSTNAME_LABEL
from ..format.reading import present

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from ..api import Json

    Values = Mapping[str, Sequence[str]]

T = TypeVar("T")

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
#: Labels of nodes, of pods and of namespaces, and their values.
NODE_LABELS: Final[Values] = {"disk": ("ssd", "hdd"), ZONE_LABEL: ("z1", "z2"), "size": ("1", "5")}
POD_LABELS: Final[Values] = {"app": ("web", "db"), "tier": ("front",)}
NAMESPACE_LABELS: Final[Values] = {"team": ("blue", "red")}
TAINTS: Final[Values] = {"dedicated": ("db", "gpu"), "spot": ("",)}
TOPOLOGY_KEYS: Final = (HOSTNAME_LABEL, ZONE_LABEL)
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
#: Reserved by the API for the node lifecycle: never drawn as a taint, sometimes tolerated.
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"


def subsets(values: Values) -> SearchStrategy[dict[str, str]]:
    """Return a strategy for labels: some of the keys, each with one of its values."""
    each = {key: st.sampled_from(some) for key, some in values.items()}
    return st.fixed_dictionaries({}, optional=each)


@st.composite
def optionally(draw: DrawFn, strategy: SearchStrategy[T], *, one_in: int = 4) -> T | None:
    """Draw a value once in `one_in` times, otherwise None; shrinks to None."""
    return draw(strategy) if draw(st.integers(1, one_in)) == one_in else None


def one_of_these(values: Sequence[T]) -> SearchStrategy[T]:
    """Return a strategy for one of some values; a single value is allowed.

    Shrinking can then remove values: without this function a single value would need no choice,
    and all later choices would get another meaning.
    """
    return st.sampled_from([*values, values[0]])


@st.composite
def taints(draw: DrawFn, values: Values = TAINTS) -> Json:
    """Draw a taint of a node."""
    key = draw(st.sampled_from([*values]))
    value, effect = draw(st.sampled_from(values[key])), draw(st.sampled_from(EFFECTS))
    return {"key": key, **present(value=value), "effect": effect}


@st.composite
def tolerations(draw: DrawFn, values: Values = TAINTS) -> Json:
    """Draw a toleration: of one taint, of all with a key, or of everything."""
    key = draw(st.sampled_from([*values, _UNSCHEDULABLE, ""]))
    if key not in values or draw(st.booleans()):
        toleration: Json = {**present(key=key), "operator": "Exists"}
    else:
        value = draw(st.sampled_from(values[key]))
        toleration = {"key": key, "operator": "Equal", **present(value=value)}
    effect = draw(st.sampled_from(["", *EFFECTS]))
    return {**toleration, **present(effect=effect)}


@st.composite
def label_selectors(draw: DrawFn, labels: Values = POD_LABELS) -> Json:
    """Draw a label selector of pods or of other objects. It may be empty and select all."""
    selector: Json = present(matchLabels=draw(subsets(labels)))
    expressions = draw(st.lists(_expressions(labels), max_size=1))
    return {**selector, **present(matchExpressions=expressions)}


@st.composite
def _expressions(draw: DrawFn, labels: Values, *, numeric: bool = False) -> Json:
    """Draw a requirement on a label; `numeric` allows Gt and Lt, as selectors of nodes do."""
    key = draw(st.sampled_from([*labels]))
    numbers = numeric and all(value.isdecimal() for value in labels[key])
    operators = ["In", "NotIn", "Exists", "DoesNotExist", *(["Gt", "Lt"] if numbers else [])]
    operator = draw(st.sampled_from(operators))
    if operator in ("Gt", "Lt"):
        return {"key": key, "operator": operator, "values": [draw(st.sampled_from(["1", "3"]))]}
    if operator in ("In", "NotIn"):
        values = draw(st.lists(st.sampled_from(labels[key]), min_size=1, max_size=2, unique=True))
        return {"key": key, "operator": operator, "values": values}
    return {"key": key, "operator": operator}


@st.composite
def node_selector_terms(
    draw: DrawFn, labels: Values = NODE_LABELS, *, node_names: Sequence[str] = ()
) -> Json:
    """Draw a term of a node selector, on labels or, with `node_names`, on the node's name."""
    if node_names and draw(st.integers(1, 4)) == 4:
        name, operator = draw(one_of_these(node_names)), draw(st.sampled_from(["In", "NotIn"]))
        return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]}
    expressions = st.lists(_expressions(labels, numeric=True), min_size=1, max_size=2)
    return {"matchExpressions": draw(expressions)}


@st.composite
def node_affinities(
    draw: DrawFn, labels: Values = NODE_LABELS, *, node_names: Sequence[str] = ()
) -> Json:
    """Draw a node affinity: required terms, preferred terms, or both."""
    terms = node_selector_terms(labels, node_names=node_names)
    preferred = st.builds(_preference, weight=_weights(), preference=terms)
    which = draw(st.sampled_from(["required", "preferred", "both"]))
    affinity: Json = {}
    if which != "preferred":
        required = {"nodeSelectorTerms": draw(st.lists(terms, min_size=1, max_size=2))}
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required
    if which != "required":
        some = draw(st.lists(preferred, min_size=1, max_size=2))
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = some
    return affinity


def _weights() -> SearchStrategy[int]:
    return st.sampled_from([1, 10, 100])


def _preference(weight: int, preference: Json) -> Json:
    return {"weight": weight, "preference": preference}


@st.composite
def _pod_affinity_terms(draw: DrawFn, labels: Values, namespaces: Sequence[str]) -> Json:
    """Draw a term of pod affinity: whose pods, and in which domain."""
    term: Json = {
        "labelSelector": draw(label_selectors(labels)),
        "topologyKey": draw(st.sampled_from(TOPOLOGY_KEYS)),
    }
    scope = draw(st.sampled_from(["own", "own", "own", "named", "selected", "key"]))
    if scope == "named":
        term["namespaces"] = [draw(one_of_these(namespaces))]
    elif scope == "selected":
        term["namespaceSelector"] = draw(label_selectors(NAMESPACE_LABELS))
    elif scope == "key":
        # The API refuses a key that the selector has, too.
        term["labelSelector"] = {}
        term["matchLabelKeys"] = [draw(st.sampled_from([*labels]))]
    return term


@st.composite
def pod_affinities(
    draw: DrawFn, labels: Values = POD_LABELS, *, namespaces: Sequence[str] = ("default",)
) -> Json:
    """Draw a pod affinity or anti-affinity, which have one form: required or preferred terms."""
    terms = _pod_affinity_terms(labels, namespaces)
    if draw(st.integers(1, 3)) < 3:
        required = draw(st.lists(terms, min_size=1, max_size=2))
        return {"requiredDuringSchedulingIgnoredDuringExecution": required}
    weighted = st.builds(_weighted, weight=_weights(), term=terms)
    preferred = draw(st.lists(weighted, min_size=1, max_size=2))
    return {"preferredDuringSchedulingIgnoredDuringExecution": preferred}


def _weighted(weight: int, term: Json) -> Json:
    return {"weight": weight, "podAffinityTerm": term}


@st.composite
def affinities(
    draw: DrawFn,
    *,
    node_labels: Values = NODE_LABELS,
    pod_labels: Values = POD_LABELS,
    namespaces: Sequence[str] = ("default",),
    node_names: Sequence[str] = (),
) -> Json:
    """Draw the affinity of a pod: one to three of its kinds."""
    of_pods = pod_affinities(pod_labels, namespaces=namespaces)
    kinds = {
        "podAntiAffinity": of_pods,
        "podAffinity": of_pods,
        "nodeAffinity": node_affinities(node_labels, node_names=node_names),
    }
    chosen = draw(st.lists(st.sampled_from([*kinds]), min_size=1, max_size=3, unique=True))
    return {kind: draw(kinds[kind]) for kind in chosen}


@st.composite
def topology_spreads(draw: DrawFn, labels: Values = POD_LABELS) -> Json:
    """Draw a topology spread constraint of a pod.

    A selector is empty only if the API server adds to it: an empty one counts no pods, which is a
    known bug.
    """
    when = draw(st.sampled_from(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]))
    spread: Json = {
        "maxSkew": draw(st.sampled_from([1, 2])),
        "topologyKey": draw(st.sampled_from(TOPOLOGY_KEYS)),
        "whenUnsatisfiable": when,
        "labelSelector": draw(label_selectors(labels).filter(bool)),
    }
    if when == "DoNotSchedule":
        spread |= present(minDomains=draw(optionally(st.sampled_from([2, 3]), one_in=6)))
    policies = st.sampled_from(["Honor", "Ignore"])
    spread |= present(
        nodeAffinityPolicy=draw(optionally(policies, one_in=6)),
        nodeTaintsPolicy=draw(optionally(policies, one_in=6)),
    )
    if draw(st.integers(1, 8)) == 8:
        spread |= {"labelSelector": {}, "matchLabelKeys": [draw(st.sampled_from([*labels]))]}
    return spread
