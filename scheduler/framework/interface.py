"""The scheduling framework: the contract of plugins, and the moment of each call.

A plugin subclasses `Plugin` and defines the methods of the extension points it takes part in; no
other registration is needed. The protocols below are the contracts, one for each point, in the
order in which a pod passes them:

    queue      pre_enqueue, less, events_to_register
    scheduling pre_filter, filter | filter_nodes, post_filter, pre_score,
               score | score_nodes, normalize_score, reserve, permit
    group      generate_placements, score_placement, normalize_placement_score
    binding    pre_bind_pre_flight, pre_bind, bind, post_bind   (unreserve when any of it fails)

Plain methods must not wait; `async` methods may wait. None means success. An exception is a bug of
the plugin: the framework turns it into upstream's Error status.

A status decides when a rejected pod is retried. After Unschedulable or UnschedulableAndUnresolvable
the pod waits for an event that the rejecting plugin has registered for; the wait grows with each
such attempt (backoff). After Pending it waits for such an event too, without backoff. After Error
no event is needed: the pod is retried after a backoff.

Source: `k8s.io/kube-scheduler/framework/interface.go`, v1.36.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol, runtime_checkable

from scheduler.config.versions import SchedulerVersion
from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence

    import msgspec

    from scheduler.api.core import Pod
    from scheduler.api.pod_groups import PodGroup
    from scheduler.api.unstructured import Kind
    from scheduler.config.types import FeatureGates
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.events import QueueingHintFn
    from scheduler.framework.handle import Handle
    from scheduler.framework.status import NodeToStatus, Rejections, Status
    from scheduler.framework.types import (
        EqualMembers,
        Placement,
        PodGroupAssignments,
        PodGroupInfo,
        PostFilterResult,
        PreBindPreFlightResult,
        PreFilterResult,
        QueuedPod,
    )
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo


@runtime_checkable
class ArgsWithDefaults(Protocol):
    """Plugin arguments whose defaults are computed."""

    def with_defaults(self, gates: FeatureGates) -> object:
        """Return the arguments with empty fields filled in; must be idempotent."""


@runtime_checkable
class ValidatedArgs(Protocol):
    """Plugin arguments with rules beyond the types of their fields."""

    def validate(self, path: str, gates: FeatureGates) -> Iterable[Exception]:
        """Return the errors, most readable as `scheduler.api.field.FieldError`.

        Called after `with_defaults`. `path` is the position in the configuration, or empty.
        """


class PreEnqueuePlugin(Protocol):
    """Decides if a pod may enter the active queue."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Called before a pod becomes active or backs off; must be fast and make no requests.

        A rejected pod waits without attempts until an event that this plugin has registered for.
        """


class QueueSortPlugin(Protocol):
    """Orders the queue. Each profile has exactly one such plugin, the same in all profiles."""

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        """Return True if the first pod goes before the second."""


class SortKeyPlugin(Protocol):
    """Orders the queue by a key as well: the same order as `less`, for a queue with many pods."""

    def sort_key(self, queued: QueuedPod) -> tuple[object, ...]:
        """Return the key; the lesser goes first. Called once when the pod enters the queue.

        If the plugin's order changes (`Plugin.order_changes`), called for all active pods at each
        pop.
        """


class EnqueueExtensions(Protocol):
    """Registers for the events that may help a pod that this plugin has rejected.

    A plugin without this method is registered for every event, and every event retries its pods.
    """

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        """Return the events; called once, at the start. Without events none retries the pods."""


class SharedHintsPlugin(Protocol):
    """Lets the queue call the hints once for many waiting pods that are alike.

    For plugins with `events_to_register`. Without this method each waiting pod has its own calls.
    """

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        """Return a grouping key: the parts of a waiting pod that this plugin's hints read.

        Called when the pod starts to wait. For pods with equal keys the hints must return equal
        answers to every event about another object. Events about the pod itself are excepted.
        """


def same_parts(*parts: object) -> tuple[int, ...]:
    """Return a grouping key of parts of a pod: equal for the same objects and for empty ones.

    This relies on the contract of shared parts: equal parts of pods from an informer are the same
    object (`scheduler.assembly.part_sharing`), so that comparing `id()`s replaces comparing the
    contents. A key is valid as long as a pod with these parts is alive; code that keeps a key keeps
    such a pod. Without sharing the keys differ more often and stay correct.
    """
    return tuple(id(part) if part else 0 for part in parts)


class SharedPreEnqueuePlugin(Protocol):
    """Lets the queue call PreEnqueue once for many gated pods that are alike."""

    def pre_enqueue_depends_on(self, pod: PodInfo) -> Hashable:
        """Return a grouping key: the parts of a pod that this plugin's PreEnqueue reads.

        If an event would move pods that this plugin gates, and it rejects one of them again, the
        others with an equal key stay gated without a call.
        """


class PreFilterPlugin(Protocol):
    """Examines the pod once, before any node."""

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> PreFilterResult | Status | None:
        """Called with all nodes, at the start of a scheduling cycle.

        Skip: this plugin's Filter is not called for this pod. UnschedulableAndUnresolvable ends the
        search at once; Unschedulable ends it after the other PreFilter plugins have run. A result
        narrows the search, or names the node to try first; nodes left out count as unresolvable.
        """


class PreFilterExtensions(Protocol):
    """Updates PreFilter's state while a dry run adds pods to nodes and removes them.

    One dry run changes many nodes, but each node is filtered as if only it had changed. A plugin
    with `filter` gets a copy of its state for each node (a value with a `clone` method is copied,
    any other is shared). A plugin with `filter_nodes` has one state for all nodes: note the change
    under `node.base_row` and apply it only when that row is filtered (`Nodes.base_rows`).
    """

    def add_pod(
        self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo
    ) -> Status | None:
        """`added` is now on the node; called after PreFilter, on a copy of its state."""

    def remove_pod(
        self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo
    ) -> Status | None:
        """`removed` is no longer on the node."""


class FilterPlugin(Protocol):
    """Decides if the pod can run on one node: the simple form of `filter_nodes`."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Called for each node that no earlier plugin has rejected.

        Read the given node, not the snapshot: in a dry run they differ. A pod that all nodes reject
        waits for an event that one of the rejecting plugins has registered for.
        """


class FilterNodesPlugin(Protocol):
    """Decides for many nodes at once, which is faster."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Called with the nodes that no earlier plugin has rejected; None accepts them all."""


