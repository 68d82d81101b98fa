"""Reasons that lie in other pods: affinity, anti-affinity in both directions, spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .world import (
    HOST,
    ZONE,
    Sketch,
    create,
    gone,
    label,
    node,
    obj,
    patch,
    pod,
    reason,
    ref,
    remedy,
    zones,
)

if TYPE_CHECKING:
    import random

    from ..api import Json
    from .world import Fields, Remedy

_WAITER: Final[Json] = {"pod": "waiter"}
_DB: Final[Json] = {"app": "db"}
_TEAM: Final = obj("v1", "Namespace", "team")
_BLUE: Final[Json] = {"team": "blue"}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _blue_team(*, is_blue: bool = True) -> Json:
    return obj("v1", "Namespace", "team", labels=_BLUE if is_blue else {})


def _affinity(kind: str, *terms: Fields) -> Json:
    return {"affinity": {kind: {_REQUIRED: [*terms]}}}


def _selector(rng: random.Random, labels: Fields) -> Json:
    """Draw one of the forms of a selector of labels."""
    rules = [
        {"key": key, "operator": "In", "values": [value, "none"]} for key, value in labels.items()
    ]
    exists = [{"key": key, "operator": "Exists"} for key in labels]
    return rng.choice(
        [{"matchLabels": labels}, {"matchExpressions": rules}, {"matchExpressions": exists}]
    )


class _Scope:
    """The namespaces of a term: the pod's own, a named one, or selected ones."""

    def __init__(self, rng: random.Random) -> None:
        form = rng.choice(["own", "own", "named", "selected", "absent key", "all"])
        self.is_other = form not in ("own", "all") or rng.random() < 0.2
        self.prefix = "team/" if self.is_other else ""
        self.pod: Json = {"namespace": "team"} if self.is_other else {}
        self.cluster = [_blue_team()] if self.is_other else []
        self.term: Json = {}
        if form == "named" or (form == "own" and self.is_other):
            self.term = {"namespaces": ["team"]}
        elif form == "selected":
            self.term = {"namespaceSelector": _selector(rng, _BLUE)}
        elif form == "absent key":
            rule: Json = {"key": "old", "operator": rng.choice(["DoesNotExist", "NotIn"])}
            rule |= {"values": ["yes"]} if rule["operator"] == "NotIn" else {}
            self.term = {"namespaceSelector": {"matchExpressions": [rule]}}
        elif form == "all":
            self.term = {"namespaceSelector": {}}


def _term(rng: random.Random, scope: _Scope, labels: Fields, key: str) -> Json:
    term: Json = {"topologyKey": key, "labelSelector": _selector(rng, labels), **scope.term}
    if rng.random() < 0.15:
        term["mismatchLabelKeys"] = ["tenant"]
    elif rng.random() < 0.15:
        term["matchLabelKeys"] = ["version"]
    return term


@reason("InterPodAffinity", "affinity rules")
def no_company(rng: random.Random) -> Sketch:
    """No pod that the waiter requires nearby is there."""
    scope, key = _Scope(rng), rng.choice([HOST, ZONE])
    terms = [_term(rng, scope, _DB, key)]
    labels: Json = {**_DB, "version": "1", "tenant": "b"}
    if rng.random() < 0.4:
        terms.append(_term(rng, scope, {"tier": "back"}, rng.choice([HOST, key])))
        labels["tier"] = "back"
    wants = {**_affinity("podAffinity", *terms), "labels": {"version": "1", "tenant": "a"}}
    db = pod("db", node="a", labels=labels, **scope.pod)
    plain = pod("db", node="a", labels={"version": "1", "tenant": "b"}, **scope.pod)
    unbound = pod("db", labels=labels, scheduler_name="another", **scope.pod)
    there = rng.choice(["nothing", "without labels"])
    name = {"pod": f"{scope.prefix}db"}
    waiting_with_label = create(pod("db", labels=labels, node_selector={HOST: "a"}, **scope.pod))
    return Sketch(
        cluster=[*scope.cluster, *zones("a"), *([] if there == "nothing" else [plain])],
        waiter=wants,
        remedies={
            "pod is added": remedy(*_cleared(there, name), create(db)),
            "pod is bound": remedy(
                *_cleared(there, name), create(unbound), {"bind": {**name, "node": "a"}}
            ),
            "pod is scheduled": remedy(*_cleared(there, name), waiting_with_label),
            "pod gets the labels": remedy(
                *([create(plain)] if there == "nothing" else []), label(name, **labels)
            ),
            "pod gets the labels one by one": remedy(
                *([create(plain)] if there == "nothing" else []),
                *(label(name, **{k: v}) for k, v in labels.items()),
            ),
        },
    )


