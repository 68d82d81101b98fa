"""The report of a decision as structs: what text, JSON and HTML show.

`docs/explain.schema.json` is the JSON schema of these types, and `docs/explain.md` describes them.
"""

from __future__ import annotations

import msgspec


class _Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The base of every part of a report."""


class Rejection(_Struct, frozen=True):
    """One reason for which nodes are rejected.

    `nodes` is the number of nodes that have this reason as the verdict: the first rejection.
    `further_nodes` is the number of nodes that another plugin has rejected before.
    """

    plugin: str
    code: str
    reasons: tuple[str, ...]
    preemption_may_help: bool
    nodes: int
    further_nodes: int
    examples: tuple[str, ...]


class NodeVerdict(_Struct, frozen=True):
    """One node: its weighted scores, or the indexes of its rejections, the scheduler's first."""

    name: str
    rejections: tuple[int, ...] = ()
    total: int | None = None
    scores: dict[str, int] = {}

    @property
    def is_feasible(self) -> bool:
        return not self.rejections


class Choice(_Struct, frozen=True):
    """The chosen node. `tied_nodes` counts the nodes with its total, the node included.

    The scheduler draws one of tied nodes by chance; here the first by name is chosen.
    """

    node: str
    total: int
    tied_nodes: int
    tied_examples: tuple[str, ...]


class CurrentNode(_Struct, frozen=True):
    """The node that the pod has already, judged as if the pod were not on it.

    `rank` is 1 for a node with the highest total; 0 if the pod does not fit on the node now, for
    the reason in `problem`, or if there is no such node.
    `would_be_chosen` is true for the chosen node and for nodes tied with the chosen one.
    """

    name: str
    would_be_chosen: bool
    rank: int = 0
    total: int | None = None
    problem: str = ""


class NearestNode(_Struct, frozen=True):
    """Changes after which the pod would fit, each with its plugin; the smallest changes come first.

    `nodes` is the number of nodes that need these changes; `name` is the one with the smallest
    amounts, which the texts have.
    """

    name: str
    nodes: int
    changes: tuple[Change, ...]


class Change(_Struct, frozen=True):
    """A change after which a plugin would accept the node.

    `on_pod` and `on_nodes` are the ways to make it: at the pod, and at the node or the pods there.
    """

    plugin: str
    text: str
    on_pod: str = ""
    on_nodes: str = ""


class Victim(_Struct, frozen=True):
    """A pod that preemption deletes."""

    pod: str
    priority: int


class PreemptionCandidate(_Struct, frozen=True):
    """A node on which the pod would fit without the victims.

    `lost_by` is the criterion by which the nominated node was better; empty for the nominated node.
    """

    node: str
    victims: tuple[Victim, ...]
    violated_budgets: int
    lost_by: str


class PreemptionReport(_Struct, frozen=True):
    """The result of preemption, the nominated node's candidate first."""

    message: str
    nominated_node: str
    candidates: tuple[PreemptionCandidate, ...]


class PlacedPod(_Struct, frozen=True):
    """A waiting pod for which a node was found."""

    pod: str
    node: str


class PodReport(_Struct, frozen=True):
    """The decision for one pod.

    `answer` is the decision as one sentence; `message` is upstream's text of the pod's condition.
    `result` is `scheduled`, `unschedulable`, `gated`, `ignored` or `error`; for a pod that has a
    node it is the result of deciding again. `evaluated_nodes` counts the nodes that the scheduler's
    search would filter; 0 if unknown. `nodes` are the feasible ones, the best first, then
    the others. `scenario` is the name of the question in `kubesched-explain batch`. `story` is
    what a running scheduler has done with the pod, if that was requested. `placed_before` are the
    waiting pods without a report of their own that were placed before this one. `reserved` has a
    line for each thing that plugins have taken for the pod on its node, such as devices, and the
    plan of FlowPlacement, which a pod without a node has, too. `unsure`
    has the kinds that the pod refers to and that the input lacks. `owner` is the controller, as
    `namespace/name`, of a Deployment's pod the Deployment; empty without one. `cause` is a sentence
    by which pods are grouped, and `cause_plugins` the plugins that it is about.
    """

    scenario: str
    pod: str
    scheduler_name: str
    result: str
    answer: str
    message: str
    all_nodes: int
    feasible_nodes: int
    evaluated_nodes: int
    choice: Choice | None
    current: CurrentNode | None
    #: The status of the pod as a whole: from PreEnqueue, PreFilter or Reserve, or an error.
    pod_rejection: Rejection | None
    rejections: tuple[Rejection, ...]
    preemption: PreemptionReport | None
    nearest: tuple[NearestNode, ...]
    score_plugins: tuple[str, ...]
    nodes: tuple[NodeVerdict, ...]
    story: Story | None = None
    placed_before: tuple[PlacedPod, ...] = ()
    reserved: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    owner: str = ""
    cause: str = ""
    cause_plugins: tuple[str, ...] = ()


