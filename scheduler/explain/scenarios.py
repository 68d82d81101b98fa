"""Recorded scenarios: read, decided, and the decisions written in the same format.

A scenario is a JSON line: the cluster's objects, and either pods to schedule one after another or
changes whose cluster events and queueing hints are asked for. The answer to each is one JSON line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import msgspec

from scheduler.api.core import Node, Pod
from scheduler.client import NODES, PODS
from scheduler.client.kinds import KINDS_BY_NAME
from scheduler.config import ConfigError, default_config, load_text
from scheduler.explain.hints import hints_of
from scheduler.explain.pod_defaults import with_api_defaults
from scheduler.explain.world import Decision, PostFilterOutcome, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scheduler.client import ApiObject
    from scheduler.config import KubeSchedulerConfiguration
    from scheduler.framework.interface import Plugin
    from scheduler.framework.status import Status

#: A JSON object.
Json = dict[str, object]

#: Scenarios without a configuration are decided by the default profile, all nodes looked at.
_PERCENTAGE: Final = 100


class ScenarioError(ValueError):
    """A line that is no scenario; the text names the line and what is wrong."""


class Change(msgspec.Struct, frozen=True):
    """A waiting pod, and an object before and after a change; None where it was not there."""

    pod: Pod
    old: msgspec.Raw = msgspec.Raw(b"null")
    new: msgspec.Raw = msgspec.Raw(b"null")


class Scenario(msgspec.Struct, frozen=True):
    """One line."""

    name: str
    config: msgspec.Raw = msgspec.Raw(b"")
    objects: tuple[msgspec.Raw, ...] = ()
    pods: tuple[Pod, ...] = ()
    hints: tuple[Change, ...] = ()


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


def read_scenarios(lines: Iterable[bytes], *, source: str) -> Iterator[Scenario]:
    """Scenarios, one per line, blank lines skipped; raises `ScenarioError`."""
    decoder = msgspec.json.Decoder(Scenario)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise ScenarioError(f"{source}, line {number}: {error}") from error


def world_of(scenario: Scenario, plugins: Iterable[type[Plugin] | str] = ()) -> World:
    """The cluster a scenario describes; raises `ScenarioError` or what the profiles raise."""
    objects: dict[str, list[ApiObject]] = {}
    try:
        for raw in scenario.objects:
            resource = KINDS_BY_NAME.get(msgspec.json.decode(raw, type=_Kind).kind)
            if resource is not None:
                decoded: ApiObject = msgspec.json.decode(raw, type=resource.type)
                objects.setdefault(resource.plural, []).append(decoded)
        config = _config_of(scenario)
    except (msgspec.MsgspecError, ConfigError) as error:
        raise ScenarioError(f"scenario {scenario.name}: {error}") from error
    nodes = cast("list[Node]", objects.pop(NODES.plural, []))
    pods = [with_api_defaults(pod) for pod in cast("list[Pod]", objects.pop(PODS.plural, []))]
    return World(config, nodes=nodes, pods=pods, others=objects, plugins=plugins, nominates=False)


def decided(scenario: Scenario, plugins: Iterable[type[Plugin] | str] = ()) -> Json:
    """The decisions in a scenario, as JSON."""
    world = world_of(scenario, plugins)
    if scenario.hints:
        return {
            "name": scenario.name,
            "hints": [
                hints_of(world.profiles, with_api_defaults(c.pod), bytes(c.old), bytes(c.new))
                for c in scenario.hints
            ],
        }
    return {
        "name": scenario.name,
        "nodeOrder": list(world.snapshot.names),
        "pods": [decision_json(world.decide(with_api_defaults(pod))) for pod in scenario.pods],
    }


def decision_json(decision: Decision) -> Json:
    """One pod's decision in the recorded format."""
    answer: Json = {"pod": decision.pod.key, "result": decision.result}
    if decision.message:
        answer["message"] = decision.message
    if decision.result == "gated" and decision.status is not None:
        answer["preFilter"] = _status_json(decision.status)
    if (diagnosis := decision.diagnosis) is not None:
        if diagnosis.pre_filter_status is not None:
            answer["preFilter"] = _status_json(diagnosis.pre_filter_status)
        if diagnosis.pre_filter_node_names is not None:
            answer["preFilterNodes"] = sorted(diagnosis.pre_filter_node_names)
        rejected = {name: _status_json(s) for name, s in diagnosis.node_to_status.items()}
        if rejected:
            answer["filter"] = rejected
        if decision.result == "unschedulable":
            answer["unschedulablePlugins"] = sorted(diagnosis.unschedulable_plugins)
    if decision.post_filter is not None:
        answer["postFilter"] = _post_filter_json(decision.post_filter)
    if decision.result == "scheduled":
        answer.update(_placement_json(decision))
    return answer


def _placement_json(decision: Decision) -> Json:
    verdict = decision.verdict
    assert verdict is not None, "a scheduled pod has a verdict"
    assert verdict.scores is not None, "explained pods are always scored"
    names = verdict.feasible.names
    total = verdict.scores.total.tolist()
    highest = max(total)
    by_plugin = {plugin: s.tolist() for plugin, s in verdict.scores.by_plugin.items()}
    return {
        "node": verdict.suggested_host,
        "best": sorted(n for n, score in zip(names, total, strict=True) if score == highest),
        "evaluated": decision.counts[0],
        "feasible": decision.counts[1],
        "scores": {
            name: {plugin: scores[position] for plugin, scores in by_plugin.items()}
            for position, name in enumerate(names)
        },
        "total": dict(zip(names, total, strict=True)),
    }


def _post_filter_json(outcome: PostFilterOutcome) -> Json:
    answer: Json = {"code": str(outcome.status.code), "victims": list(outcome.victims)}
    if outcome.status.message:
        answer["message"] = outcome.status.message
    if outcome.nominated_node:
        answer["nominatedNode"] = outcome.nominated_node
    return answer


def _status_json(status: Status) -> Json:
    return {
        "code": str(status.code),
        "plugin": status.plugin,
        "reasons": sorted(status.reasons),
    }


def _config_of(scenario: Scenario) -> KubeSchedulerConfiguration:
    raw = bytes(scenario.config)
    if raw and raw != b"null":
        return load_text(raw.decode())
    return msgspec.structs.replace(default_config(), percentage_of_nodes_to_score=_PERCENTAGE)
