"""Reasons that lie in a node: room, ports, taints, labels, a cordon, gates, nominations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .world import HOST, Sketch, create, gone, label, node, patch, pod, reason, remedy

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from ..api import Json

_GPU: Final = "example.com/gpu"
_EVERYTHING: Final[Json] = {"operator": "Exists"}
_TOLERATE: Final = {"op": "add", "path": "/spec/tolerations/-", "value": _EVERYTHING}
_WAITER: Final[Json] = {"pod": "waiter"}
_A: Final[Json] = {"node": "a"}


def _allocatable(**amounts: str) -> Json:
    return {"update_status": {"node": "a", "status": {"allocatable": amounts}}}


@reason("NodeResourcesFit", "Insufficient")
def no_room(rng: random.Random) -> Sketch:
    """The pods of a node leave too little of a resource."""
    name = rng.choice(["cpu", "memory", "ephemeral-storage", _GPU])
    whole = {"cpu": "4", "memory": "4Gi", "ephemeral-storage": "4Gi", _GPU: "4"}[name]
    most = whole.replace("4", "3")
    wants: Json = {"resources": {name: most}}
    if rng.random() < 0.3:
        wants = {
            "init_containers": [{"resources": {"requests": {name: most}, "limits": {name: most}}}]
        }
    small, large = (_with(name, whole.replace("4", amount)) for amount in "48")
    others = rng.choice([1, 1, 2])
    share = whole.replace("4", "2") if others == 1 else whole.replace("4", "1")
    cluster = [node("a", **small)]
    cluster += [
        pod(f"used-{n}", node="a", resources={name: share}, priority=rng.choice([0, 0, 10]))
        for n in range(others)
    ]
    last = gone("used-0")
    return Sketch(
        cluster=cluster,
        waiter={**wants, **({"priority": 0} if rng.random() < 0.5 else {})},
        remedies={
            **last,
            "node is added": remedy(create(node("b", **large))),
            "allocatable grows": remedy(_allocatable(**{name: whole.replace("4", "8")})),
        },
    )


def _with(name: str, amount: str) -> Json:
    """Return the field of a node that has an amount of a resource."""
    field = name.replace("-", "_")
    return {"resources": {name: amount}} if name == _GPU else {field: amount}


@reason("NodeResourcesFit", "Insufficient")
def room_that_can_be_resized(rng: random.Random) -> Sketch:
    """Pods leave too little CPU or memory, and can be resized in place."""
    name, whole = rng.choice([("cpu", "4"), ("memory", "4Gi")])
    small, large = (whole.replace("4", amount) for amount in "13")
    return Sketch(
        cluster=[node("a", **{name: whole}), pod("used", node="a", **{name: large})],
        waiter={name: large},
        remedies={
            "pod is resized": remedy(_resized("used", name, small)),
            "waiter is resized": remedy(_resized("waiter", name, small), **{name: small}),
        },
    )


def _resized(pod_name: str, name: str, amount: str) -> Json:
    containers = [{"name": "main", "resources": {"requests": {name: amount}}}]
    change = {"spec": {"containers": containers}}
    return patch({"pod": pod_name}, change, type="strategic", subresource="resize")


@reason("NodeResourcesFit", "Too many pods")
def too_many_pods(rng: random.Random) -> Sketch:
    """A node has as many pods as it may have."""
    number = rng.choice([1, 2])
    used = [pod(f"used-{n}", node="a") for n in range(number)]
    return Sketch(
        cluster=[node("a", pods=number), *used],
        waiter={},
        remedies={
            **gone("used-0"),
            "node is added": remedy(create(node("b"))),
            "allocatable grows": remedy(_allocatable(pods="9")),
        },
    )


@reason("NodePorts", "free ports")
def port_is_taken(rng: random.Random) -> Sketch:
    """A host port is taken, by an equal address or by all addresses."""
    ours, theirs = rng.choice([(80, 80), (80, _port("10.0.0.1")), (_port("10.0.0.1"), 80)])
    number = rng.choice([1, 2])
    cluster = [node(name) for name in "ab"[:number]]
    cluster += [pod(f"web-{n}", node="ab"[n], host_ports=[theirs]) for n in range(number)]
    return Sketch(
        cluster=cluster,
        waiter={"host_ports": [ours, *([81] if rng.random() < 0.3 else [])]},
        remedies={**gone("web-0"), "node is added": remedy(create(node("c")))},
    )


def _port(address: str) -> Json:
    return {"containerPort": 80, "hostPort": 80, "hostIP": address, "protocol": "TCP"}


@reason("TaintToleration", "untolerated taint")
def taint(rng: random.Random) -> Sketch:
    """Nodes have taints that the waiter does not tolerate."""
    effect = rng.choice(["NoSchedule", "NoExecute"])
    taints = [{"key": "dedicated", "value": "db", "effect": effect}]
    if rng.random() < 0.3:
        taints.append({"key": "spot", "effect": "NoSchedule"})
    waiter: Json = {}
    if rng.random() < 0.4:
        waiter = {"tolerations": [{"key": "dedicated", "value": "web", "operator": "Equal"}]}
    tolerated = {"tolerations": [_EVERYTHING]}
    softer = [{**one, "effect": "PreferNoSchedule"} for one in taints]
    return Sketch(
        cluster=[node("a", taints=taints)],
        waiter=waiter,
        remedies={
            "taint is removed": remedy(patch(_A, {"spec": {"taints": None}})),
            "taint gets softer": remedy(patch(_A, {"spec": {"taints": softer}})),
            "taint changes": remedy(
                patch(_A, {"spec": {"taints": [{"key": "x", "effect": "PreferNoSchedule"}]}})
            ),
            "waiter tolerates": remedy(patch(_WAITER, [_TOLERATE], type="json"), **tolerated),
            "node is added": remedy(create(node("b", taints=softer if rng.random() < 0.5 else []))),
            "node is replaced": remedy({"delete": {"node": "a"}}, create(node("a"))),
        },
    )


@reason("NodeUnschedulable", "unschedulable")
def cordon(rng: random.Random) -> Sketch:
    """The nodes are cordoned."""
    taints = ["node.kubernetes.io/unschedulable:NoSchedule"] if rng.random() < 0.5 else []
    free = {"spec": {"unschedulable": None, **({"taints": None} if taints else {})}}
    one = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    add = {**_TOLERATE, "value": one}
    return Sketch(
        cluster=[node("a", unschedulable=True, taints=taints)],
        waiter={},
        remedies={
            "uncordon": remedy(patch(_A, free)),
            "waiter tolerates": remedy(patch(_WAITER, [add], type="json"), tolerations=[one]),
            "node is added": remedy(create(node("b"))),
        },
    )


@reason("NodeAffinity", "affinity/selector")
def node_labels(rng: random.Random) -> Sketch:
    """No node has the labels, or the name, that the waiter wants."""
    rules = {
        "In": {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]},
        "Exists": {"key": "disk", "operator": "Exists"},
        "Gt": {"key": "size", "operator": "Gt", "values": ["4"]},
        "Lt": {"key": "size", "operator": "Lt", "values": ["3"]},
        "NotIn": {"key": "old", "operator": "NotIn", "values": ["yes"]},
        "DoesNotExist": {"key": "old", "operator": "DoesNotExist"},
    }
    good = {"disk": "ssd", "size": "9", "old": None}
    chosen = rng.sample([*rules], rng.choice([1, 1, 2]))
    if {"Gt", "Lt"} <= {*chosen}:
        chosen = ["Gt"]
    if chosen == ["Lt"] or "Lt" in chosen:
        good["size"] = "1"
    terms = [{"matchExpressions": [rules[name] for name in chosen]}]
    if rng.random() < 0.4:
        terms.insert(
            rng.choice([0, 1]), {"matchExpressions": [{"key": "never", "operator": "Exists"}]}
        )
    waiter: Json = {"node_affinity": {"required": terms}}
    if rng.random() < 0.2:
        waiter, good = {"node_selector": {"disk": "ssd"}}, {"disk": "ssd"}
    labels = {"old": "yes", "size": "3" if "Gt" in chosen else "5", "disk": "hdd"}
    if "Exists" in chosen:
        del labels["disk"]
    fit = {key: value for key, value in good.items() if value is not None}
    return Sketch(
        cluster=[node("a", labels=labels)],
        waiter=waiter,
        remedies={
            "label changes": remedy(label(_A, **good)),
            "labels change one by one": remedy(*(label(_A, **{k: v}) for k, v in good.items())),
            "node is added": remedy(create(node("b", labels=fit))),
            "label and taint change": remedy(
                patch(
                    _A,
                    {
                        "metadata": {"labels": good},
                        "spec": {"taints": [{"key": "s", "effect": "PreferNoSchedule"}]},
                    },
                )
            ),
        },
    )


@reason("NodeAffinity", "")
def node_name_field(rng: random.Random) -> Sketch:
    """The waiter wants a node by its name, which is not there."""
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    if rng.random() < 0.3:
        field["matchExpressions"] = [{"key": HOST, "operator": "Exists"}]
    return Sketch(
        cluster=[node("a")],
        waiter={"node_affinity": {"required": [field]}},
        remedies={"node is added": remedy(create(node("b")))},
    )


@reason("NodeAffinity", "")
def named_node_is_full(rng: random.Random) -> Sketch:
    """The waiter wants a node by its name, as pods of a DaemonSet do, and that node has no room."""
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    return Sketch(
        cluster=[node("a", pods=1), node("b"), pod("used", node="a", priority=rng.choice([0, 5]))],
        waiter={"node_affinity": {"required": [field]}},
        remedies={**gone("used"), "allocatable grows": remedy(_allocatable(pods="9"))},
    )


@reason("NodeResourcesFit", "available")
def no_nodes(rng: random.Random) -> Sketch:
    """There is no node at all."""
    del rng
    return Sketch(cluster=[], waiter={}, remedies={"node is added": remedy(create(node("a")))})


@reason("SchedulingGates", "")
def gates(rng: random.Random) -> Sketch:
    """The waiter has scheduling gates."""
    names = ["x.example/one", "x.example/two"][: rng.choice([1, 2])]
    off = patch(_WAITER, {"spec": {"schedulingGates": None}})
    first = patch(_WAITER, {"spec": {"schedulingGates": [{"name": names[-1]}]}})
    both = patch(_WAITER, {"metadata": {"labels": {"x": "y"}}, "spec": {"schedulingGates": None}})
    return Sketch(
        cluster=[node("a")],
        waiter={"scheduling_gates": names},
        remedies={
            "gates are removed": remedy(off, scheduling_gates=[]),
            "gates are removed one by one": remedy(first, off, scheduling_gates=[]),
            "gates and labels change": remedy(both, scheduling_gates=[], labels={"x": "y"}),
        },
    )


def _away(key: str, value: str) -> Json:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {key: value}}}
    rare = {"topologyKey": HOST, "labelSelector": {"matchLabels": {key: "nothing"}}}
    return {
        "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term, rare]}
        }
    }


#: What two pods cannot have on one node.
_EXCLUSIVE: Final[Sequence[Json]] = (
    {"cpu": 3},
    {"resources": {_GPU: "3"}},
    {"host_ports": [80]},
    {"labels": {"app": "db"}, **_away("app", "db")},
)
_GPUS: Final[Json] = {"resources": {_GPU: "4"}}


@reason("NodeResourcesFit", "")
def room_is_nominated(rng: random.Random) -> Sketch:
    """A more important pod waits for its victim to end, and has the node's room nominated."""
    wants = rng.choice(_EXCLUSIVE)
    slow = {"delete": {"pod": "victim"}}
    grace = {"terminationGracePeriodSeconds": 30}
    high = pod("high", priority=100, **wants, spec=grace)
    return Sketch(
        cluster=[
            node("a", **_GPUS),
            pod("victim", node="a", priority=1, **wants, spec=grace),
            high,
        ],
        waiter={"priority": 50, **wants},
        remedies={
            "nominated pod is deleted": remedy({"delete": {"pod": "high"}}, slow),
            "nominated pod is deleted after the victim": remedy(slow, {"delete": {"pod": "high"}}),
            "nodes are added": remedy(create(*(node(name, **_GPUS) for name in "bc"))),
            "nominated pod ends": remedy(
                slow, {"advance": "3s"}, *gone("high")["pod succeeds"].steps
            ),
        },
    )


