"""Runs one plugin on its own over a snapshot, as the framework would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework import Code, CycleState, PreFilterResult, Status
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.api.core import Pod
    from scheduler.framework import Plugin
    from scheduler.snapshot import Snapshot

#: A verdict as tests write it: upstream's code, and the reasons.
Verdict = tuple[str, tuple[str, ...]]

UNSCHEDULABLE = "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"


def build(plugin_class: type[Plugin], args: Mapping[str, object] | None = None) -> Plugin:
    """A plugin as a profile would have it; `args` as a configuration file has them."""
    registry = Registry([plugin_class])
    return registry.create(plugin_class.name, dict(args) if args is not None else None, _HANDLE)


_HANDLE = FakeHandle()


def verdict_of(status: Status | None) -> Verdict | None:
    return (str(status.code), status.reasons) if status is not None else None


def rejected(
    plugin: Plugin, pod: Pod, snapshot: Snapshot, *, only: Iterable[str] | None = None
) -> dict[str, Verdict]:
    """The nodes that a plugin's PreFilter and Filter turn down; `only` narrows the view."""
    info, state, nodes = PodInfo(pod), CycleState(), snapshot.nodes
    if only is not None:
        rows = [row for row, name in enumerate(nodes.names) if name in set(only)]
        nodes = nodes.take(np.array(rows, dtype=np.int64))
    answer = plugin.pre_filter(state, info, nodes) if hasattr(plugin, "pre_filter") else None
    if isinstance(answer, Status):
        skipped = answer.code == Code.SKIP
        return {} if skipped else dict.fromkeys(nodes.names, verdict_of(answer))
    left_out = {}
    if isinstance(answer, PreFilterResult) and answer.node_names is not None:
        allowed = np.array([name in answer.node_names for name in nodes.names], dtype=np.bool_)
        left_out = dict.fromkeys(nodes.take(~allowed).names, (UNRESOLVABLE, ()))
        nodes = nodes.take(allowed)
    rejections = plugin.filter_nodes(state, info, nodes)
    if rejections is None:
        return left_out
    statuses = {name: rejections.status(index) for index, name in enumerate(nodes.names)}
    verdicts = {name: verdict_of(status) for name, status in statuses.items() if status is not None}
    return left_out | verdicts


def scores(plugin: Plugin, pod: Pod, snapshot: Snapshot) -> dict[str, int]:
    """Every node's normalised score; empty if the plugin skips the pod."""
    info, state, nodes = PodInfo(pod), CycleState(), snapshot.nodes
    answer = plugin.pre_score(state, info, nodes) if hasattr(plugin, "pre_score") else None
    if answer is not None:
        assert answer.code == Code.SKIP
        return {}
    result = plugin.score_nodes(state, info, nodes)
    if hasattr(plugin, "normalize_score"):
        result = plugin.normalize_score(state, info, result)
    assert result.dtype == np.int64
    return dict(zip(nodes.names, result.tolist(), strict=True))
