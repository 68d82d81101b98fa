"""The views of a node table that plugins get: `Nodes`, many rows at once, and `NodeInfo`, one row.

Both read the same arrays. The arrays that they return are read-only.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

import numpy as np
from msgspec.structs import replace

from scheduler.api import resources
from scheduler.api.node_selectors import METADATA_NAME
from scheduler.snapshot.columns import ABSENT, BoolArray, Codes, IntArray, Row, seen_from

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from scheduler.api.core import Node, Taint
    from scheduler.api.node_selectors import NodeSelectorMatcher, RequiredNodeAffinity, Term
    from scheduler.api.selectors import Requirement
    from scheduler.snapshot.images import ImageTable
    from scheduler.snapshot.node_table import NodeTable, PortSet
    from scheduler.snapshot.pod_info import PodInfo

V = TypeVar("V", bound="Hashable")

_ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION_LABELS: Final = (
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/region",
)


@functools.lru_cache(maxsize=1024)
def label_of(key: str) -> Callable[[Node], str | None]:
    """Return the function from a node to its value of one label: the key of a derived column."""
    return lambda node: node.metadata.labels.get(key)


def zone_key(node: Node) -> str:
    """Return a node's region and zone as one text; empty if it has neither.

    Source: `GetZoneKey` of component-helpers `node/topology/helpers.go`.
    """
    labels = node.metadata.labels
    region, zone = (
        next((labels[key] for key in keys if key in labels), "")
        for keys in (_REGION_LABELS, _ZONE_LABELS)
    )
    return f"{region}:\x00:{zone}" if region or zone else ""


def zone_name(node: Node) -> str:
    """Return a node's region and zone for people, `region/zone`; empty if it has neither."""
    return "/".join(filter(None, zone_key(node).split(":\x00:")))


def _taints(node: Node) -> tuple[Taint, ...]:
    """Return the node's taints without their times, which no plugin reads."""
    taints = node.spec.taints
    if all(taint.time_added is None for taint in taints):
        return taints
    return tuple(replace(taint, time_added=None) for taint in taints)


def _unschedulable(node: Node) -> bool:
    return node.spec.unschedulable


def _name(node: Node) -> str:
    return node.metadata.name


class NodeImage(NamedTuple):
    """An image: its size, the number of nodes with it, and a flag per row in view."""

    size_bytes: int
    num_nodes: int
    present: BoolArray


