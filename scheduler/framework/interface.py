"""The scheduling framework: what a plugin is, and when each of its methods is called.

A plugin subclasses `Plugin` and defines the methods of the extension points it takes part in;
nothing else registers it there. The protocols below are the contracts, one for each point, in the
order in which a pod meets them:

    queue      pre_enqueue, less, events_to_register
    scheduling pre_filter, filter | filter_nodes, post_filter, pre_score,
               score | score_nodes, normalize_score, reserve, permit
    binding    pre_bind_pre_flight, pre_bind, bind, post_bind   (unreserve when any of it fails)

Plain methods decide and must not wait; `async` ones may wait. Returning None means success, a
`Status` is a verdict, an exception is a bug: the framework turns it into upstream's Error status,
and the pod is tried again after a backoff.

Source: `k8s.io/kube-scheduler/framework/interface.go`, v1.36.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Hashable, Iterable, Sequence

    import msgspec

    from scheduler.config.types import FeatureGates
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.events import ClusterEventWithHint
    from scheduler.framework.handle import Handle
    from scheduler.framework.status import NodeToStatus, Rejections, Status
    from scheduler.framework.types import (
        PostFilterResult,
        PreBindPreFlightResult,
        PreFilterResult,
        QueuedPod,
    )
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo


class Plugin:
    """The base of all plugins. One instance serves one profile.

    `name` is the name of the class if the class sets no other. A plugin that takes arguments has an
    inner `Args`, a `msgspec.Struct`: the framework decodes the profile's `pluginConfig` into it,
    then completes it (`ArgsWithDefaults`) and validates it (`ValidatedArgs`) if it has the methods.
    `args` and `handle` are set before `__init__` runs, which takes no arguments.
    `reads` names the kinds, by their plural, whose objects the plugin lists (`handle.lister`).
    """

    name: ClassVar[str]
    reads: ClassVar[tuple[str, ...]] = ()
    Args: ClassVar[type[msgspec.Struct] | None] = None

    args: msgspec.Struct | None
    handle: Handle

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    def __repr__(self) -> str:
        return f"<plugin {self.name}>"


@runtime_checkable
class ArgsWithDefaults(Protocol):
    """Plugin arguments whose defaults are computed."""

    def with_defaults(self, gates: FeatureGates) -> object:
        """Return the arguments with empty fields filled in; must be idempotent."""
        ...


@runtime_checkable
class ValidatedArgs(Protocol):
    """Plugin arguments with rules beyond the types of their fields."""

    def validate(self, path: str, gates: FeatureGates) -> Iterable[Exception]:
        """Return the errors, most readable as `scheduler.api.field.FieldError`.

        Called after `with_defaults`. `path` is the position in the configuration, or empty.
        """
        ...


class PreEnqueuePlugin(Protocol):
    """Decides whether a pod may enter the queue."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Called before a pod becomes active or backs off; must be quick, and ask nobody.

        A rejected pod waits aside, without attempts, for an event this plugin has registered for.
        """
        ...


class QueueSortPlugin(Protocol):
    """Orders the queue. Exactly one plugin does, the same in all profiles."""

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        """Whether the first pod goes before the second."""
        ...


class SortKeyPlugin(Protocol):
    """Orders the queue by a key as well: the same order as `less`, for a queue with many pods."""

    def sort_key(self, queued: QueuedPod) -> tuple[float, ...]:
        """The lesser key goes first. Asked once, each time the pod enters the queue."""
        ...


class EnqueueExtensions(Protocol):
    """Says which events may help a pod that this plugin has turned down.

    A plugin without it hears of every event, and every event retries its pods.
    """

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        """Called once, at start. An empty answer means that no event ever helps."""
        ...


class SharedHintsPlugin(Protocol):
    """Whose hints answer for many waiting pods at once: of thousands that are alike one is asked.

    For plugins with `events_to_register`. Without it every pod that waits is asked about.
    """

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        """What all hints of this plugin look at of a waiting pod, called when it begins to wait.

        For pods with equal answers they must answer alike to any event about anybody else: whether
        an event is about the pod itself (by its uid) need not be in it.
        """
        ...


class PreFilterPlugin(Protocol):
    """Looks at the pod once, before any node."""

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> PreFilterResult | Status | None:
        """Called with all nodes, at the start of a cycle.

        Skip leaves this plugin's filter out for this pod. A rejection ends the search at once when
        it is unresolvable, otherwise after the other PreFilter plugins have been asked. A result
        narrows the search; nodes left out count as unresolvable.
        """
        ...


class PreFilterExtensions(Protocol):
    """Keeps PreFilter's state right while pods are put on and taken off nodes in a dry run.

    Many nodes are changed in one dry run, but each is judged as if it were the only one. A plugin
    with `filter` gets a copy of its state for each node (a value with a `clone` method is copied,
    any other shared). A plugin with `filter_nodes` has one state for all of them: note the change
    under `node.base_row`, and let it count only where that row is judged (`Nodes.base_rows`).
    """

    def add_pod(
        self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo
    ) -> Status | None:
        """`added` is now on the node; called after PreFilter, on a copy of its state."""
        ...

    def remove_pod(
        self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo
    ) -> Status | None:
        """`removed` is no longer on the node."""
        ...


class FilterPlugin(Protocol):
    """Decides whether the pod can run on one node. The simple form; `filter_nodes` is the fast."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Called for each node that no earlier plugin has turned down.

        Look at the node given, not at the snapshot: in a dry run they differ.
        """
        ...


class FilterNodesPlugin(Protocol):
    """Decides for many nodes at once."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Called with nodes that no earlier plugin has turned down; None accepts them all."""
        ...