class PodGroup(_Struct, frozen=True):
    """Pods with the same result, owner and cause.

    `cause` belongs to the first pod: amounts may differ. `owner` is empty for pods without an
    owner, and for several owners.
    """

    result: str
    namespace: str
    owner: str
    cause: str
    pods: tuple[str, ...]
    #: The node of the first pod; empty if it has none.
    node: str = ""


class Summary(_Struct, frozen=True):
    """The number of pods by result, and the pods in groups: failures first, then the largest."""

    results: dict[str, int]
    groups: tuple[PodGroup, ...]


class PodBox(_Struct, frozen=True):
    """A pod on a node; `is_new` if this run has placed it. `share` is its part of the node."""

    pod: str
    share: float
    is_new: bool


class NodeBox(_Struct, frozen=True):
    """The allocation of a node: for each resource the requested part of the allocatable amount.

    `zone` is the node's region and zone; empty if it has neither. `pods` is empty in a cluster of
    many pods; `pod_count` is always their number.
    """

    name: str
    unschedulable: bool
    pod_count: int
    pods_max: int
    shares: dict[str, float]
    pods: tuple[PodBox, ...]
    zone: str = ""


class ClusterReport(_Struct, frozen=True):
    """The cluster after the decisions."""

    nodes: tuple[NodeBox, ...]
    pod_count: int


class StoryHint(_Struct, frozen=True):
    """A plugin's queueing hint for an event."""

    plugin: str = ""
    event: str = ""
    answer: str = ""


class StoryVerdict(_Struct, frozen=True):
    """A plugin's rejection of some nodes."""

    plugin: str = ""
    code: str = ""
    reasons: tuple[str, ...] = ()
    nodes: int = 0


class StoryFailure(_Struct, frozen=True):
    """An exception of a plugin at an extension point; `node` is empty without a single node."""

    plugin: str = ""
    point: str = ""
    node: str = ""
    traceback: str = ""


class StoryEntry(_Struct, frozen=True):
    """One entry of a story. `time` is in seconds since the epoch.

    Several events that do not help are one entry, from `time` until `until`.
    """

    time: float
    kind: str
    text: str
    hints: tuple[StoryHint, ...] = ()
    verdicts: tuple[StoryVerdict, ...] = ()
    failure: StoryFailure | None = None
    until: float | None = None


class Story(_Struct, frozen=True):
    """The entries of a pod's story, oldest first. `dropped` counts entries no longer kept."""

    namespace: str
    name: str
    uid: str = ""
    dropped: int = 0
    entries: tuple[StoryEntry, ...] = ()


class VersionOutcome(_Struct, frozen=True):
    """The decision of one version of kube-scheduler for a pod.

    `best` are the equally best nodes. `message` has upstream's texts of the condition and of
    preemption.
    """

    version: str
    result: str
    best: tuple[str, ...]
    nominated_node: str
    victims: tuple[str, ...]
    message: str


class VersionDifference(_Struct, frozen=True):
    """A reason why a version decides otherwise than the first version.

    `kind` is what differs: `result`, `node`, `preemption` or `message`. `plugin` and `node` are
    empty if the reason belongs to none. `rows` name the rows of `conformance/versions.md`.
    """

    version: str
    kind: str
    plugin: str
    node: str
    text: str
    rows: tuple[str, ...]


class PodVersions(_Struct, frozen=True):
    """The decisions of several versions for one pod, over the cluster of the first version.

    `differences` is empty if all versions decide alike.
    """

    pod: str
    owner: str
    outcomes: tuple[VersionOutcome, ...]
    differences: tuple[VersionDifference, ...]


class Report(_Struct, frozen=True):
    """The output of one run: decisions and the cluster after them, or a story.

    `versions` has the decisions of several versions, with `--compare-versions`.
    """

    version: int = 1
    summary: Summary | None = None
    pods: tuple[PodReport, ...] = ()
    cluster: ClusterReport | None = None
    story: Story | None = None
    versions: tuple[PodVersions, ...] = ()


class ScoreDifference(_Struct, frozen=True):
    """A plugin's weighted scores of the other scheduler's node and of our best one."""

    plugin: str
    theirs: int
    ours: int


class Comparison(_Struct, frozen=True):
    """A decision of another scheduler beside ours; `scheduler.reports.comparison` has the values.

    `node` is the other scheduler's; empty for a pod that it left pending, with `their_message`.
    `answer` is the comparison as one sentence. `best` is our node, the first by name of
    `tied_nodes` with `best_total`; `total` and `differences` belong to the other one's node.
    `time` is in seconds since the epoch.
    """

    time: float
    pod: str
    uid: str
    scheduler_name: str
    agreement: str
    answer: str
    all_nodes: int
    feasible_nodes: int = 0
    node: str = ""
    total: int | None = None
    best: str = ""
    best_total: int | None = None
    tied_nodes: int = 0
    differences: tuple[ScoreDifference, ...] = ()
    rejected_by: str = ""
    reasons: tuple[str, ...] = ()
    message: str = ""
    their_message: str = ""