class Nodes:
    """Some rows of a node table, in order: the argument of vectorised plugins.

    Every array has one entry per row in view. Cpu is in thousandths of a core, all other resources
    are in whole units.
    """

    __slots__ = ("_base_rows", "_images", "_rows", "_table", "total")

    def __init__(
        self,
        table: NodeTable,
        rows: slice | IntArray,
        *,
        total: int,
        images: ImageTable | None = None,
        base_rows: IntArray | None = None,
    ) -> None:
        self._table: Final = table
        self._rows: Final = rows
        self._images: Final = images
        self._base_rows: Final = base_rows
        #: The number of nodes in the whole cluster.
        self.total: Final = total

    def __len__(self) -> int:
        rows = self._rows
        return rows.stop - rows.start if isinstance(rows, slice) else len(rows)

    def __getitem__(self, index: int) -> NodeInfo:
        return NodeInfo(self._table, self._row(index), self._base_rows)

    def __iter__(self) -> Iterator[NodeInfo]:
        table, base_rows = self._table, self._base_rows
        return (NodeInfo(table, Row(row), base_rows) for row in self.rows)

    def __repr__(self) -> str:
        return f"<Nodes: {len(self)} of {self.total}>"

    @property
    def table(self) -> NodeTable:
        """The table of these rows, for copies (`WhatIf`). Do not write to it."""
        return self._table

    @property
    def images(self) -> ImageTable | None:
        """The images of these nodes, for copies; None for nodes without."""
        return self._images

    @property
    def rows(self) -> range | list[int]:
        """The table rows in view."""
        rows = self._rows
        return range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()

    @property
    def row_array(self) -> IntArray:
        """The table rows in view, as an array."""
        rows = self._rows
        return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows

    @property
    def base_rows(self) -> IntArray:
        """The snapshot's rows of these nodes, also if they are rows of a what-if table.

        The rows are indexes into arrays that a plugin computed in PreFilter, with an entry per node
        of the snapshot.
        """
        return self.row_array if self._base_rows is None else self._base_rows[self._rows]

    def name(self, index: int) -> str:
        """Return the name of the node at a position in this view."""
        return self._table.names[self._row(index)]

    @property
    def names(self) -> list[str]:
        """The names of all nodes in view, in order."""
        names = self._table.names
        rows = self._rows
        return names[rows] if isinstance(rows, slice) else [names[row] for row in rows.tolist()]

    def position(self, name: str) -> int | None:
        """Return the position of a node in this view; None for a node outside of it."""
        row = self._table.row_of.get(name)
        if row is None:
            return None
        rows = self._rows
        if isinstance(rows, slice):
            return row - rows.start if rows.start <= row < rows.stop else None
        matches = (rows == row).nonzero()[0]
        return int(matches[0]) if len(matches) else None

    def positions(self, names: Iterable[str]) -> dict[str, int]:
        """Return the positions of nodes in this view; nodes outside of it are left out."""
        row_of, rows = self._table.row_of, self._rows
        if isinstance(rows, slice):
            start, stop = rows.start, rows.stop
            return {
                name: row - start
                for name in names
                if start <= (row := row_of.get(name, ABSENT)) < stop
            }
        wanted = [(name, row_of[name]) for name in names if name in row_of]
        if not wanted:
            return {}
        position_of = np.full(len(self._table), -1, dtype=np.int64)
        position_of[rows] = np.arange(len(rows))
        indexes = position_of[[row for _, row in wanted]].tolist()
        return {name: at for (name, _), at in zip(wanted, indexes, strict=True) if at >= 0}

    def _others(self, rows: slice | IntArray) -> Nodes:
        return Nodes(
            self._table,
            rows,
            total=self.total,
            images=self._images,
            base_rows=self._base_rows,
        )

    def take(self, which: BoolArray | IntArray) -> Nodes:
        """Return some of these nodes, by a mask or by positions in this view."""
        rows = self._rows
        positions = cast("IntArray", which.nonzero()[0] if which.dtype == bool else which)
        if isinstance(rows, slice):
            chosen = positions + rows.start if rows.start else positions
        else:
            chosen = rows.take(positions)
        return self._others(chosen)

    def slice(self, start: int, stop: int) -> Nodes:
        """Return the nodes from `start` up to `stop`, which is not less. Copies nothing."""
        rows = self._rows
        if isinstance(rows, slice):
            chosen: slice | IntArray = slice(rows.start + start, min(rows.start + stop, rows.stop))
        else:
            chosen = rows[start:stop]
        return self._others(chosen)

    def joined(self, others: Sequence[Nodes]) -> Nodes:
        """Return these nodes followed by others of the same table."""
        rows: slice | IntArray = self._rows
        for other in others:
            if isinstance(rows, slice) and isinstance(other._rows, slice):
                if rows.stop == other._rows.start:
                    rows = slice(rows.start, other._rows.stop)
                    continue
                rows = np.arange(rows.start, rows.stop)
            elif isinstance(rows, slice):
                rows = np.arange(rows.start, rows.stop)
            rows = np.concatenate((rows, other.row_array))
        return self._others(rows)

    # Facts about node objects.

    def labels(self, key: str) -> Codes[str]:
        """Return the values of one label."""
        return self.derive(label_of(key))

    @property
    def name_codes(self) -> Codes[str]:
        """The names as a dictionary-encoded column."""
        return self.derive(_name)

    @property
    def taints(self) -> Codes[tuple[Taint, ...]]:
        """The nodes' taints; a node without taints has the empty tuple."""
        return self.derive(_taints)

    @property
    def unschedulable(self) -> BoolArray:
        """True for cordoned nodes."""
        return self.derive(_unschedulable).isin((True,))

    def derive(self, value_of: Callable[[Node], V | None]) -> Codes[V]:
        """Return a derived column: `value_of(node)` of each node object.

        It is computed once per node object, not per pod. `value_of` must be pure, hashable and the
        same object each time, such as a module-level function.
        """
        return self._table.derive(value_of).view(self._rows)

    def accepted_by(self, requirement: Requirement) -> BoolArray:
        """Return True for nodes whose labels meet one requirement of a selector."""
        codes = self.labels(requirement.key)
        if requirement.operator == "In":
            return codes.isin(requirement.values)
        if requirement.operator == "NotIn":
            return ~codes.isin(requirement.values)
        return codes.where(requirement.accepts)

    def meeting(self, term: Term) -> BoolArray:
        """Return True for nodes that match one term of a node selector (`Term.matches`)."""
        if term.errors:
            return np.zeros(len(self), dtype=np.bool_)
        met = np.ones(len(self), dtype=np.bool_)
        for expression in term.expressions:
            met &= self.accepted_by(expression)
        for requirement in term.fields:
            if requirement.key == METADATA_NAME:
                named = self.name_codes.isin(requirement.values)
                met &= named if requirement.operator == "In" else ~named
            elif not requirement.accepts(""):
                met[:] = False
        return met

    def selected_by(self, selector: NodeSelectorMatcher) -> BoolArray:
        """Return True for nodes that match one of the terms of a node selector."""
        selected = np.zeros(len(self), dtype=np.bool_)
        for term in selector.terms:
            selected |= self.meeting(term)
        return selected

    def allowed_by(self, affinity: RequiredNodeAffinity) -> BoolArray:
        """Return True for nodes that match a pod's node selector and required node affinity."""
        terms = affinity.terms
        allowed = np.ones(len(self), dtype=np.bool_) if terms is None else self.selected_by(terms)
        if affinity.node_selector is not None:
            for requirement in affinity.node_selector.requirements:
                allowed &= self.accepted_by(requirement)
        return allowed

    # Facts about the pods on the nodes.

    def allocatable(self, resource: str) -> IntArray:
        """Return the allocatable amount of a resource; 0 for nodes without it."""
        return self._view(self._table.column(self._table.allocatable, resource))

    def allocatable_bounds(self, resource: str) -> tuple[int, int]:
        """Return the least and the largest amount that any node of the cluster offers.

        Both are cached: a fast path where all nodes offer a resource, or amounts are small.
        """
        return self._table.allocatable_bounds(resource)

    def per_node(self, key: Hashable, compute: Callable[[Nodes], IntArray]) -> IntArray:
        """Return `compute(nodes)`, cached for the whole table (`NodeTable.cached`)."""
        values = self._table.cached(key, lambda rows: compute(self._others(rows)))
        return seen_from(values, self._rows)

    def requested(self, resource: str) -> IntArray:
        """Return the sum of the requests of the pods on each node."""
        return self._view(self._table.column(self._table.requested, resource))

    def non_zero_requested(self, resource: str) -> IntArray:
        """Return the sum of the requests with upstream's defaults; only for cpu and memory."""
        return self._view(self._table.column(self._table.non_zero_requested, resource))

    def unrequested(self, resource: str) -> IntArray:
        """Return the allocatable amount that is left on each node; negative if overcommitted."""
        table, rows = self._table, self._rows
        allocatable = table.column(table.allocatable, resource)[rows]
        return allocatable - table.column(table.requested, resource)[rows]

    def allocatable_rows(self, names: Sequence[str]) -> IntArray:
        """Return `allocatable` of several resources: a row per resource, a column per node."""
        return self._matrix([self._table.allocatable] * len(names), names)

    def requested_rows(self, names: Sequence[str], *, non_zero: bool) -> IntArray:
        """Return `requested` of several resources; `non_zero` prefers `non_zero_requested`."""
        plain, with_defaults = self._table.requested, self._table.non_zero_requested
        columns = [with_defaults if non_zero and n in with_defaults else plain for n in names]
        return self._matrix(columns, names)

    def _matrix(self, columns: Sequence[dict[str, IntArray]], names: Sequence[str]) -> IntArray:
        table, rows = self._table, self._rows
        chosen = [table.column(by, name)[rows] for by, name in zip(columns, names, strict=True)]
        return np.array(chosen) if chosen else np.zeros((0, len(self)), dtype=np.int64)

    @property
    def pod_count(self) -> IntArray:
        return self._view(self._table.pod_count)

    @property
    def pods(self) -> list[Mapping[str, PodInfo]]:
        """The pods on each node, by uid. Do not write to them."""
        pods = self._table.pods
        rows = self._rows
        return [*pods[rows]] if isinstance(rows, slice) else [pods[row] for row in rows.tolist()]

    @property
    def lowest_priority(self) -> IntArray:
        """A lower bound of the pods' priorities per node; `NO_PRIORITY` for nodes without pods."""
        return self._view(self._table.lowest_priority)

    @property
    def host_ports(self) -> Codes[PortSet]:
        """The host ports in use; nodes without host ports have no value."""
        return self._table.port_column().view(self._rows)

    def image(self, name: str) -> NodeImage | None:
        """Return an image by its full name; None if no node has it."""
        image = self._images.get(name) if self._images is not None else None
        if image is None or self._images is None:
            return None
        mask = self._images.mask(name, self._table.row_of, len(self._table))
        return NodeImage(image.size_bytes, len(image.node_names), seen_from(mask, self._rows))

    def _row(self, index: int) -> Row:
        rows = self._rows
        if isinstance(rows, slice):
            return Row(range(rows.start, rows.stop)[index])
        return Row(int(rows[index]))

    def _view(self, column: IntArray) -> IntArray:
        return seen_from(column, self._rows)


