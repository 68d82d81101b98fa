"""Read recorded scenarios, decide them, and write the decisions in the recorded format.

A scenario is a JSON line with the cluster's objects and either pods, which are scheduled one after
another, or changes, for which the cluster events and queueing hints are computed. The result of a
scenario is one JSON line.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Union, cast

import msgspec

from scheduler.api.core import Node, Pod
from scheduler.client import NODES, PODS
from scheduler.client.kinds import KINDS_BY_NAME
from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    ConfigError,
    FeatureGates,
    default_config,
    load_text,
)
from scheduler.explain.cluster import with_api_defaults
from scheduler.explain.steps import Step, play
from scheduler.explain.world import World
from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    match_cluster_events,
)
from scheduler.plugins import SCHEME
from scheduler.preemption.executor import ASYNC_PREEMPTION
from scheduler.queue.property_changes import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from scheduler.snapshot import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scheduler.api.dynamic_resources import ResourceClaim
    from scheduler.client import ApiObject
    from scheduler.config import KubeSchedulerConfiguration
    from scheduler.framework.interface import Plugin
    from scheduler.framework.status import Status
    from scheduler.reports.decision import Decision, DeviceWrites, PostFilterOutcome
    from scheduler.runtime import Framework

#: A JSON object.
Json = dict[str, object]
#: An object before or after a change; None if it does not exist then.
State = Union["ApiObject", None]

#: Scenarios without a configuration use the default profile and score all nodes.
_PERCENTAGE: Final = 100


class ScenarioError(ValueError):
    """A line that is not a scenario. The text names the line and the mistake."""


class Change(msgspec.Struct, frozen=True):
    """A pending pod, and an object before and after a change; null if it does not exist then."""

    pod: Pod
    old: msgspec.Raw = msgspec.Raw(b"null")
    new: msgspec.Raw = msgspec.Raw(b"null")


class Scenario(msgspec.Struct, frozen=True):
    """One line of a file of scenarios."""

    name: str
    config: msgspec.Raw = msgspec.Raw(b"")
    objects: tuple[msgspec.Raw, ...] = ()
    pods: tuple[Pod, ...] = ()
    hints: tuple[Change, ...] = ()
    #: The pods whose claims are written after the last decision, in this order.
    late_pre_bind: tuple[str, ...] = msgspec.field(name="latePreBind", default=())
    #: The feature gates that differ from the defaults.
    features: Mapping[str, bool] = MappingProxyType({})
    steps: tuple[Step, ...] = ()

    @property
    def feature_gates(self) -> FeatureGates:
        """The gates that are on; recorded runs have no asynchronous preemption."""
        on = {name for name, is_on in self.features.items() if is_on}
        return (DEFAULT_FEATURE_GATES | on) - (self.features.keys() - on) - {ASYNC_PREEMPTION}


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


def read_scenarios(lines: Iterable[bytes], *, source: str) -> Iterator[Scenario]:
    """Yield one scenario per line, skipping blank lines. Raises `ScenarioError`."""
    decoder = msgspec.json.Decoder(Scenario)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise ScenarioError(f"{source}, line {number}: {error}") from error


def world_of(scenario: Scenario, plugins: Iterable[type[Plugin] | str] = ()) -> World:
    """Build the cluster of a scenario. Raises `ScenarioError` or an error of the profiles."""
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
    return World(
        config,
        nodes=nodes,
        pods=pods,
        others=objects,
        plugins=plugins,
        nominates=False,
        feature_gates=scenario.feature_gates,
    )


def decided(scenario: Scenario, plugins: Iterable[type[Plugin] | str] = ()) -> Json:
    """Return the decisions of a scenario as JSON."""
    if scenario.steps:
        return {"name": scenario.name, **_played(scenario, plugins)}
    world = world_of(scenario, plugins)
    if scenario.hints:
        return {"name": scenario.name, **_hints(scenario, world)}
    late = scenario.late_pre_bind
    decisions = [
        world.decide(with_api_defaults(pod), binds=pod.key not in late) for pod in scenario.pods
    ]
    by_key = {decision.pod.key: number for number, decision in enumerate(decisions)}
    for key in late:
        number = by_key[key]
        if decisions[number].result == "scheduled":
            decisions[number] = world.bind(decisions[number])
    return {
        "name": scenario.name,
        "nodeOrder": list(world.snapshot.names),
        "pods": list(map(decision_json, decisions)),
    }


def _played(scenario: Scenario, plugins: Iterable[type[Plugin] | str]) -> Json:
    """Return the outcome of each step, and the answers of the hints."""
    plugins = list(plugins)
    try:
        config = _config_of(scenario)
    except (msgspec.MsgspecError, ConfigError) as error:
        raise ScenarioError(f"scenario {scenario.name}: {error}") from error
    outcome = play(
        config,
        map(bytes, scenario.objects),
        scenario.steps,
        feature_gates=scenario.feature_gates,
        plugins=plugins,
    )
    if scenario.hints:
        outcome.update(_hints(scenario, world_of(scenario, plugins)))
    return outcome


def _hints(scenario: Scenario, world: World) -> Json:
    return {
        "hints": [
            _hints_of(world.profiles, with_api_defaults(c.pod), bytes(c.old), bytes(c.new))
            for c in scenario.hints
        ],
    }


def decision_json(decision: Decision) -> Json:
    """Return one pod's decision in the recorded format."""
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
    if decision.pre_bind is not None:
        answer["preBind"] = _status_json(decision.pre_bind)
    if decision.device_writes is not None:
        answer.update(_device_writes_json(decision.device_writes))
    return answer