@reason("NodeResourcesFit", "")
def gated_pod_is_nominated(rng: random.Random) -> Sketch:
    """The room is nominated for a more important pod, which has scheduling gates."""
    wants = rng.choice(_EXCLUSIVE)
    nominated = {"nominatedNodeName": "a"}
    high = pod("high", priority=100, scheduling_gates=["x.example/y"], status=nominated, **wants)
    cleared = {"update_status": {"pod": "high", "status": {"nominatedNodeName": None}}}
    moved = {"update_status": {"pod": "high", "status": {"nominatedNodeName": "b"}}}
    return Sketch(
        cluster=[node("a", **_GPUS), high],
        waiter={"priority": 50, **wants},
        remedies={
            "nominated pod is deleted": remedy({"delete": {"pod": "high"}}),
            "nomination is cleared": remedy(cleared),
            "nomination moves": remedy(create(node("b", cpu=1, pods=0)), moved),
            "node is added": remedy(create(node("b", **_GPUS))),
        },
    )


@reason("NodeResourcesFit", "Insufficient")
def resize_is_under_way(rng: random.Random) -> Sketch:
    """A pod asks for less, and its node has not yet taken the resources back."""
    name, whole = rng.choice([("cpu", "4"), ("memory", "4Gi")])
    small, large = (whole.replace("4", amount) for amount in "13")
    before, after = (_has({name: amount}) for amount in (large, small))
    return Sketch(
        cluster=[
            node("a", **{name: whole}),
            pod("used", node="a", **{name: small}, status=before),
        ],
        waiter={name: large},
        remedies={
            "resize is done": remedy({"update_status": {"pod": "used", "status": after}}),
            **gone("used"),
        },
    )


