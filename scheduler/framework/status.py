"""The statuses that plugins return, and the statuses of the nodes of a search.

`Status` is one status. `Rejections` are one plugin's statuses for many nodes, encoded as a small
integer per node. `NodeToStatus` has the result of a whole search over the snapshot.
Source: `k8s.io/kube-scheduler/framework/interface.go`, `pkg/scheduler/framework/interface.go`.
"""

from __future__ import annotations

import enum
import functools
from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.api.text import well_formed
from scheduler.snapshot.columns import ABSENT, encode_flags, uniform_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from scheduler.snapshot.columns import BoolArray, IntArray


class Code(enum.IntEnum):
    """The code of a status. `str()` gives upstream's name, for metrics and records."""

    SUCCESS = 0
    #: An internal error; the pod is retried after a backoff.
    ERROR = 1
    #: The pod does not fit, but fewer pods might make it fit: preemption may help.
    UNSCHEDULABLE = 2
    #: The pod does not fit, and no preemption changes that.
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    #: Permit only: the pod waits until the plugin allows it.
    WAIT = 4
    #: The plugin has nothing to do with this pod.
    SKIP = 5
    #: The pod fits, but another component must act first; it is retried without backoff.
    PENDING = 6

    def __str__(self) -> str:
        return "".join(word.title() for word in self.name.split("_"))


_REJECTED: Final = frozenset(
    {Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING}
)


class Status:
    """The answer of a plugin. Wherever a status is returned, None means success.

    `plugin` is filled in by the framework. `timeout_seconds` goes with `Code.WAIT` only.
    `cause` is the exception behind an error, if there is one.
    """

    __slots__ = ("cause", "code", "plugin", "reasons", "timeout_seconds")

    def __init__(
        self,
        code: Code,
        *reasons: str,
        plugin: str = "",
        timeout_seconds: float = 0.0,
        cause: BaseException | None = None,
    ) -> None:
        self.code: Final = code
        if not "".join(reasons).isascii():
            # A plugin may quote any text; the pod's event and condition must be sendable.
            reasons = tuple(map(well_formed, reasons))
        self.reasons: Final = reasons
        self.plugin: Final = plugin
        self.timeout_seconds: Final = timeout_seconds
        self.cause: Final = cause

    @property
    def message(self) -> str:
        """All reasons, joined to one line."""
        return ", ".join(self.reasons)

    @property
    def is_success(self) -> bool:
        """True for Success."""
        return self.code == Code.SUCCESS

    @property
    def is_skip(self) -> bool:
        """True for Skip."""
        return self.code == Code.SKIP

    @property
    def is_wait(self) -> bool:
        """True for Wait."""
        return self.code == Code.WAIT

    @property
    def is_rejected(self) -> bool:
        """True if the pod is rejected: a decision, not a failure."""
        return self.code in _REJECTED

    def with_plugin(self, plugin: str) -> Status:
        """Return this status under the name of a plugin."""
        if self.plugin == plugin:
            return self
        return Status(
            self.code,
            *self.reasons,
            plugin=plugin,
            timeout_seconds=self.timeout_seconds,
            cause=self.cause,
        )

    def with_reasons_before(self, prefix: str) -> Status:
        """Return this status with a prefix before its message, as `fmt.Errorf("prefix: %w")`."""
        return Status(self.code, f"{prefix}{self.message}", plugin=self.plugin, cause=self.cause)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return (self.code, self.reasons, self.plugin) == (other.code, other.reasons, other.plugin)

    def __hash__(self) -> int:
        return hash((self.code, self.reasons, self.plugin))

    def __repr__(self) -> str:
        by = f", plugin={self.plugin!r}" if self.plugin else ""
        return f"Status({self.code}, {self.message!r}{by})"


def unschedulable(*reasons: str) -> Status:
    """Reject the pod: it does not fit now; removing other pods might help."""
    return Status(Code.UNSCHEDULABLE, *reasons)