def _device_writes_json(written: DeviceWrites) -> Json:
    answer: Json = {}
    if written.writes:
        answer["writes"] = list(written.writes)
    if written.claims:
        answer["claims"] = {
            key: _claim_json(claim, is_new=key in written.created)
            for key, claim in written.claims.items()
        }
    if written.extended_status is not None:
        answer["extendedResourceClaimStatus"] = msgspec.to_builtins(written.extended_status)
    return answer


def _claim_json(claim: ResourceClaim | None, *, is_new: bool) -> Json | None:
    """Return a claim as it was written; of a new one also what it was created with."""
    if claim is None:
        return None
    found = msgspec.to_builtins(claim)
    metadata, parts = found["metadata"], dict(found.get("status", {}))
    parts["finalizers"] = metadata.get("finalizers", [])
    if is_new:
        for name in ("generateName", "annotations", "ownerReferences"):
            parts[name] = metadata.get(name)
        parts["spec"] = found.get("spec")
    return parts


def _placement_json(decision: Decision) -> Json:
    result = decision.schedule_result
    assert result is not None, "a scheduled pod has a result"
    assert result.scores is not None, "explained pods are always scored"
    names = result.feasible_nodes.names
    total = result.scores.total.tolist()
    highest = max(total)
    by_plugin = {plugin: s.tolist() for plugin, s in result.scores.by_plugin.items()}
    return {
        "node": result.suggested_host,
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
    scheme = SCHEME._replace(gates=scenario.feature_gates)
    if raw and raw != b"null":
        return load_text(raw.decode(), scheme)
    return msgspec.structs.replace(default_config(scheme), percentage_of_nodes_to_score=_PERCENTAGE)


def _hints_of(
    profiles: Mapping[str, Framework], waiting: Pod, old_json: bytes, new_json: bytes
) -> Json:
    """Return the cluster events of a change, and each plugin's queueing hints for them.

    The hints are those of the first profile, for a pod that all its plugins have rejected.
    """
    old, new = _decoded(old_json), _decoded(new_json)
    framework = next(iter(profiles.values()))
    pod = PodInfo(waiting)
    events = _cluster_events_of(old, new)
    hints = {
        plugin.name: answers
        for plugin, registered in framework.registered_events
        if (answers := _answers(registered, events, pod, old, new))
    }
    return {"events": [event.label for event in events], "hints": hints}


def _cluster_events_of(old: State, new: State) -> list[ClusterEvent]:
    """Return the cluster events that the queue derives from a change."""
    if isinstance(old, Pod) and isinstance(new, Pod):
        return pod_scheduling_properties_change(new, old)
    if isinstance(old, Node) and isinstance(new, Node):
        return node_scheduling_properties_change(new, old)
    present = old if new is None else new
    if present is None:
        return []
    action = ActionType.UPDATE
    if new is None:
        action = ActionType.DELETE
    elif old is None:
        action = ActionType.ADD
    if not isinstance(present, Pod):
        return [ClusterEvent(_event_resource(present), action)]
    assigned = bool(present.spec.node_name)
    resource = EventResource.ASSIGNED_POD if assigned else EventResource.UNSCHEDULABLE_POD
    return [ClusterEvent(resource, action)]


def _event_resource(obj: ApiObject) -> EventResource:
    """Return the event resource of an object's kind: `Node`, `storage.k8s.io/CSINode`."""
    kind = type(obj).__name__
    return next(r for r in EventResource if r.rpartition("/")[2] == kind)


def _answers(
    registered: Sequence[ClusterEventWithHint],
    events: list[ClusterEvent],
    pod: PodInfo,
    old: State,
    new: State,
) -> dict[str, str]:
    answers: dict[str, str] = {}
    for event in events:
        hints = [hint for known, hint in registered if match_cluster_events(known, event)]
        if not hints:
            continue
        queue = any(hint is None or hint(pod, old, new) == QueueingHint.QUEUE for hint in hints)
        answers[event.label] = str(QueueingHint.QUEUE if queue else QueueingHint.QUEUE_SKIP)
    return answers


def _decoded(text: bytes) -> State:
    if text == b"null":
        return None
    resource = KINDS_BY_NAME.get(msgspec.json.decode(text)["kind"])
    if resource is None:
        return None
    decoded: ApiObject = msgspec.json.decode(text, type=resource.type)
    return with_api_defaults(decoded) if isinstance(decoded, Pod) else decoded
