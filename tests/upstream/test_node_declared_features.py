"""`nodedeclaredfeatures_test.go`: features of the tests' own, as upstream's have them."""

from typing import cast

import pytest

from scheduler.api.core import PodSpec
from scheduler.framework import CycleState
from scheduler.plugins.node_declared_features import (
    Feature,
    FeatureRegistry,
    NodeDeclaredFeatures,
    Version,
)
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_pod, snapshot_of
from tests.plugins.running import hint, rejected, verdict_of
from tests.upstream.loading import Case, cases, node, pod, snapshot, verdict, verdicts

VERSION = (1, 35, 0)
FILTER_FEATURES = ("FeatureA", "FeatureB", "FeatureC")


def _always(spec: PodSpec) -> bool:
    return True


def _never(spec: PodSpec) -> bool:
    return False


def plugin_with(
    features: FeatureRegistry, *, version: Version = VERSION, is_on: bool = True
) -> NodeDeclaredFeatures:
    members = {"features": features, "version": version}
    plugin_class = type("NodeDeclaredFeatures", (NodeDeclaredFeatures,), members)
    handle = FakeHandle()
    if not is_on:
        handle.feature_gates -= {"NodeDeclaredFeatures"}
    made = Registry([plugin_class]).create("NodeDeclaredFeatures", None, handle)
    return cast("NodeDeclaredFeatures", made)


def plugin_that_needs(*needed: str, is_on: bool = True) -> NodeDeclaredFeatures:
    features = (Feature(name, _always if name in needed else _never) for name in FILTER_FEATURES)
    return plugin_with(FeatureRegistry(features), is_on=is_on)


@pytest.mark.parametrize("case", cases("node_declared_features", "pre_filter"))
def test_pre_filter(case: Case) -> None:
    features = [
        Feature(
            value["name"],
            _always if value["needed"] else _never,
            tuple(value["max_version"]) if "max_version" in value else None,
        )
        for value in case["features"]
    ]
    registry, version, state = FeatureRegistry(features), tuple(case["version"]), CycleState()
    plugin = plugin_with(registry, version=version, is_on=not case.get("disabled"))
    answer = plugin.pre_filter(state, PodInfo(make_pod()), snapshot_of([]).nodes)
    assert verdict_of(answer) == verdict(case.get("pre_filter"))
    if case.get("disabled"):
        return
    found = registry.infer_for_pod_scheduling(make_pod().spec, version)
    assert found == set(case["requirements"])


@pytest.mark.parametrize("case", cases("node_declared_features", "filter"))
def test_the_same_nodes_are_rejected_for_the_same_reasons(case: Case) -> None:
    if case["requirements"] is None:
        plugin = plugin_that_needs()
        with pytest.raises(LookupError) as caught:
            plugin.filter_nodes(CycleState(), PodInfo(make_pod()), snapshot(case).nodes)
        assert str(caught.value) == case["error"]
        return
    plugin = plugin_that_needs(*case["requirements"], is_on=not case.get("disabled"))
    assert rejected(plugin, make_pod(), snapshot(case)) == verdicts(case["statuses"])


@pytest.mark.parametrize("case", cases("node_declared_features", "hints"))
def test_the_hint_of_an_event_is_upstreams(case: Case) -> None:
    """Upstream's pods need a feature or not by the count of calls; here, by their host network."""
    features = FeatureRegistry([Feature("TestFeature", lambda spec: spec.host_network)])
    plugin = plugin_with(features)
    read = node if case["kind"] == "Node" else pod
    old, new = (read(case[which]) if case[which] else None for which in ("old", "new"))
    waiting = pod({"metadata": {"name": "test-pod"}})
    if case["kind"] == "Node" and old == new:
        # No change is no event; upstream asks the hint all the same.
        answer = plugin.is_schedulable_after_node_change(PodInfo(waiting), old, new)
        assert str(answer) == case["hint"]
        return
    assert hint(plugin, waiting, old=old, new=new) == case["hint"]