class PostFilterPlugin(Protocol):
    """Tries to make room for a pod that fits on no node."""

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeToStatus
    ) -> Awaitable[tuple[PostFilterResult | None, Status | None]]:
        """Called when PreFilter or Filter has rejected every node.

        Success: the pod may fit later. Unschedulable: nothing was found, and the next plugin is
        called. Any other status ends PostFilter. A result may accompany any of them. The status
        does not change when the pod is retried: that depends on the plugins that rejected it.
        """


class IdlePostFilterPlugin(Protocol):
    """Spares calls of `post_filter` of the same class."""

    def post_filter_is_idle(self, state: CycleState, pod: PodInfo) -> bool:
        """Return True if PostFilter would do nothing for a member of a pod group, on any nodes.

        It is then not called where members are only counted (see `Plugin.only_ranks`). `state` is
        that of PreFilter.
        """


class PreScorePlugin(Protocol):
    """Examines the feasible nodes once, before they are scored."""

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Called when two or more nodes are feasible. Skip: this plugin's Score is not called.

        Any other status is an error: the pod is retried after a backoff.
        """


class ScorePlugin(Protocol):
    """Ranks one node: the simple form of `score_nodes`."""

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Return the score; higher is better. After normalising it must lie in 0..100."""


class ScoreNodesPlugin(Protocol):
    """Ranks many nodes at once, which is faster."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """Return one integer for each node, an array of shape `(len(nodes),)`."""


class NormalizeScorePlugin(Protocol):
    """Scales a plugin's own scores to 0..100."""

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        """Called with this plugin's scores of all feasible nodes; returns the new scores."""


class PlacementGeneratePlugin(Protocol):
    """Generates the placements in which a pod group is tried. A profile has at most one."""

    def generate_placements(
        self, state: CycleState, pod_group: PodGroupInfo, parent: Placement
    ) -> Sequence[Placement] | Status:
        """Called at the start of the group's cycle; `parent` has all nodes.

        No placements: the group is unschedulable.
        """


class PlacementScorePlugin(Protocol):
    """Ranks the placements in which a pod group fits."""

    def score_placement(
        self, state: CycleState, pod_group: PodGroupInfo, assignments: PodGroupAssignments
    ) -> int:
        """Return the score; higher is better. After normalising it must lie in 0..100.

        Called if two or more placements fit.
        """


class NormalizePlacementScorePlugin(Protocol):
    """Scales a plugin's own scores of placements to 0..100."""

    def normalize_placement_score(
        self, state: CycleState, pod_group: PodGroupInfo, scores: Sequence[int]
    ) -> list[int]:
        """Called with this plugin's scores of all placements; returns the new scores."""


class PodGroupPreemption(Protocol):
    """Makes room for a whole pod group. Only DefaultPreemption does; it is no extension point.

    `tried` are the units of the last call in the order in which they were put back: the keys of
    their pods, and True for a unit that is spared.
    """

    tried: Sequence[tuple[Sequence[str], bool]]

    async def pod_group_post_filter(
        self,
        pod_group: PodGroup,
        pods: Sequence[PodInfo],
        schedule: Callable[[], Awaitable[Status | None]],
        equal_members: Callable[[], EqualMembers | None],
    ) -> Status | None:
        """Called if the group does not fit; returns None if victims are being evicted.

        `schedule` runs the group's algorithm over the snapshot, from which this method may remove
        pods; they are put back afterwards. If it has returned None, `equal_members` returns the
        members if counting the room for them gives the same answers, else None.
        """