def _has(amounts: Json) -> Json:
    """Return the status of a pod whose container has these resources."""
    container = {
        "name": "main",
        "image": "x",
        "imageID": "x",
        "ready": True,
        "restartCount": 0,
        "allocatedResources": amounts,
        "resources": {"requests": amounts},
    }
    return {"phase": "Running", "containerStatuses": [container]}


@reason("DefaultPreemption", "")
def victim_ends_slowly(rng: random.Random) -> Sketch:
    """The waiter has chosen a victim, which takes its time to end."""
    grace = {"terminationGracePeriodSeconds": 30}
    labels = {"app": "victim"}
    victims = rng.choice([1, 2])
    wants, has = _one_of(
        rng,
        [
            ({"cpu": 4}, {"cpu": 2}),
            ({"host_ports": [80]}, {"host_ports": [80]}),
            (_away("app", "victim"), {}),
        ],
    )
    victims = 2 if "cpu" in wants else 1
    used = [pod(f"victim-{n}", node="a", labels=labels, spec=grace, **has) for n in range(victims)]
    ends = [{"delete": {"pod": f"victim-{n}"}} for n in range(victims)]
    budget: Json = {
        "object": {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        }
    }
    return Sketch(
        cluster=[node("a"), *([budget] if rng.random() < 0.3 else []), *used],
        waiter={"priority": 100, **wants},
        remedies={
            "victims end": remedy(*ends),
            "victims end one by one": remedy(
                *(part for end in ends for part in (end, {"advance": "2s"}))
            ),
            "node comes before the victims end": remedy(
                create(node("noisy", pods=0)), {"advance": "1s"}, *ends
            ),
            "waiter changes before the victims end": remedy(
                label(_WAITER, x="y"), {"advance": "1s"}, *ends
            ),
            "node is added": remedy(create(node("b"))),
            "victims fail": remedy(
                *(
                    {"update_status": {"pod": f"victim-{n}", "status": {"phase": "Failed"}}}
                    for n in range(victims)
                ),
                *ends,
            ),
        },
    )


