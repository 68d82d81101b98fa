"""The rules of single filters, where a scheduler that breaks them is hard to write."""

from collections.abc import Sequence

import pytest

from conformance.api import Json
from conformance.invariants.feasibility import reasons_against
from conformance.invariants.matching import selects
from conformance.invariants.state import State

_ZONE = "topology.kubernetes.io/zone"
_WEB: Json = {"matchLabels": {"app": "web"}}


def _node(name: str, *, cpu: int = 8, **labels: str) -> Json:
    status = {"allocatable": {"cpu": cpu, "pods": 110}}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def _pod(name: str = "p", *, node: str = "", labels: Json | None = None, **spec: object) -> Json:
    metadata: Json = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
    return {"metadata": metadata, "spec": {"nodeName": node, **spec}}


def _state(*nodes: Json, pods: Sequence[Json] = (), others: Sequence[Json] = ()) -> State:
    def name(obj: Json) -> str:
        metadata = obj["metadata"]
        assert isinstance(metadata, dict)
        return str(metadata["name"])

    return State(
        nodes={name(each): each for each in nodes},
        pods={name(each): each for each in pods},
        others={
            (
                str(each["kind"]),
                "default" if each["kind"] == "PersistentVolumeClaim" else "",
                name(each),
            ): each
            for each in others
        },
    )


def _using(claim: str, name: str = "p", *, node: str = "") -> Json:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
    return _pod(name, node=node, volumes=[volume])


def _claim(volume: str = "", *modes: str, is_completed: bool = True) -> Json:
    spec = {"volumeName": volume, "accessModes": [*modes]}
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if is_completed else {}
    metadata = {"name": "c", "annotations": annotations}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _volume(*zones: str) -> Json:
    terms = [{"matchExpressions": [{"key": _ZONE, "operator": "In", "values": [*zones]}]}]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if zones else {}
    return {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": affinity}


@pytest.mark.parametrize(
    ("others", "pods", "reason"),
    [
        ([], [], "its claim c does not exist"),
        ([_claim()], [], "its claim c is not bound"),
        ([_claim("v", is_completed=False), _volume()], [], "its claim c is not bound"),
        ([_claim("v"), _volume()], [], None),
        ([_claim("v"), _volume("z1")], [], None),
        (
            [_claim("v"), _volume("z2")],
            [],
            "the volume of its claim c is not reachable from the node",
        ),
        ([_claim("v", "ReadWriteOncePod"), _volume()], [], None),
        (
            [_claim("v", "ReadWriteOncePod"), _volume()],
            [_using("d", "q", node="a"), _using("c", "r", node="a")],
            "pod r uses its claim c for one pod",
        ),
        ([_claim("v", "ReadWriteOnce"), _volume()], [_using("c", "r", node="a")], None),
    ],
)
def test_a_claim_is_bound_reachable_and_free(
    others: Sequence[Json], pods: Sequence[Json], reason: str | None
) -> None:
    node = _node("a", **{_ZONE: "z1"})
    reasons = reasons_against(_using("c"), node, _state(node, pods=pods, others=others))
    assert reasons == ({"volumes": reason} if reason else {})


def test_a_node_without_the_key_of_an_affinity_is_no_place() -> None:
    term = {"labelSelector": _WEB, "topologyKey": _ZONE}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    pod = _pod(labels={"app": "web"}, affinity={"podAffinity": required})
    with_key, without = _node("a", **{_ZONE: "z1"}), _node("b")
    state = _state(with_key, without)
    assert reasons_against(pod, without, state) == {"affinity": f"the node has no label {_ZONE}"}
    assert reasons_against(pod, with_key, state) == {}


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ({}, None),
        # The empty node `b`, which the pod's selector excludes, counts too.
        ({"nodeAffinityPolicy": "Ignore"}, "the skew of host would be 2, of at most 1"),
    ],
)
def test_a_spread_constraint_counts_the_nodes_of_its_policy(
    policy: Json, reason: str | None
) -> None:
    rule = {
        "maxSkew": 1,
        "topologyKey": "host",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": _WEB,
        **policy,
    }
    pod = _pod(
        labels={"app": "web"}, nodeSelector={"disk": "ssd"}, topologySpreadConstraints=[rule]
    )
    nodes = [_node("a", host="a", disk="ssd"), _node("b", host="b")]
    state = _state(*nodes, pods=[_pod("q", node="a", labels={"app": "web"})])
    assert reasons_against(pod, nodes[0], state) == ({"spread": reason} if reason else {})


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ({"key": "size", "operator": "In", "values": ["2", "3"]}, True),
        ({"key": "size", "operator": "NotIn", "values": ["2"]}, False),
        ({"key": "other", "operator": "NotIn", "values": ["2"]}, True),
        ({"key": "size", "operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "size", "operator": "DoesNotExist"}, False),
        ({"key": "size", "operator": "Gt", "values": ["1"]}, True),
        ({"key": "size", "operator": "Lt", "values": ["1"]}, False),
        ({"key": "other", "operator": "Gt", "values": ["1"]}, False),
        ({"key": "app", "operator": "Lt", "values": ["1"]}, False),
        ({"key": "size", "operator": "Gt", "values": ["1", "0"]}, False),
    ],
)
def test_a_requirement_selects_labels(expression: Json, selected: bool) -> None:
    labels = {"size": "2", "app": "web"}
    assert selects({"matchExpressions": [expression]}, labels) == selected
