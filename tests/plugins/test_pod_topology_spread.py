"""PodTopologySpread: cases that upstream's (tests/upstream) do not have."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import pytest

from scheduler.api import core, workloads
from scheduler.api.core import Pod
from scheduler.api.selectors import NOTHING, parse_label_selector
from scheduler.config import DEFAULT_SCHEDULER_VERSION, SchedulerVersion
from scheduler.framework import CycleState
from scheduler.framework.failures import PluginSetupError
from scheduler.plugins.pod_topology_spread.constraints import MatchingPods
from scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from scheduler.testing.doubles import FakeLister
from tests.plugins.running import (
    QUEUE,
    SKIP,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    hint,
    rejected,
    scores,
    verdict_of,
)

Json = dict[str, object]

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"app": "web"}
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
TOO_SKEWED = (UNSCHEDULABLE, ("node(s) didn't match pod topology spread constraints",))
NO_LABEL = (
    UNRESOLVABLE,
    ("node(s) didn't match pod topology spread constraints (missing required label)",),
)
MALFORMED = {"matchExpressions": [{"key": "app", "operator": "Has"}]}


def over(key: str = ZONE, when: str = HARD, skew: int = 1, **further: object) -> Json:
    """Return a constraint; by default it selects the pods of `web`."""
    selector = {"labelSelector": {"matchLabels": WEB}}
    return {"topologyKey": key, "whenUnsatisfiable": when, "maxSkew": skew, **selector, **further}


def web(*spread: Json, name: str = "web", node: str = "", **further: object) -> Pod:
    return make_pod(name, labels=WEB, node_name=node, spread=spread, **further)  # type: ignore[arg-type]


def build(
    snapshot: Snapshot | None = None,
    args: Mapping[str, object] | None = None,
    services: Iterable[workloads.Service] = (),
    version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION,
) -> PodTopologySpread:
    listers = {plural: FakeLister() for plural in PodTopologySpread.reads}
    listers["services"] = FakeLister(services)  # type: ignore[arg-type]
    registry = Registry([PodTopologySpread])
    given = dict(args) if args is not None else None
    handle = FakeHandle(snapshot, listers=listers, version=version)
    plugin = registry.create("PodTopologySpread", given, handle)
    assert isinstance(plugin, PodTopologySpread)
    return plugin


def service(selector: Mapping[str, str], namespace: str = "default") -> workloads.Service:
    metadata = core.ObjectMeta(name="s", namespace=namespace)
    return workloads.Service(metadata, workloads.EqualitySelectorSpec(selector))


def two_zones(*pods: Pod) -> Snapshot:
    nodes = [make_node("a1", zone="a"), make_node("a2", zone="a"), make_node("b1", zone="b")]
    return snapshot_of(nodes, pods)


# Filter.


def test_the_first_of_two_constraints_that_reject_a_node_is_the_reason() -> None:
    snapshot = two_zones(web(node="a1"))
    rack = over("rack")
    zone_first = rejected(build(snapshot), web(over(skew=1), rack), snapshot)
    # Only nodes with all keys count, and none has a rack: no zone has any pods.
    assert zone_first == dict.fromkeys(["a1", "a2", "b1"], NO_LABEL)
    nodes = [make_node("a", zone="a", labels={"rack": "1"}), make_node("b", zone="b")]
    nodes.append(make_node("a-no-rack", zone="a"))
    snapshot = snapshot_of(
        [*nodes, make_node("c", zone="c", labels={"rack": "2"})], [web(node="a")]
    )
    pod = web(over(), rack)
    assert rejected(build(snapshot), pod, snapshot) == {
        "a": TOO_SKEWED,
        "a-no-rack": TOO_SKEWED,
        "b": NO_LABEL,
    }


def test_the_rule_by_which_pods_are_counted() -> None:
    selector = parse_label_selector(core.LabelSelector(match_labels=WEB))
    rule = MatchingPods("default", selector)
    leaving = web(deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    assert rule(PodInfo(web()).kind) == 1
    assert rule(PodInfo(leaving).kind) == 0
    assert rule(PodInfo(make_pod()).kind) == 0
    assert rule(PodInfo(make_pod(labels=WEB, namespace="other")).kind) == 0
    assert rule.namespaces == {"default"}
    # Equal rules share their counts; a selector parsed again is another object.
    assert rule == MatchingPods("default", parse_label_selector(core.LabelSelector(WEB)))
    assert rule != MatchingPods("other", selector)
    assert rule != MatchingPods("default", NOTHING)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (
            "pre_filter",
            "get constraints from pod: obtaining pod's hard topology spread constraints",
        ),
        (
            "pre_score",
            "calculating preScoreState: obtaining pod's soft topology spread constraints",
        ),
    ],
)
def test_a_malformed_selector_is_an_error_where_it_is_read(method: str, text: str) -> None:
    snapshot = two_zones()
    plugin = build(snapshot)
    when = HARD if method == "pre_filter" else SOFT
    info = PodInfo(web(over(when=when, labelSelector=MALFORMED)))
    message = f'{text}: "Has" is not a valid label selector operator'
    with pytest.raises(ValueError, match=f"^{message}$"):
        getattr(plugin, method)(CycleState(), info, snapshot.nodes)
    other = "pre_score" if method == "pre_filter" else "pre_filter"
    assert getattr(plugin, other)(CycleState(), info, snapshot.nodes).is_skip


# Dry runs.


def test_without_one_of_its_pods_a_full_zone_is_open_and_only_in_that_world() -> None:
    snapshot = two_zones(web(node="a1"), web(name="second", node="a2"))
    plugin, pod, state = build(snapshot), PodInfo(web(over())), CycleState()
    assert plugin.pre_filter(state, pod, snapshot.nodes) is None
    dry_run, what_if = state.clone(), WhatIf(snapshot.nodes)
    victim = what_if.remove_pod(0, "uid-default-web")
    plugin.remove_pod(dry_run, pod, victim, what_if.node(0))
    answer = plugin.filter_nodes(dry_run, pod, what_if.nodes)
    assert answer is not None
    # In the world of a1 there is one pod in the zone, but one more than in the other zone.
    assert [verdict_of(answer.status(i)) for i in range(3)] == [TOO_SKEWED, TOO_SKEWED, None]
    inner = dry_run.clone()
    plugin.add_pod(inner, pod, PodInfo(web(name="third", node="b1")), what_if.node(2))
    plugin.remove_pod(inner, pod, PodInfo(web(name="second", node="a1")), what_if.node(0))
    answer = plugin.filter_nodes(inner, pod, what_if.nodes)
    assert answer is not None
    assert [verdict_of(answer.status(i)) for i in range(3)] == [None, TOO_SKEWED, None]
    answer = plugin.filter_nodes(dry_run, pod, what_if.nodes)
    assert answer is not None
    assert verdict_of(answer.status(0)) == TOO_SKEWED
    assert rejected(plugin, pod.pod, snapshot) == {"a1": TOO_SKEWED, "a2": TOO_SKEWED}


def test_a_terminating_pod_is_subtracted_although_it_was_not_counted() -> None:
    # Upstream's AddPod and RemovePod do not ask whether a pod is terminating.
    leaving = web(name="leaving", node="a1", deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    snapshot = two_zones(web(node="a1"), leaving)
    plugin, pod, state = build(snapshot), PodInfo(web(over())), CycleState()
    plugin.pre_filter(state, pod, snapshot.nodes)
    plugin.remove_pod(state, pod, PodInfo(leaving), snapshot.get("a1"))
    assert plugin.filter_nodes(state, pod, snapshot.nodes.slice(0, 1)) is None


# Scores.


def test_a_zone_with_an_empty_name_is_where_nodes_without_a_zone_are() -> None:
    nodes = [
        make_node("named", zone="z"),
        make_node("unnamed", labels={ZONE: ""}),
        make_node("none"),
    ]
    snapshot = snapshot_of(nodes, [web(name=f"w{i}", node="none") for i in range(4)])
    plugin = build(snapshot, services=[service(WEB)])
    # Charges: hosts ln(3+2) and 2, zones ("z" and "") ln(2+2) and 4. The four pods on "none" are in
    # the zone of "unnamed": 2 + 4 * 1.39 + 4 = 12; "none" pays for its host: 4 * 1.61 + 2 = 8.
    assert scores(plugin, web(), snapshot) == {"named": 100, "unnamed": 50, "none": 83}


# Hints.


@pytest.mark.parametrize(("minor", "expected"), [(35, SKIP), (36, QUEUE)])
def test_a_nominated_pod_that_goes_helps_since_1_36(minor: int, expected: str) -> None:
    gone = make_pod("gone", labels=WEB, nominated_node_name="a1")
    plugin = build(version=SchedulerVersion(minor))
    assert hint(plugin, web(over()), old=gone) == expected


def test_a_hint_for_a_pod_with_a_malformed_selector_fails() -> None:
    malformed = web(over(labelSelector=MALFORMED))
    message = "^obtaining pod's hard topology spread constraints: "
    with pytest.raises(ValueError, match=message):
        hint(build(), malformed, new=web(name="other", node="a1"))
    with pytest.raises(ValueError, match=message):
        hint(build(), malformed, new=make_node("n"))


# Arguments.


def test_bad_arguments_are_refused_when_the_plugin_is_made() -> None:
    args = {"defaultingType": "List", "defaultConstraints": [over()]}
    with pytest.raises(PluginSetupError, match="must not define a selector"):
        build(args=args)
