"""NodeAffinity: cases that upstream's tables (`tests/upstream`) do not have."""

import pytest

from scheduler.api.core import Pod
from scheduler.framework.failures import PluginSetupError
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.testing import make_node, make_pod, snapshot_of
from tests.plugins.running import SKIP, UNRESOLVABLE, build, hint, rejected

Json = dict[str, object]

FOO_BAR: Json = {"key": "foo", "operator": "In", "values": ["bar"]}
MALFORMED: Json = {**FOO_BAR, "operator": "Has"}


def required(**term: object) -> Json:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def pod_with(node_affinity: Json) -> Pod:
    return make_pod(affinity={"nodeAffinity": node_affinity})


def test_a_node_that_is_ruled_out_by_name_is_filtered_and_not_left_out_before() -> None:
    other = {"key": "metadata.name", "operator": "NotIn", "values": ["a"]}
    snapshot = snapshot_of([make_node("a"), make_node("b")])
    reason = "node(s) didn't match Pod's node affinity/selector"
    found = rejected(build(NodeAffinity), pod_with(required(matchFields=[other])), snapshot)
    assert found == {"a": (UNRESOLVABLE, (reason,))}


def test_malformed_added_affinity_is_refused() -> None:
    with pytest.raises(PluginSetupError) as caught:
        build(NodeAffinity, {"addedAffinity": required(matchExpressions=[MALFORMED])})
    assert str(caught.value) == (
        'initializing plugin "NodeAffinity": addedAffinity.'
        "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]."
        'operator: Unsupported value: "Has": supported values: "In", "NotIn", "Exists", '
        '"DoesNotExist", "Gt", "Lt"'
    )


def test_a_node_that_added_affinity_keeps_out_does_not_help() -> None:
    plugin = build(NodeAffinity, {"addedAffinity": required(matchExpressions=[FOO_BAR])})
    assert hint(plugin, make_pod(), new=make_node()) == SKIP


def test_a_hint_does_not_judge_by_a_malformed_term() -> None:
    malformed = pod_with(required(matchExpressions=[MALFORMED]))
    with pytest.raises(ValueError, match=r"nodeSelectorTerms\[0\].matchExpressions\[0\].operator"):
        hint(build(NodeAffinity), malformed, new=make_node())