def _cleared(there: str, name: Fields) -> list[Json]:
    return [] if there == "nothing" else [{"delete": name}]


@reason("InterPodAffinity", "affinity rules")
def company_is_elsewhere(rng: random.Random) -> Sketch:
    """The pods that the waiter requires are on a node where it cannot run, or without the key."""
    rack = "rack"
    terms = [{"topologyKey": rack, "labelSelector": _selector(rng, _DB)}]
    if rng.random() < 0.3:
        terms.append(
            {
                "topologyKey": rack,
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            }
        )
    return Sketch(
        cluster=[
            node("a", unschedulable=True, labels={rack: "1"}),
            node("b", labels=rng.choice([{}, {rack: "2"}])),
            pod("db", node="a", labels=_DB),
        ],
        waiter=_affinity("podAffinity", *terms),
        remedies={
            "node gets the key": remedy(label({"node": "b"}, rack="1")),
            "other node gets the key": remedy(
                label({"node": "a"}, rack="2"), label({"node": "b"}, rack="2")
            ),
            "node is added": remedy(create(node("c", labels={rack: "1"}))),
            "uncordon": remedy(patch({"node": "a"}, {"spec": {"unschedulable": None}})),
            "company moves": remedy(
                label({"node": "b"}, rack="2"),
                {"delete": {"pod": "db"}},
                create(pod("db", node="b", labels=_DB)),
            ),
        },
    )


@reason("InterPodAffinity", "affinity rules")
def namespace_is_not_selected(rng: random.Random) -> Sketch:
    """The pod that the waiter requires is in a namespace without the labels."""
    term = {
        "topologyKey": HOST,
        "labelSelector": _selector(rng, _DB),
        "namespaceSelector": _selector(rng, _BLUE),
    }
    return Sketch(
        cluster=[
            _blue_team(is_blue=False),
            node("a"),
            pod("db", node="a", labels=_DB, namespace="team"),
        ],
        waiter=_affinity("podAffinity", term),
        remedies={"namespace is labelled": remedy(label(ref(_TEAM), **_BLUE))},
    )


@reason("InterPodAffinity", "affinity rules")
def own_kind_is_elsewhere(rng: random.Random) -> Sketch:
    """The waiter requires pods like itself, and the only one is where the waiter cannot run."""
    key = rng.choice([HOST, ZONE])
    terms: list[Json] = [{"topologyKey": key, "labelSelector": _selector(rng, _DB)}]
    labels: Json = {**_DB}
    if rng.random() < 0.3:
        terms.append({"topologyKey": HOST, "labelSelector": {"matchLabels": {"tier": "x"}}})
        labels["tier"] = "x"
    block: Json = rng.choice([{"unschedulable": True}, {"pods": 1}, {"taints": ["x:NoSchedule"]}])
    return Sketch(
        cluster=[
            node("a", labels={ZONE: "a"}, **block),
            node("b", labels={ZONE: "b"}),
            pod("peer", node="a", labels=labels),
        ],
        waiter={**_affinity("podAffinity", *terms), "labels": labels},
        remedies={
            **gone("peer"),
            "peer gets other labels": remedy(label({"pod": "peer"}, app="web")),
            "node of the peer is deleted": remedy(
                {"delete": {"node": "a"}}, {"delete": {"pod": "peer"}}
            ),
            "peer loses its key": remedy(label({"node": "a"}, **{key: None})),
        },
    )


@reason("InterPodAffinity", "affinity rules")
def not_its_own_company(rng: random.Random) -> Sketch:
    """The waiter requires pods with labels that it has not itself."""
    key = rng.choice([HOST, ZONE])
    return Sketch(
        cluster=zones("a"),
        waiter=_affinity("podAffinity", {"topologyKey": key, "labelSelector": _selector(rng, _DB)}),
        remedies={"waiter gets the labels": remedy(label(_WAITER, **_DB), labels=_DB)},
    )


@reason("InterPodAffinity", "anti-affinity rules")
def bad_company(rng: random.Random) -> Sketch:
    """A pod is there that the waiter does not want nearby."""
    scope, key = _Scope(rng), rng.choice([HOST, ZONE])
    first = _term(rng, scope, _DB, key)
    terms = [first]
    if rng.random() < 0.5:
        other: Json = {
            "topologyKey": key,
            "labelSelector": {"matchLabels": {"app": rng.choice(["cache", "db"])}},
        }
        terms.insert(rng.choice([0, 1]), other)
    labels: Json = {**_DB, "version": "1", "tenant": "b"}
    name = f"{scope.prefix}db"
    return Sketch(
        cluster=[*scope.cluster, *zones("a"), pod("db", node="a", labels=labels, **scope.pod)],
        waiter={**_affinity("podAntiAffinity", *terms), "labels": {"version": "1", "tenant": "a"}},
        remedies={
            **gone(name),
            "pod gets other labels": remedy(label({"pod": name}, app=None)),
            "pod gets another value": remedy(label({"pod": name}, app=None, x="y")),
            "node is added": remedy(create(*zones("b"))),
            "node changes its domain": remedy(
                create(node("b", labels={ZONE: "a"}, pods=9, unschedulable=True)),
                label({"node": "b"}, **{ZONE: "b", HOST: "b"}),
                patch({"node": "b"}, {"spec": {"unschedulable": None}}),
            ),
        },
    )


