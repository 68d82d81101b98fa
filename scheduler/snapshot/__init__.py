"""The cluster as arrays, and the views of it that plugins get."""

from scheduler.snapshot.columns import BoolArray, Codes, IntArray
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.nodes import NodeInfo, Nodes
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import NodeNotFoundError, Snapshot

__all__ = [
    "BoolArray",
    "Codes",
    "IntArray",
    "NodeInfo",
    "NodeNotFoundError",
    "NodeTable",
    "Nodes",
    "PodInfo",
    "Snapshot",
]
