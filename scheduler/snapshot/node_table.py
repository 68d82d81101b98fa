"""The node table: a row per node, an array per fact.

The cache owns one; the snapshot owns another and copies the rows that changed; a what-if table is
a third with a few hypothetical rows. Requests, counts and ports change with every pod and are
plain columns. Values that follow from the node object (labels, taints, values that plugins compute)
are in derived columns, which are made on first use and updated when a node object changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

import numpy as np

from scheduler.api import resources
from scheduler.lru_cache import LruCache
from scheduler.snapshot.columns import IntArray, Interned, Row, grown

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from scheduler.api.core import Node
    from scheduler.api.host_ports import HostPort
    from scheduler.snapshot.pod_info import PodInfo

V = TypeVar("V", bound="Hashable")
PortSet = frozenset["HostPort"]

#: The number of derived columns that a table caches.
DERIVED_COLUMNS_MAX: Final = 256

#: Changes of rows that a table remembers; older results are computed anew.
CHANGES_MAX: Final = 8192

#: Results per node that a table caches (`NodeTable.cached`), 40 KB each at 5,000 nodes.
RESULTS_MAX: Final = 256

#: The lowest priority on a row without pods: higher than that of any pod.
NO_PRIORITY: Final = 2**31

_NO_PORTS: Final[PortSet] = frozenset()
_CAPACITY_MIN: Final = 16

#: Up to so many changed rows are looked up by their counts (`_Result.by_counts`).
_LOOKUPS_MAX: Final = 8
_COUNTS_MAX: Final = 1024


class _Result(NamedTuple):
    """A cached array with an entry per row, right for a version of the table."""

    values: IntArray
    version: int
    #: Values by all counts of a row; some of those that were computed one by one.
    by_counts: dict[tuple[int, ...], int]


class NodeTable:
    """Rows of nodes. The row of a deleted node is used again for the next new node.

    Counts are in the scheduler's units: cpu in thousandths of a core, all else in whole units.
    Only the table's owner may write to it.
    """

    def __init__(
        self,
        capacity: int = _CAPACITY_MIN,
        *,
        pods: list[dict[str, PodInfo]] | None = None,
        host_ports: list[PortSet] | None = None,
    ) -> None:
        self.row_of: Final[dict[str, Row]] = {}
        self.names: Final[list[str]] = []
        self.nodes: Final[list[Node | None]] = []
        self.pods: Final = [] if pods is None else pods
        self.host_ports: Final = [] if host_ports is None else host_ports
        self._free: Final[list[Row]] = []
        self._capacity = max(capacity, _CAPACITY_MIN)
        self.pod_count = self._zeros()
        #: A lower bound of the priorities of the row's pods.
        self.lowest_priority = self._zeros() + NO_PRIORITY
        self.requested: Final[dict[str, IntArray]] = {}
        self.non_zero_requested: Final[dict[str, IntArray]] = {
            resources.CPU: self._zeros(),
            resources.MEMORY: self._zeros(),
        }
        self.allocatable: Final[dict[str, IntArray]] = {}
        self._bounds: Final[dict[str, tuple[int, int]]] = {}
        self._nothing = self._zeros()
        self._port_column: Interned[PortSet] | None = None
        self._derived: Final[LruCache[Callable[[Node], Hashable], Interned[Hashable]]] = LruCache(
            DERIVED_COLUMNS_MAX
        )
        #: The rows whose counts changed, in order; the numbers of these changes begin with
        #: `_first_change`, and `_version` is the number of the next one.
        self._changes: Final[list[Row]] = []
        self._first_change = 0
        self._results: Final[LruCache[Hashable, _Result]] = LruCache(RESULTS_MAX)

    def __len__(self) -> int:
        """The number of rows, used and free; every column is at least this long."""
        return len(self.names)

    # Rows.

    def add_row(self, name: str) -> Row:
        """Add a row without node object and pods; returns it."""
        self._bounds.clear()
        self._results.clear()
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = Row(len(self.names))
            if row == self._capacity:
                self._grow()
            self.names.append(name)
            self.nodes.append(None)
            self.pods.append({})
            self.host_ports.append(_NO_PORTS)
        self.row_of[name] = row
        return row

    def free_row(self, row: Row) -> None:
        """Free a row without pods; `add_row` may use it again."""
        assert not self.pods[row], "a row with pods cannot be freed"
        self.set_node(row, None)
        del self.row_of[self.names[row]]
        self.names[row] = ""
        self._free.append(row)

    def copy_row(self, row: Row, source: NodeTable, source_row: Row) -> None:
        """Copy a row of another table; cheap if the node object is the same."""
        if self.nodes[row] is not source.nodes[source_row]:
            self.set_node(row, source.nodes[source_row])
        self.pods[row] = dict(source.pods[source_row])
        self._set_ports(row, source.host_ports[source_row])
        self.pod_count[row] = source.pod_count[source_row]
        self.lowest_priority[row] = source.lowest_priority[source_row]
        for name, column in source.non_zero_requested.items():
            self.non_zero_requested[name][row] = column[source_row]
        for name in self.requested.keys() | source.requested.keys():
            count = source.column(source.requested, name)[source_row]
            self._column(self.requested, name)[row] = count
        self._note_change(row)

    def rearranged(self, source: NodeTable, names: Sequence[str]) -> NodeTable:
        """Return a table with these nodes of `source`, in this order.

        Derived columns are copied from this table for nodes whose object is the same.
        """
        table = NodeTable(len(names))
        rows = np.array([source.row_of[name] for name in names], dtype=np.int64)
        table.names.extend(names)
        table.row_of.update((name, Row(row)) for row, name in enumerate(names))
        table.pods.extend(dict(source.pods[row]) for row in rows)
        table.host_ports.extend(source.host_ports[row] for row in rows)
        table.nodes.extend(None for _ in names)
        table.pod_count[: len(names)] = source.pod_count[rows]
        table.lowest_priority[: len(names)] = source.lowest_priority[rows]
        for name, column in source.non_zero_requested.items():
            table.non_zero_requested[name][: len(names)] = column[rows]
        for name, column in source.requested.items():
            table._column(table.requested, name)[: len(names)] = column[rows]
        table._adopt_columns(self, [source.nodes[row] for row in rows])
        return table

    def _adopt_columns(self, old: NodeTable, nodes: Sequence[Node | None]) -> None:
        """Copy the columns of a former table for nodes that have not changed."""
        old_rows = np.array([old.row_of.get(name, -1) for name in self.names], dtype=np.int64)
        same = np.array(
            [r >= 0 and old.nodes[r] is node for r, node in zip(old_rows, nodes, strict=True)],
            dtype=np.bool_,
        )
        kept, kept_old = np.flatnonzero(same), old_rows[same]
        for name, column in old.allocatable.items():
            self._column(self.allocatable, name)[kept] = column[kept_old]
        for derive, interned in old._derived.items():
            self._derived[derive] = interned.rearranged(kept, kept_old, self._capacity)
        for row in kept.tolist():
            self.nodes[row] = nodes[row]
        for row in np.flatnonzero(~same).tolist():
            self.set_node(Row(row), nodes[row])

    # Writing.

    def set_node(self, row: Row, node: Node | None) -> None:
        """Set the node object of a row; None for a node that is unknown but has pods."""
        old = self.nodes[row]
        self.nodes[row] = node
        if old is None or node is None or old.status.allocatable != node.status.allocatable:
            self._bounds.clear()
            offered = resources.node_allocatable(node.status.allocatable) if node else {}
            for name, column in self.allocatable.items():
                column[row] = offered.pop(name, 0)
            for name, count in offered.items():
                self._column(self.allocatable, name)[row] = count
            self._note_change(row)
        failed = [value_of for value_of in self._derived if not self._derive(value_of, row, node)]
        for value_of in failed:
            del self._derived[value_of]

    def _derive(self, value_of: Callable[[Node], Hashable], row: Row, node: Node | None) -> bool:
        """Update a row of a derived column; False if `value_of` raises.

        The column is then dropped, and the next `derive` raises the error: a bug in one plugin must
        not stop the update of the table, which all plugins use.
        """
        try:
            self._derived[value_of].set(row, value_of(node) if node is not None else None)
        except Exception:  # noqa: BLE001 - code of a plugin
            return False
        return True

    def add_pod(self, row: Row, pod: PodInfo) -> None:
        """Add a pod to a row."""
        assert pod.uid not in self.pods[row], f"{pod} is on {self.names[row]} already"
        self.pods[row][pod.uid] = pod
        self._count(row, pod, 1)
        if pod.priority < self.lowest_priority[row]:
            self.lowest_priority[row] = pod.priority
        if pod.host_ports:
            self._set_ports(row, self.host_ports[row].union(pod.host_ports))

    def remove_pod(self, row: Row, uid: str) -> PodInfo:
        """Remove a pod from a row and return it; raises KeyError for an unknown pod.

        The row's last pod takes its place, as upstream (`removeFromSlice`).
        """
        pods = self.pods[row]
        pod = pods[uid]
        last_uid, last = pods.popitem()
        if last_uid != uid:
            self.pods[row] = {
                (last_uid if pod_uid == uid else pod_uid): (last if pod_uid == uid else other)
                for pod_uid, other in pods.items()
            }
        self._count(row, pod, -1)
        if pod.priority == self.lowest_priority[row]:
            left = (other.priority for other in self.pods[row].values())
            self.lowest_priority[row] = min(left, default=NO_PRIORITY)
        if pod.host_ports:
            ports = (port for other in self.pods[row].values() for port in other.host_ports)
            self._set_ports(row, frozenset(ports))
        return pod

    def _count(self, row: Row, pod: PodInfo, sign: int) -> None:
        requests = pod.requests
        self.pod_count[row] += sign
        for name, count in requests.resources.items():
            self._column(self.requested, name)[row] += sign * count
        self.non_zero_requested[resources.CPU][row] += sign * requests.non_zero_cpu
        self.non_zero_requested[resources.MEMORY][row] += sign * requests.non_zero_memory
        self._note_change(row)

    def _set_ports(self, row: Row, ports: PortSet) -> None:
        if ports is self.host_ports[row]:
            return
        self.host_ports[row] = ports
        if self._port_column is not None:
            self._port_column.set(row, ports or None)

    # Reading.

    def column(self, columns: dict[str, IntArray], name: str) -> IntArray:
        """Return the column of a resource; zeros for an unknown resource."""
        return columns.get(name, self._nothing)

    def allocatable_bounds(self, name: str) -> tuple[int, int]:
        """Return the least and the largest amount that any row offers; 0 and 0 without rows."""
        bounds = self._bounds.get(name)
        if bounds is None:
            column = self.column(self.allocatable, name)[: len(self)]
            bounds = (int(column.min()), int(column.max())) if len(self) else (0, 0)
            self._bounds[name] = bounds
        return bounds

    def cached(self, key: Hashable, compute: Callable[[slice | IntArray], IntArray]) -> IntArray:
        """Return `compute(rows)` of all rows; later only of the rows that changed since.

        The result must depend on each row's counts alone, and equal keys must give equal results.
        """
        result = self._results.touch(key)
        if result is None or result.version < self._first_change:
            result = _Result(compute(slice(0, len(self))), self._version, {})
            self._results.put(key, result)
        elif result.version < self._version:
            changed = {*self._changes[result.version - self._first_change :]}
            values = result.values.copy()  # callers keep the array that they got
            self._compute_rows(changed, compute, values, result.by_counts)
            result = _Result(values, self._version, result.by_counts)
            self._results.put(key, result)
        return result.values

    def _compute_rows(
        self,
        rows: set[Row],
        compute: Callable[[slice | IntArray], IntArray],
        values: IntArray,
        by_counts: dict[tuple[int, ...], int],
    ) -> None:
        """Set `values` of these rows; few rows are looked up in `by_counts` before.

        Between two equal pods mostly one row changes, and on equal nodes to counts that another row
        had before: the lookup then saves nine tenths of the time, a fifth of a scheduling cycle.
        """
        if len(rows) > _LOOKUPS_MAX:
            changed = np.array([*rows])
            values[changed] = compute(changed)
            return
        if len(by_counts) > _COUNTS_MAX:
            by_counts.clear()
        columns = [self.pod_count]
        for columns_by_name in (self.allocatable, self.requested, self.non_zero_requested):
            columns += columns_by_name.values()
        for row in rows:
            counts = tuple([column.item(row) for column in columns])
            value = by_counts.get(counts)
            if value is None:
                value = by_counts[counts] = compute(np.array([row])).item()
            values[row] = value

    def _note_change(self, row: Row) -> None:
        if len(self._changes) == CHANGES_MAX:
            self._first_change += CHANGES_MAX // 2
            del self._changes[: CHANGES_MAX // 2]
        self._changes.append(row)

    @property
    def _version(self) -> int:
        return self._first_change + len(self._changes)

    def port_column(self) -> Interned[PortSet]:
        """Return the column of host ports in use; rows without ports have no value."""
        if self._port_column is None:
            self._port_column = Interned(self._capacity)
            for row, ports in enumerate(self.host_ports):
                self._port_column.set(row, ports or None)
        return self._port_column

    def derive(self, value_of: Callable[[Node], V | None]) -> Interned[V]:
        """Return the derived column of `value_of(node)`; it is cached and kept up to date.

        `value_of` must be pure. It is the cache key: functions with equal results must be equal.
        """
        interned = self._derived.touch(value_of)
        if interned is None:
            interned = Interned(self._capacity)
            for row, node in enumerate(self.nodes):
                if node is not None:
                    interned.set(row, value_of(node))
            self._derived.put(value_of, interned)
        return cast("Interned[V]", interned)

    def check(self) -> None:
        """Verify that every count is the sum over the pods; raises AssertionError. For tests."""
        for row, pods in enumerate(self.pods):
            name = self.names[row]
            assert self.pod_count[row] == len(pods), f"pod count of {name}"
            for resource, column in self.requested.items():
                total = sum(pod.requests[resource] for pod in pods.values())
                assert column[row] == total, f"requested {resource} of {name}"
            cpu = sum(pod.requests.non_zero_cpu for pod in pods.values())
            memory = sum(pod.requests.non_zero_memory for pod in pods.values())
            assert self.non_zero_requested[resources.CPU][row] == cpu, f"cpu of {name}"
            assert self.non_zero_requested[resources.MEMORY][row] == memory, f"memory of {name}"
            lowest = min((pod.priority for pod in pods.values()), default=NO_PRIORITY)
            assert self.lowest_priority[row] == lowest, f"lowest priority on {name}"
            ports = {port for pod in pods.values() for port in pod.host_ports}
            assert self.host_ports[row] == ports, f"host ports of {name}"

    # Capacity.

    def _zeros(self) -> IntArray:
        return np.zeros(self._capacity, dtype=np.int64)

    def _column(self, columns: dict[str, IntArray], name: str) -> IntArray:
        column = columns.get(name)
        if column is None:
            column = columns[name] = self._zeros()
        return column

    def _grow(self) -> None:
        self._capacity *= 2
        self.pod_count = grown(self.pod_count, self._capacity)
        self.lowest_priority = grown(self.lowest_priority, self._capacity, fill=NO_PRIORITY)
        self._nothing = self._zeros()
        for columns in (self.requested, self.non_zero_requested, self.allocatable):
            for name, column in columns.items():
                columns[name] = grown(column, self._capacity)
        for interned in self._derived.values():
            interned.resize(self._capacity)
        if self._port_column is not None:
            self._port_column.resize(self._capacity)