@reason("InterPodAffinity", "anti-affinity")
def node_joins_a_bad_domain(rng: random.Random) -> Sketch:
    """A node without pods is in the domain of a pod that the waiter does not want nearby."""
    term = {"topologyKey": ZONE, "labelSelector": _selector(rng, _DB)}
    is_own = rng.random() < 0.5
    keeps_away = _affinity("podAntiAffinity", term)
    db = pod("db", node="a", **({"labels": _DB} if is_own else keeps_away))
    return Sketch(
        cluster=[
            node("a", labels={ZONE: "1"}, unschedulable=True),
            node("b", labels={ZONE: "1"}),
            db,
        ],
        waiter=keeps_away if is_own else {"labels": _DB},
        remedies={
            "free node leaves the domain": remedy(label({"node": "b"}, **{ZONE: "2"})),
            "free node loses the key": remedy(label({"node": "b"}, **{ZONE: None})),
            "other node leaves the domain": remedy(label({"node": "a"}, **{ZONE: "2"})),
            "other node loses the key": remedy(label({"node": "a"}, **{ZONE: None})),
            "other node is deleted": remedy({"delete": {"node": "a"}}),
            **{f"other {name}": one for name, one in gone("db").items()},
        },
    )


@reason("InterPodAffinity", "anti-affinity rules")
def namespace_is_selected(rng: random.Random) -> Sketch:
    """A pod in a namespace with the labels keeps the waiter away, or the waiter keeps it away."""
    is_own = rng.random() < 0.5
    absent = {"matchExpressions": [{"key": "team", "operator": "Exists"}]}
    chosen = {"matchLabels": _BLUE} if rng.random() < 0.7 else absent
    if is_own:
        term = {
            "topologyKey": HOST,
            "labelSelector": _selector(rng, _DB),
            "namespaceSelector": chosen,
        }
        return Sketch(
            cluster=[_blue_team(), node("a"), pod("db", node="a", labels=_DB, namespace="team")],
            waiter=_affinity("podAntiAffinity", term),
            remedies={"namespace loses its labels": remedy(label(ref(_TEAM), team=None))},
        )
    term = {"topologyKey": HOST, "labelSelector": _selector(rng, _DB), "namespaceSelector": chosen}
    keeper = pod("keeper", node="a", **_affinity("podAntiAffinity", term))
    return Sketch(
        cluster=[_blue_team(), node("a"), keeper],
        waiter={"namespace": "team", "labels": _DB},
        remedies={"namespace loses its labels": remedy(label(ref(_TEAM), team=None))},
    )


@reason("InterPodAffinity", "existing pods anti-affinity")
def unwelcome(rng: random.Random) -> Sketch:
    """A pod is there that does not want the waiter nearby."""
    key = rng.choice([HOST, ZONE])
    terms: list[Json] = [{"topologyKey": key, "labelSelector": _selector(rng, _DB)}]
    if rng.random() < 0.5:
        other: Json = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "cache"}}}
        terms.insert(rng.choice([0, 1]), other)
    more: Json = {}
    cluster = zones("a")
    name = "keeper"
    if rng.random() < 0.3:
        terms = [
            {
                **term,
                "namespaceSelector": rng.choice(
                    [{}, {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}]
                ),
            }
            for term in terms
        ]
        cluster, more, name = [_blue_team(), *cluster], {"namespace": "team"}, "team/keeper"
    keeper = pod("keeper", node="a", **more, **_affinity("podAntiAffinity", *terms))
    return Sketch(
        cluster=[*cluster, keeper],
        waiter={"labels": _DB},
        remedies={
            **gone(name),
            "waiter gets other labels": remedy(label(_WAITER, app="web"), labels={"app": "web"})
            if not _exists(terms)
            else remedy(label(_WAITER, app=None), labels={}),
            "node is added": remedy(create(*zones("b"))),
        },
    )


def _exists(terms: list[Json]) -> bool:
    return "Exists" in str(terms)


