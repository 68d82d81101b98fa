"""TaintToleration."""

import pytest

from scheduler.api.core import Node, Pod
from scheduler.framework import CycleState
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_plugin, make_pod, snapshot_of
from tests.plugins.running import QUEUE, SKIP, UNRESOLVABLE, hint, rejected, scores

UNTOLERATED = (UNRESOLVABLE, ("node(s) had untolerated taint(s)",))


def parts(text: str) -> list[dict[str, str]]:
    """Taints or tolerations, as in `key=value:Effect key:Effect`."""
    found = []
    for word in text.split():
        pair, _, effect = word.partition(":")
        key, equals, value = pair.partition("=")
        found.append(
            {"key": key, "value": value, "effect": effect}
            if equals
            else {"key": key, "operator": "Exists", "effect": effect}
        )
    return found


def node(name: str, taints: str = "") -> Node:
    given = [{k: v for k, v in part.items() if k != "operator"} for part in parts(taints)]
    return make_node(name, taints=given)


def plugin() -> TaintToleration:
    return make_plugin(TaintToleration)


def pod(tolerations: str = "", name: str = "pod") -> Pod:
    return make_pod(name, tolerations=parts(tolerations))


@pytest.mark.parametrize(
    ("taints", "tolerations", "fits"),
    [
        ("", "", True),
        ("dedicated=user1:NoSchedule", "", False),
        ("dedicated=user1:NoExecute", "", False),
        ("dedicated=user1:PreferNoSchedule", "", True),
        ("dedicated=user1:NoSchedule", "dedicated=user1:NoSchedule", True),
        ("dedicated=user1:NoSchedule", "dedicated=user2:NoSchedule", False),
        ("dedicated=user1:NoSchedule", "dedicated:NoSchedule", True),
        ("dedicated=user1:NoSchedule", "dedicated=user1:", True),
        ("dedicated=user1:NoSchedule", "dedicated=user1:NoExecute", False),
        ("dedicated=user1:NoSchedule foo=bar:NoSchedule", "dedicated: foo=bar:NoSchedule", True),
        ("dedicated=user1:NoSchedule foo=bar:NoSchedule", "dedicated:", False),
        ("dedicated=user1:NoSchedule foo=bar:NoExecute", ":", True),
    ],
)
def test_a_node_is_out_if_one_hard_taint_is_not_tolerated(
    taints: str, tolerations: str, fits: bool
) -> None:
    """`TestTaintTolerationFilter`."""
    found = rejected(plugin(), pod(tolerations), snapshot_of([node("n", taints)]))
    assert found == ({} if fits else {"n": UNTOLERATED})


SOFT = "cpu-type=arm64:PreferNoSchedule disk-type=ssd:PreferNoSchedule"
HARD = "cpu-type=arm64:NoSchedule disk-type=ssd:NoSchedule"


@pytest.mark.parametrize(
    ("tolerations", "taints", "expected"),
    [
        (
            "foo=bar:PreferNoSchedule",
            ["foo=bar:PreferNoSchedule", "foo=blah:PreferNoSchedule"],
            [100, 0],
        ),
        (SOFT, ["", "cpu-type=arm64:PreferNoSchedule", SOFT], [100, 100, 100]),
        (
            "foo=bar:PreferNoSchedule",
            ["", "cpu-type=arm64:PreferNoSchedule", SOFT],
            [100, 50, 0],
        ),
        (HARD, ["", "cpu-type=arm64:NoSchedule", SOFT], [100, 100, 0]),
        ("", ["", "cpu-type=arm64:PreferNoSchedule"], [100, 0]),
    ],
)
def test_the_fewer_untolerated_preferences_the_better(
    tolerations: str, taints: list[str], expected: list[int]
) -> None:
    """`TestTaintTolerationScore`."""
    nodes = [node(f"node{index}", text) for index, text in enumerate(taints)]
    found = scores(plugin(), pod(tolerations), snapshot_of(nodes))
    assert list(found.values()) == expected


def test_without_pre_score_there_is_no_score() -> None:
    snapshot = snapshot_of([node("n")])
    with pytest.raises(LookupError) as caught:
        plugin().score_nodes(CycleState(), PodInfo(pod()), snapshot.nodes)
    expected = 'failed to read "PreScoreTaintToleration" from cycleState: not found'
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, node("n"), QUEUE),
        (None, node("n", "foo=bar:NoSchedule"), QUEUE),
        (None, node("n", "foo=other:NoSchedule"), SKIP),
        (node("n", "foo=other:NoSchedule"), node("n", "foo=bar:NoSchedule"), QUEUE),
        (node("n", "foo=other:NoSchedule"), node("n", "a=b:NoExecute"), SKIP),
        (node("n", "foo=bar:NoSchedule"), node("n", "foo=bar:NoSchedule a:NoSchedule"), SKIP),
        (node("n", "foo=bar:NoSchedule"), node("n"), SKIP),
        (node("n", "foo=other:PreferNoSchedule"), node("n"), SKIP),
    ],
)
def test_a_node_whose_taints_are_now_tolerated_may_help(
    old: Node | None, new: Node, expected: str
) -> None:
    """`TestIsSchedulableAfterNodeChange`."""
    assert hint(plugin(), pod("foo=bar:NoSchedule"), old=old, new=new) == expected


@pytest.mark.parametrize(("name", "expected"), [("pod", QUEUE), ("other", SKIP)])
def test_only_the_pod_that_tolerates_more_is_tried_again(name: str, expected: str) -> None:
    """`Test_isSchedulableAfterPodTolerationChange`."""
    old, new = pod(name=name), pod("foo:", name=name)
    assert hint(plugin(), pod(), old=old, new=new) == expected