class PostFilterPlugin(Protocol):
    """Tries to make room for a pod that fits nowhere."""

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeToStatus
    ) -> Awaitable[tuple[PostFilterResult | None, Status | None]]:
        """Called when PreFilter or Filter has turned the pod down everywhere.

        Success means that the pod may fit later; Unschedulable that nothing was found, and the next
        plugin is asked; anything else ends the search. A result may come with either.
        """
        ...


class PreScorePlugin(Protocol):
    """Looks at the feasible nodes once, before they are scored."""

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Called when two or more nodes are feasible; Skip leaves this plugin's score out."""
        ...


class ScorePlugin(Protocol):
    """Ranks one node. The simple form; `score_nodes` is the fast one."""

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Higher is better; after normalising it must lie in 0..100."""
        ...


class ScoreNodesPlugin(Protocol):
    """Ranks many nodes at once."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """One integer for each node in view."""
        ...


class NormalizeScorePlugin(Protocol):
    """Brings a plugin's own scores into 0..100."""

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        """Called with this plugin's scores of all feasible nodes; returns the new ones."""
        ...


class ReservePlugin(Protocol):
    """Takes note that the pod is assumed on its node, and takes it back."""

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Called once the cache has assumed the pod; any failure undoes every plugin's."""
        ...

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Undoes `reserve`. May be called though `reserve` was not; must not mind."""
        ...


class PermitPlugin(Protocol):
    """Lets the pod through, turns it down, or has it wait."""

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Called after Reserve. `wait(seconds)` holds the pod; all plugins are asked first."""
        ...


class PreBindPreFlightPlugin(Protocol):
    """Says beforehand whether PreBind will have work to do."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """Called before PreBind; Skip leaves this plugin's `pre_bind` out. Must do nothing."""
        ...


class PreBindPlugin(Protocol):
    """Gets the node ready for the pod."""

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Awaitable[Status | None]:
        """Called in the binding cycle; the pod is bound only if all succeed."""
        ...


class BindPlugin(Protocol):
    """Binds the pod."""

    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Awaitable[Status | None]:
        """Called in order until one does not answer Skip."""
        ...


class PostBindPlugin(Protocol):
    """Hears that the pod is bound."""

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Awaitable[None]:
        """Called after a successful bind; for tidying up."""
        ...


class Remedy(NamedTuple):
    """A change after which a plugin would accept a node, in words.

    `distance` says how far off it is: 1 for a change of any size, less for a small step.
    """

    text: str
    distance: float = 1.0


class RemedyPlugin(Protocol):
    """Says what would have to change on a node, for people who ask why their pod waits."""

    def remedies(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Sequence[Remedy]:
        """Called by `kubesched-explain` with a node that this plugin's filter has rejected.

        The scheduler itself never asks. All of the remedies together make the node acceptable.
        """
        ...
