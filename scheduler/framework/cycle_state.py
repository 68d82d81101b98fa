"""The state that plugins keep between the extension points of one scheduling cycle.

Source: `k8s.io/kube-scheduler/framework/cycle_state.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Generic, Protocol, Self, TypeVar, cast

if TYPE_CHECKING:
    from scheduler.api.core import NodeAllocatableResourceClaimStatus

T = TypeVar("T")


class CycleStateError(KeyError):
    """Nothing was written under this key in this cycle. The text is the key's `missing`."""

    def __init__(self, key: StateKey[T]) -> None:
        super().__init__(key.name)
        self.key: Final = key.name
        self._text: Final = key.missing

    def __str__(self) -> str:
        return self._text


class Cloneable(Protocol):
    """State that is copied for a dry run; state without `clone` is shared."""

    def clone(self) -> Self:
        """Return an independent copy."""


class StateKey(Generic[T]):
    """A typed key of the cycle state: `KEY = StateKey[MyState]("MyPlugin")`.

    `missing` is the text of the error when the key is read and was not written. A `{}` in it stands
    for the name: `StateKey[MyState]("MyPlugin", 'reading "{}" from cycleState: not found')`.
    """

    __slots__ = ("missing", "name")

    def __init__(self, name: str, missing: str = "not found") -> None:
        self.name: Final = name
        self.missing: Final = missing.format(name)


class CycleState:
    """One pod's scheduling cycle, from PreFilter to PostBind.

    `skip_filter_plugins` and `skip_score_plugins` are the names of the plugins that returned Skip
    and are not called again in this cycle. With `records_plugin_metrics` each call of a plugin is
    measured; only a sample of the cycles has it. `pod_group_state` is the state of the cycle of the
    pod's group, for all members, as long as it runs: pods are then assumed in the snapshot only.
    """

    __slots__ = (
        "_data",
        "may_pause",
        "notes",
        "pod_group_state",
        "records_plugin_metrics",
        "skip_filter_plugins",
        "skip_score_plugins",
    )

    def __init__(self, *, records_plugin_metrics: bool = False) -> None:
        self.records_plugin_metrics: Final = records_plugin_metrics
        self.pod_group_state: CycleState | None = None
        #: True while a plugin may raise `FilterPausedError`; never in a dry run.
        self.may_pause = False
        #: The texts of `note`, in order.
        self.notes: list[str] = []
        self._data: dict[StateKey[object], object] = {}
        self.skip_filter_plugins: set[str] = set()
        self.skip_score_plugins: set[str] = set()

    def write(self, key: StateKey[T], value: T) -> None:
        """Write a value; it replaces an earlier one."""
        self._data[cast("StateKey[object]", key)] = value

    def read(self, key: StateKey[T]) -> T:
        """Return the value under the key; raises `CycleStateError` if there is none."""
        try:
            return cast("T", self._data[cast("StateKey[object]", key)])
        except KeyError:
            raise CycleStateError(key) from None

    def find(self, key: StateKey[T]) -> T | None:
        """Return the value under the key; None if there is none."""
        return cast("T | None", self._data.get(cast("StateKey[object]", key)))

    def delete(self, key: StateKey[T]) -> None:
        """Delete the value under the key, if there is one."""
        self._data.pop(cast("StateKey[object]", key), None)

    def note(self, text: str) -> None:
        """Add a line to the story of the pod: what a plugin has planned or taken for it."""
        self.notes.append(text)

    def clone(self) -> CycleState:
        """Return a copy for a dry run: values with `clone` are copied, others are shared."""
        state = CycleState(records_plugin_metrics=self.records_plugin_metrics)
        state._data = {
            key: cast("Cloneable", value).clone() if hasattr(value, "clone") else value
            for key, value in self._data.items()
        }
        state.pod_group_state = self.pod_group_state
        state.skip_filter_plugins = self.skip_filter_plugins
        state.skip_score_plugins = self.skip_score_plugins
        return state


#: By name of a node: what the pod's claims take of the node's own resources. A pod that is assumed
#: on the node has it in its status.
CLAIM_STATUSES = StateKey[Callable[[str], "Sequence[NodeAllocatableResourceClaimStatus]"]](
    "NodeAllocatableResourceClaimStatuses"
)


def claim_statuses(
    state: CycleState, node_name: str
) -> Sequence[NodeAllocatableResourceClaimStatus] | None:
    """Return the status of the claims of a pod on a node; None if no plugin provides it."""
    on_node = state.find(CLAIM_STATUSES)
    return on_node(node_name) if on_node is not None else None
