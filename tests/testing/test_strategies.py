"""Hypothesis strategies: valid objects that shrink to little."""

import random

import hypothesis
import pytest
from hypothesis import given, settings

from scheduler.testing import RandomCluster, decide, strategies
from tests.thoroughness import thorough_only


@settings(max_examples=25, deadline=None)
@given(cluster=strategies.clusters(nodes_max=3, labels={"rack": ["r1"]}))
def test_each_cluster_can_be_decided_on(cluster: RandomCluster) -> None:
    assert 1 <= len(cluster.nodes) <= 3
    for pod in cluster.incoming:
        decision = decide(cluster.objects, pod)
        assert decision.result in ("scheduled", "unschedulable")
        assert set(decision.verdicts) == {node.metadata.name for node in cluster.nodes}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=thorough_only)])
def test_a_cluster_shrinks_to_the_part_that_a_condition_needs(seed: int) -> None:
    found = hypothesis.find(
        strategies.clusters(),
        lambda cluster: any(node.spec.taints for node in cluster.nodes),
        random=random.Random(seed),
        settings=settings(max_examples=500, database=None),
    )
    assert len(found.nodes) <= 2
    assert found.running == []
    assert sum(len(node.spec.taints) for node in found.nodes) == 1
    assert all(set(node.metadata.labels) == {"kubernetes.io/hostname"} for node in found.nodes)


def test_single_objects_have_the_given_names() -> None:
    examples = settings(max_examples=5, database=None)
    always = lambda value: True  # noqa: E731
    node = hypothesis.find(strategies.nodes(name="n"), always, settings=examples)
    pod = hypothesis.find(strategies.pods(node_name="n"), always, settings=examples)
    assert (node.metadata.name, pod.metadata.name, pod.spec.node_name) == ("n", "pod", "n")