class NodeInfo:
    """One node with its pods, read from a row of a node table: the argument of per-node plugins."""

    __slots__ = ("_base_rows", "_row", "_table")

    def __init__(self, table: NodeTable, row: Row, base_rows: IntArray | None = None) -> None:
        self._table: Final = table
        self._row: Final = row
        self._base_rows: Final = base_rows

    @property
    def base_row(self) -> Row:
        """The snapshot's row of this node, also if it is a row of a what-if table."""
        return self._row if self._base_rows is None else Row(int(self._base_rows[self._row]))

    @property
    def name(self) -> str:
        return self._table.names[self._row]

    @property
    def node(self) -> Node:
        node = self._table.nodes[self._row]
        assert node is not None, "a snapshot has no rows without node object"
        return node

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.metadata.labels

    @property
    def taints(self) -> tuple[Taint, ...]:
        return self.node.spec.taints

    @property
    def unschedulable(self) -> bool:
        """True if the node is cordoned."""
        return self.node.spec.unschedulable

    @property
    def pods(self) -> tuple[PodInfo, ...]:
        """The pods on the node, assumed pods included."""
        return tuple(self._table.pods[self._row].values())

    @property
    def pod_count(self) -> int:
        return len(self._table.pods[self._row])

    @property
    def host_ports(self) -> PortSet:
        """The host ports in use."""
        return self._table.host_ports[self._row]

    @property
    def allocatable(self) -> dict[str, int]:
        """The allocatable amounts by resource, in the scheduler's units."""
        return self._counts(self._table.allocatable)

    @property
    def allowed_pods(self) -> int:
        """The allocatable number of pods."""
        return int(self._table.column(self._table.allocatable, resources.PODS)[self._row])

    @property
    def requested(self) -> dict[str, int]:
        """The sum of the pods' requests by resource."""
        return self._counts(self._table.requested)

    @property
    def non_zero_requested(self) -> dict[str, int]:
        """The sum of the pods' requests of cpu and memory, with upstream's defaults."""
        return self._counts(self._table.non_zero_requested)

    def _counts(self, columns: Mapping[str, IntArray]) -> dict[str, int]:
        return {name: count for name, c in columns.items() if (count := int(c[self._row]))}

    def __repr__(self) -> str:
        return f"NodeInfo({self.name}, {self.pod_count} pods)"
