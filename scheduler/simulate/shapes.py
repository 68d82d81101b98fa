"""Node shapes: the kinds of machines that a cluster can grow by, from a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api.core import Node, NodeSpec, NodeStatus, ObjectMeta, Taint
from scheduler.explain.input_files import Amount, Count, InputFileError, read_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HOSTNAME: Final = "kubernetes.io/hostname"
_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_PODS_MAX: Final = "110"


class NodeShape(msgspec.Struct, frozen=True):
    """A kind of machine, as a row of a table.

    `price` counts in any unit, `max` is the largest number of such nodes, `amounts` are the
    allocatable ones by resource. Labels are `KEY=VALUE;...`, taints `KEY=VALUE:EFFECT;...`.
    """

    name: str
    price: Amount = 0.0
    max: Count = 1000
    labels: str = ""
    taints: str = ""
    amounts: dict[str, str] = {}

    def node(self, number: int) -> Node:
        """Return a node of this shape. Raises ValueError for bad amounts, labels or taints."""
        name, amounts = f"{self.name}-{number}", {"pods": _PODS_MAX, **self.amounts}
        labels = {_HOSTNAME: name, _INSTANCE_TYPE: self.name, **dict(_labels(self.labels))}
        return Node(
            metadata=ObjectMeta(name=name, uid=f"node-{name}", labels=labels),
            spec=NodeSpec(taints=(*_taints(self.taints),)),
            status=NodeStatus(capacity=amounts, allocatable=amounts),
        )


def read_shapes(path: Path) -> list[NodeShape]:
    """Read node shapes. Raises `InputFileError`, which names file, line and field."""
    names: set[str] = set()

    def checked(shape: NodeShape) -> NodeShape:
        if shape.name in names:
            raise ValueError(f"name: {shape.name} is there twice")
        if not shape.amounts:
            raise ValueError("expected amounts of resources, such as cpu and memory")
        names.add(shape.name)
        shape.node(0)
        return shape

    if not (shapes := list(read_table(path, NodeShape, checked))):
        raise InputFileError(path, "expected at least one node shape")
    return shapes


def _labels(text: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, text.split(";")):
        key, equals, value = part.partition("=")
        if not (key.strip() and equals):
            raise ValueError(f"labels: expected KEY=VALUE, got {part!r}")
        yield key.strip(), value.strip()


def _taints(text: str) -> Iterator[Taint]:
    for part in filter(None, text.split(";")):
        pair, colon, effect = part.rpartition(":")
        key, _, value = pair.partition("=")
        if not (colon and key.strip() and effect.strip()):
            raise ValueError(f"taints: expected KEY=VALUE:EFFECT, got {part!r}")
        yield Taint(key.strip(), value.strip(), effect.strip())