def unresolvable(*reasons: str) -> Status:
    """Reject the pod: it does not fit, and removing other pods would not help."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, *reasons)


def pending(*reasons: str) -> Status:
    """Reject the pod until another component has acted; it is retried without backoff."""
    return Status(Code.PENDING, *reasons)


_SKIP: Final = Status(Code.SKIP)


def skip() -> Status:
    """Skip this plugin for this pod (PreFilter, PreScore, PreBindPreFlight, Bind)."""
    return _SKIP


def wait(timeout_seconds: float, *reasons: str) -> Status:
    """Hold the pod at Permit until it is allowed or rejected, at most for `timeout_seconds`."""
    return Status(Code.WAIT, *reasons, timeout_seconds=timeout_seconds)


def error(cause: BaseException, prefix: str = "") -> Status:
    """Return an Error status. The framework makes one from an exception of a plugin."""
    return Status(Code.ERROR, f"{prefix}{cause}", cause=cause)


def as_verdict(answer: object) -> Status | None:
    """Return a plugin's answer, None for success; raises `TypeError` for other objects."""
    if answer is None:
        return None
    if not isinstance(answer, Status):
        raise TypeError(f"expected a Status or None, got {answer!r}")
    return None if answer.is_success else answer


class Rejections:
    """One plugin's rejections of nodes: `codes[i]` is an index into `statuses`, or -1 (passes)."""

    __slots__ = ("codes", "statuses")

    def __init__(
        self, codes: NDArray[np.int16] | NDArray[np.int32], statuses: Sequence[Status]
    ) -> None:
        self.codes: Final = codes
        self.statuses: Final = statuses

    @property
    def passed(self) -> BoolArray:
        """The positions of the nodes that pass."""
        return self.codes < 0

    def first(self, total: int) -> Rejections:
        """Return the rejections of the first nodes."""
        return Rejections(self.codes[:total], self.statuses)

    def status(self, index: int) -> Status | None:
        """Return the status of the node at a position; None if it passes."""
        code = int(self.codes[index])
        return None if code == ABSENT else self.statuses[code]


def reject(which: BoolArray, status: Status) -> Rejections | None:
    """Reject the flagged nodes, all for the same reason; None if no node is flagged."""
    # Counting flags takes half the time of `any` where none is set, which is the rule.
    if uniform_value(which) == np.False_ or not np.count_nonzero(which):
        return None
    return Rejections(which.astype(np.int16) - np.int16(1), (status,))


def reject_by(*verdicts: tuple[BoolArray, Status]) -> Rejections | None:
    """Reject nodes for one of several reasons; the first that holds is used."""
    statuses = [status for _, status in verdicts]
    codes = np.full(len(verdicts[0][0]), ABSENT, dtype=np.int16)
    for index in range(len(verdicts) - 1, -1, -1):
        codes[verdicts[index][0]] = index
    return Rejections(codes, statuses) if (codes >= 0).any() else None


def reject_together(*verdicts: tuple[BoolArray, Status]) -> Rejections | None:
    """Reject nodes with all the reasons that hold for them, in one status per node.

    The code is unresolvable if any status is unresolvable; a status without a reason adds only
    its code. Returns None if no node is flagged.
    """
    verdicts = tuple(verdict for verdict in verdicts if np.count_nonzero(verdict[0]))
    if not verdicts:
        return None
    flags = [which for which, _ in verdicts]
    rejected = np.logical_or.reduce(flags).nonzero()[0]
    codes, combinations = encode_flags([which.take(rejected) for which in flags])
    statuses = []
    for combination in combinations:
        holding = [v[1] for v, holds in zip(verdicts, combination, strict=True) if holds]
        reasons = (reason for status in holding for reason in status.reasons)
        statuses.append(Status(max(status.code for status in holding), *reasons))
    codes_of_all = np.full(len(flags[0]), ABSENT, dtype=np.int32)
    codes_of_all[rejected] = codes
    return Rejections(codes_of_all, statuses)


