"""Node shapes: the kinds of machines that a cluster can grow by, from CSV or YAML."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api import resources
from scheduler.api.core import Node, NodeSpec, NodeStatus, ObjectMeta, Taint
from scheduler.api.quantity import parse_quantity
from scheduler.explain.cluster import ClusterError
from scheduler.explain.yaml_reader import YamlError, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_HOSTNAME: Final = "kubernetes.io/hostname"
_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
#: The columns of a CSV file that are no resources.
_OWN_COLUMNS: Final = frozenset({"name", "price", "max", "labels", "taints"})
_PODS_MAX: Final = "110"


class NodeShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of machine. `price` counts in any unit, `max` is the largest number of such nodes."""

    name: str
    allocatable: dict[str, str | int | float]
    price: float = 0.0
    max: int = 1000
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()

    @property
    def amounts(self) -> Mapping[str, int]:
        """The allocatable amounts by resource, as the scheduler counts them."""
        return resources.node_allocatable(self.allocatable)

    def node(self, number: int) -> Node:
        """Return a node of this shape."""
        name = f"{self.name}-{number}"
        labels = {_HOSTNAME: name, _INSTANCE_TYPE: self.name, **self.labels}
        return Node(
            metadata=ObjectMeta(name=name, uid=f"node-{name}", labels=labels),
            spec=NodeSpec(taints=self.taints),
            status=NodeStatus(capacity=self.allocatable, allocatable=self.allocatable),
        )


def read_shapes(path: Path) -> list[NodeShape]:
    """Read node shapes. Raises `ClusterError`, which names file, row and field."""
    shapes = list(_of_csv(path) if path.suffix == ".csv" else _of_yaml(path))
    if not shapes:
        raise ClusterError(f"{path}: expected at least one node shape")
    for number, shape in enumerate(shapes, 1):
        for name, amount in shape.allocatable.items():
            try:
                parse_quantity(amount)
            except ValueError as error:
                place = f"{path}, shape {number} {shape.name}"
                raise ClusterError(f"{place}: {name}: {error}") from error
    names = [shape.name for shape in shapes]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ClusterError(f"{path}: name: {repeated[0]} is there twice")
    return shapes


def _of_yaml(path: Path) -> Iterator[NodeShape]:
    try:
        for document in read_yaml(path.read_bytes()):
            shapes = document if isinstance(document, list) else [document]
            for number, value in enumerate(shapes, 1):
                try:
                    yield _converted({"allocatable": {}, **value})
                except (msgspec.ValidationError, TypeError) as error:
                    raise ClusterError(f"{path}, shape {number}: {error}") from error
    except (YamlError, UnicodeDecodeError) as error:
        raise ClusterError(f"{path}: {error}") from error


def _of_csv(path: Path) -> Iterator[NodeShape]:
    """Yield the shapes of rows: name, price, max, labels (k=v;...), taints (k=v:Effect;...)."""
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            try:
                yield _converted(_of_row(row))
            except (msgspec.ValidationError, ValueError) as error:
                raise ClusterError(f"{path}, line {number}: {error}") from error


def _of_row(row: Mapping[str, str | None]) -> dict[str, object]:
    values = {key: (value or "").strip() for key, value in row.items() if key}
    found: dict[str, object] = {"name": values.get("name", "")}
    for key, kind in (("price", float), ("max", int)):
        if text := values.get(key, ""):
            try:
                found[key] = kind(text)
            except ValueError as error:
                raise ValueError(f"{key}: expected a number, got {text!r}") from error
    found["labels"] = dict(_pair(part) for part in values.get("labels", "").split(";") if part)
    found["taints"] = [_taint(part) for part in values.get("taints", "").split(";") if part]
    found["allocatable"] = {k: v for k, v in values.items() if k not in _OWN_COLUMNS and v}
    return found


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key.strip() and equals):
        raise ValueError(f"labels: expected KEY=VALUE, got {text!r}")
    return key.strip(), value.strip()


def _taint(text: str) -> dict[str, str]:
    pair, colon, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not (colon and key.strip() and effect.strip()):
        raise ValueError(f"taints: expected KEY=VALUE:EFFECT, got {text!r}")
    return {"key": key.strip(), "value": value.strip(), "effect": effect.strip()}


def _converted(value: dict[str, object]) -> NodeShape:
    shape = msgspec.convert(value, NodeShape)
    if not shape.name:
        raise ValueError("name: expected a name")
    if not shape.allocatable:
        raise ValueError("expected amounts of resources, such as cpu and memory")
    return msgspec.structs.replace(shape, allocatable={"pods": _PODS_MAX, **shape.allocatable})