@reason("PodTopologySpread", "topology spread")
def skew(rng: random.Random) -> Sketch:
    """The waiter would make the skew of a constraint too large."""
    key = rng.choice([HOST, ZONE])
    rule: Json = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": _selector(rng, _DB),
    }
    if rng.random() < 0.2:
        rule["matchLabelKeys"] = ["version"]
    rules = [rule]
    if rng.random() < 0.3:
        rules.append({**rule, "maxSkew": 3, "topologyKey": HOST if key == ZONE else ZONE})
    block: Json = rng.choice([{"unschedulable": True}, {"pods": 0}, {"taints": ["x:NoSchedule"]}])
    labels: Json = {**_DB, "version": "1"}
    free = {"key": "x", "operator": "Exists"}
    opened: dict[str, Remedy] = {}
    if "unschedulable" in block:
        opened = {"node is opened": remedy(patch({"node": "b"}, {"spec": {"unschedulable": None}}))}
    elif "taints" in block:
        opened = {"node is opened": remedy(patch({"node": "b"}, {"spec": {"taints": None}}))}
    else:
        opened = {
            "node is opened": remedy(
                {"update_status": {"node": "b", "status": {"allocatable": {"pods": "9"}}}}
            )
        }
    del free
    return Sketch(
        cluster=[
            node("a", labels={ZONE: "a"}),
            node("b", labels={ZONE: "b"}, **block),
            pod("db", node="a", labels=labels),
        ],
        waiter={"labels": labels, "spec": {"topologySpreadConstraints": rules}},
        remedies={
            **gone("db"),
            **opened,
            "pod is added to the other domain": remedy(
                create(pod("more", node="b", labels=labels))
            ),
            "pod gets the labels": remedy(
                create(pod("more", node="b")), label({"pod": "more"}, **labels)
            ),
            "pod loses the labels": remedy(label({"pod": "db"}, app=None)),
            "other domain is deleted": remedy({"delete": {"node": "b"}}),
            "other domain loses the key": remedy(label({"node": "b"}, **{key: None})),
            "domain is added": remedy(create(node("c", labels={ZONE: "c"}))),
            "nodes join one domain": remedy(label({"node": "b"}, **{key: "a"})),
            "pod begins to end": remedy({"delete": {"pod": "db", "grace_period_seconds": 600}}),
            "waiter gets other labels": remedy(
                label(_WAITER, app=None, version="2"), labels={"version": "2"}
            ),
        },
    )


@reason("PodTopologySpread", "topology spread")
def too_few_domains(rng: random.Random) -> Sketch:
    """There are fewer domains than `minDomains`."""
    rule = {
        "maxSkew": 1,
        "minDomains": 2,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": _selector(rng, _DB),
    }
    return Sketch(
        cluster=[*zones("a"), node("b"), pod("db", node="a", labels=_DB)],
        waiter={"labels": _DB, "spec": {"topologySpreadConstraints": [rule]}},
        remedies={
            **gone("db"),
            "domain is added": remedy(create(*zones("c"))),
            "node gets the key": remedy(label({"node": "b"}, **{ZONE: "b"})),
            "pod loses the labels": remedy(label({"pod": "db"}, app=None)),
        },
    )


@reason("PodTopologySpread", "topology spread")
def policy_counts_a_node(rng: random.Random) -> Sketch:
    """A node without pods counts as a domain, by the policies for taints and affinity."""
    rule: Json = {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": _selector(rng, _DB),
        "nodeTaintsPolicy": "Honor",
        "nodeAffinityPolicy": "Honor",
    }
    return Sketch(
        cluster=[
            node("a", labels={"disk": "ssd"}),
            node("b", labels={"disk": "ssd"}, unschedulable=True),
            pod("db", node="a", labels=_DB),
        ],
        waiter={
            "labels": _DB,
            "node_selector": {"disk": "ssd"},
            "spec": {"topologySpreadConstraints": [rule]},
        },
        remedies={
            "node gets a taint": remedy(
                patch({"node": "b"}, {"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}})
            ),
            "node leaves the affinity": remedy(label({"node": "b"}, disk="hdd")),
            "node is deleted": remedy({"delete": {"node": "b"}}),
            "waiter gets other labels": remedy(label(_WAITER, app=None), labels={}),
        },
    )


@reason("PodTopologySpread", "topology spread")
def key_is_missing(rng: random.Random) -> Sketch:
    """No node has the key of a constraint."""
    rules = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": _selector(rng, _DB),
        }
        for key in ("rack", ZONE)[: rng.choice([1, 2])]
    ]
    return Sketch(
        cluster=zones("a"),
        waiter={"labels": _DB, "spec": {"topologySpreadConstraints": rules}},
        remedies={
            "node gets the key": remedy(label({"node": "a"}, rack="1")),
            "node is added": remedy(create(node("b", labels={"rack": "1", ZONE: "b"}))),
        },
    )