def _one_of(rng: random.Random, pairs: Sequence[tuple[Json, Json]]) -> tuple[Json, Json]:
    """Draw what the waiter wants, and what the other pod has."""
    return rng.choice(pairs)


@reason("NodeResourcesFit", "")
def blocker_is_being_bound(rng: random.Random) -> Sketch:
    """Another pod has the room, and its binding is under way and will be refused."""
    code = rng.choice([404, 409, 403])
    held = {
        "name": "held",
        "match": {"verb": "create", "resource": "pods/binding", "name": "first"},
        "delay": {"seconds": 2},
    }
    refused = {
        "name": "refused",
        "match": {"verb": "create", "resource": "pods/binding", "name": "first"},
        "answer": {"code": code},
    }
    wants, has = _one_of(
        rng,
        [
            ({"cpu": 3}, {"cpu": 3}),
            ({"host_ports": [80]}, {"host_ports": [80]}),
            (_away("app", "db"), {"labels": {"app": "db"}}),
        ],
    )
    return Sketch(
        cluster=[node("a")],
        before=[{"inject": [held, refused]}, create(pod("first", **has))],
        waiter=wants,
        remedies={
            "binding is refused": remedy({"advance": "3s"}, {"delete": {"pod": "first"}}),
            "pod is deleted while it is bound": remedy(
                {"delete": {"pod": "first"}}, {"advance": "3s"}
            ),
        },
    )
