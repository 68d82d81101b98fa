"""The answers as structs: what text, JSON and HTML show.

`docs/simulate.schema.json` is the JSON schema of these types, and `docs/simulate.md` describes
them.
"""

from __future__ import annotations

import msgspec

from scheduler.reports.model import ClusterReport, ScoreDifference


class _Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The base of every part of an answer."""


class Change(_Struct, frozen=True):
    """One change of the cluster.

    `kind` is `placed`, `evicted` (begins to end), `gone`, `created` (waits for a node), `cordoned`,
    `added` or `lost` (nodes). `shares` are the parts of the node's resources that the pod takes,
    `pods_max` is the number of pods that an added node may have, `zone` its zone.
    """

    kind: str
    pod: str = ""
    node: str = ""
    shares: dict[str, float] = {}
    pods_max: int = 0
    zone: str = ""
    text: str = ""


class Step(_Struct, frozen=True):
    """The changes of one moment. `seconds` have passed since the start."""

    seconds: float
    text: str
    changes: tuple[Change, ...]


class PlacedPod(_Struct, frozen=True):
    """A pod that has got a node."""

    pod: str
    owner: str
    node: str


class WaitingPod(_Struct, frozen=True):
    """A pod without a node, and why; `unsure` names the kinds that the input does not have."""

    pod: str
    owner: str
    reason: str
    unsure: tuple[str, ...] = ()


class EvictedPod(_Struct, frozen=True):
    """A pod that has lost its node, and its successor.

    `node` is the former node. `successor` is the pod that its owner has created in its place, and
    `successor_node` that pod's node; both are empty for a pod that does not come back.
    """

    pod: str
    owner: str
    node: str
    cause: str
    successor: str = ""
    successor_node: str = ""


class Outcome(_Struct, frozen=True):
    """The course of a simulation: the cluster before, the steps, and the pods afterwards.

    `cluster` is the cluster before, `waiting_before` are its pods without a node. `requested` are
    the requested parts of all nodes together, before and after, by resource.
    """

    cluster: ClusterReport
    waiting_before: tuple[str, ...]
    steps: tuple[Step, ...]
    placed: tuple[PlacedPod, ...]
    waiting: tuple[WaitingPod, ...]
    evicted: tuple[EvictedPod, ...]
    requested: dict[str, tuple[float, float]]
    seconds: float


class DrainedNode(_Struct, frozen=True):
    """One node of a drain. `stopped_by` are the reasons for pods that stay, by pod."""

    node: str
    steps: int
    evicted: int
    daemon_pods: int
    stopped_by: dict[str, str]


class Drain(_Struct, frozen=True):
    """A drain, node by node."""

    nodes: tuple[DrainedNode, ...]
    outcome: Outcome


class Loss(_Struct, frozen=True):
    """The loss of nodes. The cluster survives it if no pod waits that had a node before."""

    domain: str
    nodes: tuple[str, ...]
    lost_pods: int
    survives: bool
    outcome: Outcome


class Stop(_Struct, frozen=True):
    """A reason for which nodes reject a pod, and the number of these nodes."""

    reason: str
    nodes: int


class Capacity(_Struct, frozen=True):
    """The number of copies of a template that fit. `is_limited` if more were not tried."""

    template: str
    copies: int
    is_limited: bool
    stopped_by: tuple[Stop, ...]
    outcome: Outcome


class AddedNodes(_Struct, frozen=True):
    """Nodes of one shape; `price` is the price of all of them."""

    shape: str
    count: int
    price: float


class Growth(_Struct, frozen=True):
    """The nodes after which no pod waits that any shape can help.

    `hopeless` are the pods that no shape can help. `checks` is the number of grown clusters on
    which the pods were scheduled; the nodes are those of the last one.
    """

    preemption: bool
    added: tuple[AddedNodes, ...]
    price: float
    hopeless: tuple[WaitingPod, ...]
    checks: int
    outcome: Outcome


class ChangedPod(_Struct, frozen=True):
    """A pod for which the two configurations decide otherwise.

    `before` and `after` are the chosen nodes, empty for none; `node` is the pod's node now. `why`
    is a sentence, `scores` are the new weighted scores of both nodes where they differ.
    """

    pod: str
    owner: str
    node: str
    before: str
    after: str
    why: str
    scores: tuple[ScoreDifference, ...] = ()


class Changes(_Struct, frozen=True):
    """The pods that another configuration decides otherwise, of all compared pods."""

    compared: int
    ties: int
    pods: tuple[ChangedPod, ...]


class Answer(_Struct, frozen=True):
    """The answer to one question; `summary` is one sentence, `warnings` name missing kinds."""

    question: str
    summary: str
    version: int = 1
    warnings: tuple[str, ...] = ()
    place: Outcome | None = None
    drain: Drain | None = None
    losses: tuple[Loss, ...] = ()
    capacities: tuple[Capacity, ...] = ()
    growths: tuple[Growth, ...] = ()
    changes: Changes | None = None
