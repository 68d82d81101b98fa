"""NodeUnschedulable."""

import pytest

from scheduler.api.core import Node, Pod
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.plugins.running import QUEUE, SKIP, UNRESOLVABLE, hint, rejected

from .volumes import plugin_with

PLUGIN: NodeUnschedulable = plugin_with(NodeUnschedulable, FakeHandle())


KEY = "node.kubernetes.io/unschedulable"
SNAPSHOT = snapshot_of([make_node("open"), make_node("cordoned", unschedulable=True)])
TOLERANT = make_pod(tolerations=[{"key": KEY, "operator": "Exists", "effect": "NoSchedule"}])
OPEN, CORDONED = make_node(), make_node(unschedulable=True)


def test_a_cordoned_node_takes_no_pods() -> None:
    expected = {"cordoned": (UNRESOLVABLE, ("node(s) were unschedulable",))}
    assert rejected(PLUGIN, make_pod(), SNAPSHOT) == expected


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": KEY, "operator": "Exists", "effect": "NoSchedule"},
        {"key": KEY},
        {"operator": "Exists"},
    ],
)
def test_unless_they_tolerate_its_taint(toleration: dict[str, str]) -> None:
    pod = make_pod(tolerations=[toleration])
    assert rejected(PLUGIN, pod, SNAPSHOT) == {}


@pytest.mark.parametrize(
    "toleration", [{"key": KEY, "effect": "NoExecute"}, {"key": KEY, "value": "true"}]
)
def test_other_tolerations_do_not_help(toleration: dict[str, str]) -> None:
    pod = make_pod(tolerations=[toleration])
    assert set(rejected(PLUGIN, pod, SNAPSHOT)) == {"cordoned"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, OPEN, QUEUE),
        (None, CORDONED, SKIP),
        (CORDONED, OPEN, QUEUE),
        (OPEN, make_node(taints=[{"key": "a", "effect": "NoSchedule"}]), SKIP),
    ],
)
def test_a_node_that_is_now_open_may_help(old: Node | None, new: Node, expected: str) -> None:
    """`TestIsSchedulableAfterNodeChange`."""
    assert hint(PLUGIN, make_pod(), old=old, new=new) == expected


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (TOLERANT, QUEUE),
        (make_pod(tolerations=[{"key": "other", "operator": "Exists"}]), SKIP),
        (make_pod("other", tolerations=[{"key": KEY, "operator": "Exists"}]), SKIP),
    ],
)
def test_a_pod_that_now_tolerates_cordons_is_tried_again(new: Pod, expected: str) -> None:
    """`TestIsSchedulableAfterPodTolerationChange`."""
    old = make_pod(new.metadata.name)
    assert hint(PLUGIN, make_pod(), old=old, new=new) == expected