#: The status of nodes that were not searched, until another one is set.
_ABSENT_NODES: Final = unresolvable()


class NodeToStatus:
    """The statuses of the nodes of the snapshot after a search.

    A node without a status of its own passed or was not searched. `get` returns
    `absent_nodes_status` for it, the reason why nodes were left out of the search.
    Extenders may also name nodes that the snapshot does not have; these are counted like others.
    Source: `NodeToStatus`, `NewDefaultNodeToStatus`.
    """

    def __init__(self, names: Sequence[str], row_of: Mapping[str, int]) -> None:
        self._names: Final = names
        self._row_of: Final = row_of
        self._statuses: Final[list[Status]] = []
        self._unknown_nodes: Final[dict[str, Status]] = {}
        self.absent_nodes_status = _ABSENT_NODES

    @functools.cached_property
    def _codes(self) -> NDArray[np.int32]:
        """The index of each node's status. Created with the first status, mostly never."""
        return np.full(len(self._names), ABSENT, dtype=np.int32)

    @staticmethod
    def from_one(name: str, status: Status) -> NodeToStatus:
        """Return the status of a single node (Reserve, Permit)."""
        statuses = NodeToStatus((name,), {name: 0})
        statuses.set(name, status)
        return statuses

    def __len__(self) -> int:
        rejected = int(np.count_nonzero(self._codes >= 0)) if self._statuses else 0
        return rejected + len(self._unknown_nodes)

    def get(self, name: str) -> Status:
        """Return the status of a node; nodes that were not searched share one."""
        row = self._row_of.get(name, ABSENT)
        code = self._codes[row] if row != ABSENT else ABSENT
        return self.absent_nodes_status if code == ABSENT else self._statuses[code]

    def set(self, name: str, status: Status) -> None:
        """Set the status of a node."""
        row = self._row_of.get(name)
        if row is None:
            self._unknown_nodes[name] = status
            return
        self._statuses.append(status)
        self._codes[row] = len(self._statuses) - 1

    def set_rows(self, rows: IntArray, rejections: Rejections) -> None:
        """Set the statuses of the rejected nodes at these rows; nodes that pass keep theirs."""
        rejected = rejections.codes >= 0
        offset = len(self._statuses)
        self._statuses.extend(rejections.statuses)
        self._codes[rows[rejected]] = rejections.codes[rejected].astype(np.int32) + offset

    def items(self) -> Iterator[tuple[str, Status]]:
        """Return the nodes with a status of their own, in scheduling order."""
        for row in np.flatnonzero(self._codes >= 0).tolist():
            yield self._names[row], self._statuses[self._codes[row]]

    def statuses(self) -> list[tuple[Status, int]]:
        """Return the distinct statuses with the number of nodes that have each."""
        counts = np.bincount(self._codes[self._codes >= 0], minlength=len(self._statuses))
        of_rows = zip(self._statuses, counts.tolist(), strict=True)
        unknown = [(status, 1) for status in self._unknown_nodes.values()]
        return [(status, count) for status, count in of_rows if count] + unknown

    def rows_with(self, code: Code) -> IntArray:
        """Return the rows of the nodes with this code, nodes that were not searched included."""
        wanted = np.zeros(len(self._statuses) + 1, dtype=np.bool_)
        for index, status in enumerate(self._statuses):
            wanted[index] = status.code == code
        wanted[ABSENT] = self.absent_nodes_status.code == code
        return np.flatnonzero(wanted[self._codes])

    def reasons(self, nodes_total: int) -> Counter[str]:
        """Return the number of nodes per reason, out of `nodes_total`."""
        reasons: Counter[str] = Counter()
        explicit = 0
        for status, nodes in self.statuses():
            explicit += nodes
            for reason in status.reasons:
                reasons[reason] += nodes
        if explicit < nodes_total:
            for reason in self.absent_nodes_status.reasons:
                reasons[reason] += nodes_total - explicit
        return reasons