class ReservePlugin(Protocol):
    """Updates the plugin's state when the pod is assumed on a node, and undoes it.

    A status of `reserve` fails the attempt: `unreserve` of all plugins runs and the pod goes back
    to the queue. Unschedulable, UnschedulableAndUnresolvable, Pending: the pod waits for an event
    that this plugin has registered for. Error, and any other status: the pod is retried after a
    backoff.
    """

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Called after the cache has assumed the pod on the node."""

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Undo `reserve`. Must be idempotent: it is called even if `reserve` was not."""


class PermitPlugin(Protocol):
    """Allows the pod, rejects it, or lets it wait before its binding.

    Unschedulable, UnschedulableAndUnresolvable, Pending: Unreserve runs, and the pod waits for an
    event that this plugin has registered for. Wait: the pod waits in the binding cycle until every
    such plugin allows it; a rejection or a timeout then counts as Unschedulable by this plugin,
    and a preemption as Error. Error, and any other status: Unreserve runs, and the pod is retried
    after a backoff.
    """

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Called after Reserve. After `wait(seconds)` the remaining plugins are still called."""


class PreBindPreFlightPlugin(Protocol):
    """Reports in advance if PreBind has work to do."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """Called before PreBind; must have no effects. Skip: `pre_bind` is not called.

        Any other status than Success and Skip is an error: the pod is retried after a backoff.
        """


class PreBindPlugin(Protocol):
    """Prepares the node for the pod, before the pod is bound.

    A status fails the binding: Unreserve runs and the pod goes back to the queue. Unschedulable,
    UnschedulableAndUnresolvable, Pending: the pod waits for an event that this plugin has
    registered for. Error, any other status, and a cancellation by a preemption: the pod is retried
    after a backoff.
    """

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Awaitable[Status | None]:
        """Called in the binding cycle; the pod is bound only if all plugins succeed."""


class BindPlugin(Protocol):
    """Binds the pod."""

    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Awaitable[Status | None]:
        """Called in order until a plugin returns another status than Skip.

        Any status but success fails the binding, with the consequences of PreBind.
        """


class PostBindPlugin(Protocol):
    """Cleans up after the pod is bound."""

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Awaitable[None]:
        """Called after a successful bind. An exception is logged and has no consequence."""


class Remedy(NamedTuple):
    """A change that would make a plugin accept a node, as text for people.

    `distance` is the size of the change: 1 for any change, less for a small step. `on_pod` and
    `on_nodes` are the two ways to make it: at the pod, and at the node or the pods there; empty if
    there is no such way. Remedies with the same `kind` are one change, whose amounts may differ;
    without a kind it is the text.
    """

    text: str
    distance: float = 1.0
    on_pod: str = ""
    on_nodes: str = ""
    kind: str = ""


class RemedyPlugin(Protocol):
    """Names the changes that would make a node acceptable, for `kubesched-explain`."""

    def remedies(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Sequence[Remedy]:
        """Called by `kubesched-explain` with a node that this plugin's filter has rejected.

        The scheduler never calls this method. All remedies together make the node acceptable.
        """


class CausePlugin(Protocol):
    """Names the reason why no node is acceptable, for `kubesched-explain`."""

    def cause(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> str:
        """Called by `kubesched-explain` if this plugin's filter has rejected all nodes.

        The scheduler never calls this method. Returns a sentence about all nodes without a full
        stop, such as "no node has disk=nvme"; empty if there is none.
        """


#: The contracts of all methods that a plugin may define, in the order of the calls.
CONTRACTS: Final = (
    PreEnqueuePlugin,
    QueueSortPlugin,
    SortKeyPlugin,
    EnqueueExtensions,
    SharedHintsPlugin,
    SharedPreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterExtensions,
    FilterPlugin,
    FilterNodesPlugin,
    PostFilterPlugin,
    IdlePostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ScoreNodesPlugin,
    NormalizeScorePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    NormalizePlacementScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPreFlightPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
    RemedyPlugin,
    CausePlugin,
)


class Plugin:
    """The base of all plugins. One instance serves one profile.

    `name` is the name of the class if the class sets no other. A plugin that takes arguments has an
    inner `Args`, a `msgspec.Struct`: the framework decodes the profile's `pluginConfig` into it,
    then completes it (`ArgsWithDefaults`) and validates it (`ValidatedArgs`) if it has the methods.
    `args` and `handle` are set before `__init__` runs, which takes no arguments.
    `reads` lists the kinds whose objects the plugin reads with `handle.lister`: a type such as
    `Pod`, or a name `<plural>.<version>.<group>`, for the core group `<plural>.<version>`. A kind
    that does not exist yet has no objects. The kinds of `required` are read too, and no pod is
    scheduled before they exist and their objects are known.
    `only_takes_room` promises, for pods that the plugin does not skip: PreFilter looks at no other
    pods; Filter looks at the node and its pods alone, and where it rejects a pod it also does with
    more pods there; Reserve accepts; Permit counts the members of the group that have a node.
    Preemption for a pod group then counts room, instead of searching again for each victim, and
    preemption for a pod puts many pods back at a time.
    `only_ranks` promises that PreScore and Score give scores, do not fail and have no other effect,
    and that the score of a placement looks at the members that have a node there, not at the nodes.
    Equal members are then counted in a placement where all fit, and scored in the chosen one only.
    Subclasses inherit neither promise.
    `ignores_resizes` leaves PreFilter and Filter out for a pod that is on a node and waits for more
    resources there: what the plugin looks at was decided when the pod was bound.
    `points_since` has the version since which the plugin takes part in an extension point, by the
    point's field in the configuration (`pre_filter`); without an entry it does in all versions.
    `order_changes` is for a plugin of QueueSort: `sort_key`, or `less`, may order waiting pods in
    another way later. All active pods are then compared anew whenever one is popped.
    """

    name: ClassVar[str]
    reads: ClassVar[tuple[Kind, ...]] = ()
    required: ClassVar[tuple[Kind, ...]] = ()
    only_takes_room: ClassVar[bool] = False
    only_ranks: ClassVar[bool] = False
    ignores_resizes: ClassVar[bool] = False
    points_since: ClassVar[Mapping[str, SchedulerVersion]] = {}
    order_changes: ClassVar[bool] = False
    Args: ClassVar[type[msgspec.Struct] | None] = None

    args: msgspec.Struct | None
    handle: Handle

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__
        if "only_takes_room" not in cls.__dict__:
            cls.only_takes_room = False
        if "only_ranks" not in cls.__dict__:
            cls.only_ranks = False

    def __repr__(self) -> str:
        return f"<plugin {self.name}>"

    def on_pods(
        self,
        hint: QueueingHintFn[Pod],
        *,
        assigned: ActionType = ActionType.NONE,
        target: ActionType = ActionType.NONE,
    ) -> list[ClusterEventWithHint]:
        """Return events to register for: changes of pods with a node, and of the waiting pod.

        Before 1.37 a plugin registers for the changes of all pods.
        """
        events = [ClusterEvent(EventResource.POD, assigned | target)]
        if self.handle.version >= SchedulerVersion.V1_37:
            both = ((EventResource.ASSIGNED_POD, assigned), (EventResource.TARGET_POD, target))
            events = [ClusterEvent(resource, actions) for resource, actions in both if actions]
        return [ClusterEventWithHint(event, hint) for event in events]

    if TYPE_CHECKING:
        # The methods that a plugin may define, for editors and type checkers. They do not exist at
        # run time: a plugin takes part in the points whose methods its class defines.
        pre_enqueue = PreEnqueuePlugin.pre_enqueue
        less = QueueSortPlugin.less
        sort_key = SortKeyPlugin.sort_key
        events_to_register = EnqueueExtensions.events_to_register
        hints_depend_on = SharedHintsPlugin.hints_depend_on
        pre_enqueue_depends_on = SharedPreEnqueuePlugin.pre_enqueue_depends_on
        pre_filter = PreFilterPlugin.pre_filter
        add_pod = PreFilterExtensions.add_pod
        remove_pod = PreFilterExtensions.remove_pod
        filter = FilterPlugin.filter
        filter_nodes = FilterNodesPlugin.filter_nodes
        post_filter = PostFilterPlugin.post_filter
        post_filter_is_idle = IdlePostFilterPlugin.post_filter_is_idle
        pre_score = PreScorePlugin.pre_score
        score = ScorePlugin.score
        score_nodes = ScoreNodesPlugin.score_nodes
        normalize_score = NormalizeScorePlugin.normalize_score
        generate_placements = PlacementGeneratePlugin.generate_placements
        score_placement = PlacementScorePlugin.score_placement
        normalize_placement_score = NormalizePlacementScorePlugin.normalize_placement_score
        reserve = ReservePlugin.reserve
        unreserve = ReservePlugin.unreserve
        permit = PermitPlugin.permit
        pre_bind_pre_flight = PreBindPreFlightPlugin.pre_bind_pre_flight
        pre_bind = PreBindPlugin.pre_bind
        bind = BindPlugin.bind
        post_bind = PostBindPlugin.post_bind
        remedies = RemedyPlugin.remedies
        cause = CausePlugin.cause
