"""Decide one pod in a cluster in memory, for tests of plugins.

decision = decide([make_node("a"), make_node("b")], make_pod("p"), plugins=[GpuGuard])
assert decision.node == "b"
assert decision.verdicts["a"].message == "node(s) were reserved for GPU pods"
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from scheduler.api.core import Node, Pod, Struct
from scheduler.config import KubeSchedulerConfiguration, PluginConfig, default_config
from scheduler.explain.world import World
from scheduler.plugins import SCHEME
from scheduler.reports.decision import result_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.client import ApiObject
    from scheduler.framework.interface import Plugin
    from scheduler.framework.status import Status
    from scheduler.reports.decision import Decision


class PodDecision(NamedTuple):
    """The decision for a pod.

    `result` is `scheduled`, `unschedulable`, `gated`, `ignored` or `error`. `node` is the chosen
    node, or the nominated node of preemption, or empty. `message` is upstream's text of the pod's
    condition. `verdicts` has each node: None if it fits, otherwise its rejection, which names the
    plugin. `scores` has the weighted score of each plugin, by feasible node.
    """

    result: str
    node: str
    message: str
    verdicts: Mapping[str, Status | None]
    scores: Mapping[str, Mapping[str, int]]
    victims: tuple[str, ...] = ()


def decide(
    cluster: Iterable[Struct],
    pod: Pod,
    *,
    plugins: Iterable[type[Plugin] | str] = (),
    args: Mapping[str, object] | None = None,
    others: Mapping[str, Iterable[ApiObject]] | None = None,
) -> PodDecision:
    """Schedule a pod with the default profile and further plugins, over all nodes.

    `cluster` holds the nodes and the pods on them (`Node`, `Pod`). `args` are the arguments of
    plugins by name, `others` the objects of further kinds by plural. Of equally good nodes the
    first by name is chosen. Raises `PluginSetupError`, and TypeError for a `cluster` with other
    objects.
    """
    objects = list(cluster)
    nodes = [obj for obj in objects if isinstance(obj, Node)]
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    for obj in objects:
        if not isinstance(obj, Node | Pod):
            raise TypeError(
                f"cluster holds nodes and pods, got {type(obj).__name__}: give objects of other "
                'kinds by plural, as in others={"configmaps.v1": [...]}'
            )
    config = configuration_with(args or {})
    world = World(config, nodes=nodes, pods=pods, others=others or {}, plugins=plugins)
    decision = result_of(world.decide(pod))
    return PodDecision(
        result=decision.result,
        node=_node_of(decision),
        message=decision.message or (decision.status.message if decision.status else ""),
        verdicts=_verdicts(decision, [node.metadata.name for node in nodes]),
        scores=_scores(decision),
        victims=tuple(decision.post_filter.victims) if decision.post_filter else (),
    )


def configuration_with(args: Mapping[str, object]) -> KubeSchedulerConfiguration:
    """Return upstream's default configuration with arguments for some plugins."""
    config = default_config(SCHEME)
    added = tuple(PluginConfig(name=name, args=value) for name, value in args.items())
    profiles = tuple(
        replace(
            profile,
            plugin_config=(*(c for c in profile.plugin_config if c.name not in args), *added),
        )
        for profile in config.profiles
    )
    return replace(config, profiles=profiles)


def _node_of(decision: Decision) -> str:
    if decision.node:
        return decision.node
    return decision.post_filter.nominated_node if decision.post_filter is not None else ""


def _verdicts(decision: Decision, names: Iterable[str]) -> dict[str, Status | None]:
    if decision.diagnosis is None:
        return dict.fromkeys(names, decision.status)
    feasible = decision.schedule_result.feasible_nodes.names if decision.schedule_result else []
    statuses = decision.diagnosis.node_to_status
    return {name: None if name in feasible else statuses.get(name) for name in names}


def _scores(decision: Decision) -> dict[str, dict[str, int]]:
    result = decision.schedule_result
    if result is None or result.scores is None:
        return {}
    by_plugin = result.scores.by_plugin
    return {
        name: {plugin: int(scores[index]) for plugin, scores in by_plugin.items()}
        for index, name in enumerate(result.feasible_nodes.names)
    }
