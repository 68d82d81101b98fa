"""PodTopologySpread against upstream's own cases.

`counts` are the pods by domain for each constraint and `least` the least of each, after `added` or
`removed` if there is one, on the node `at`. `infeasible` nodes are in the cluster but not scored.
"""

import re

import numpy as np
import pytest

from scheduler.framework import CycleState, EventResource
from scheduler.plugins.pod_topology_spread.filtering import PreFilterState
from scheduler.plugins.pod_topology_spread.plugin import (
    PRE_FILTER_STATE,
    PRE_SCORE_STATE,
    PodTopologySpread,
)
from scheduler.snapshot import Nodes, PodInfo
from tests.plugins.running import verdict_of
from tests.upstream.loading import Case, cases, pod, verdicts
from tests.upstream.running import filter_statuses, hint, incoming, plugin_of, pre_filter

LIST = {"defaultingType": "List"}
SYSTEM = {"defaultingType": "System"}


def seen_from(counts: PreFilterState, row: int | None) -> list[tuple[dict[str | None, int], int]]:
    """For each constraint the pods in each domain and the least count, in the world of a row."""
    rows = np.array([] if row is None else [row], dtype=np.int64)
    found = []
    for index, domains in enumerate(counts._domains):
        deltas = counts._deltas_of(index, rows)
        by_domain = domains.by_domain.copy()
        by_domain[domains.column.codes[rows]] += deltas
        values, codes = domains.column.values, domains.codes_counted.tolist()
        least = int(np.min(domains.least_after(rows, deltas)))
        found.append(({values[code]: int(by_domain[code]) for code in codes}, least))
    return found


@pytest.mark.parametrize("case", cases("pod_topology_spread", "counting"))
def test_pods_are_counted_as_upstream_counts(case: Case) -> None:
    plugin, state, info = plugin_of(PodTopologySpread, case, LIST), CycleState(), incoming(case)
    there = plugin.handle.snapshot
    answer = plugin.pre_filter(state, info, there.nodes)
    if "pre_filter" in case.fields:
        assert verdict_of(answer) == (case["pre_filter"], ())
        return
    assert answer is None
    node = there.get(case["at"]) if "at" in case.fields else None
    for change, changed in ((plugin.add_pod, "added"), (plugin.remove_pod, "removed")):
        if changed in case.fields and node is not None:
            change(state, info, PodInfo(pod(case[changed])), node)
    found = seen_from(state.read(PRE_FILTER_STATE), node.base_row if node else None)
    assert [counts for counts, _ in found] == case["counts"]
    assert [least for _, least in found] == case["least"]


@pytest.mark.parametrize("case", cases("pod_topology_spread", "filter"))
def test_the_same_nodes_are_rejected_for_the_same_reasons(case: Case) -> None:
    plugin, state = plugin_of(PodTopologySpread, case, LIST), CycleState()
    if "raises" in case.fields:
        with pytest.raises(LookupError, match=re.escape(case["raises"])):
            filter_statuses(plugin, case, state)
        return
    assert pre_filter(plugin, case, state) is None
    assert filter_statuses(plugin, case, state) == verdicts(case["statuses"])


def feasible(plugin: PodTopologySpread, case: Case) -> Nodes:
    nodes = plugin.handle.snapshot.nodes
    left_out = case.get("infeasible") or ()
    return nodes.take(np.array([name not in left_out for name in nodes.names], dtype=np.bool_))


@pytest.mark.parametrize("case", cases("pod_topology_spread", "pre_score"))
def test_pre_score(case: Case) -> None:
    plugin, state = plugin_of(PodTopologySpread, case, SYSTEM), CycleState()
    nodes = feasible(plugin, case)
    answer = plugin.pre_score(state, incoming(case), nodes)
    if "pre_score" in case.fields:
        assert verdict_of(answer) == (case["pre_score"], ())
        return
    soft = state.read(PRE_SCORE_STATE)
    ignored = nodes.take(soft.ignored).names if soft.ignored is not None else []
    assert ignored == case["ignored"]
    assert [one.weight for one in soft.constraint_scores] == pytest.approx(
        case["weights"], rel=1e-15
    )
    for one, counts in zip(soft.constraint_scores, case["counts"], strict=True):
        # Upstream counts hosts later on. A label that is missing reads as an empty one.
        values = nodes.labels(one.topology_key).values
        codes = {value: code for code, value in enumerate(values)} | {"": len(values)}
        found = {value: int(one.counts[codes[value]]) for value in counts}
        assert one.is_by_node or found == counts


@pytest.mark.parametrize("case", cases("pod_topology_spread", "score"))
def test_nodes_get_upstreams_scores(case: Case) -> None:
    plugin, state, info = plugin_of(PodTopologySpread, case, SYSTEM), CycleState(), incoming(case)
    nodes = feasible(plugin, case)
    assert plugin.pre_score(state, info, nodes) is None
    raw = plugin.score_nodes(state, info, nodes)
    found = plugin.normalize_score(state, info, raw)
    assert dict(zip(nodes.names, found.tolist(), strict=True)) == case["scores"]


@pytest.mark.parametrize("case", cases("pod_topology_spread", "hints"))
def test_the_hint_of_an_event_is_upstreams(case: Case) -> None:
    kind = EventResource.NODE if "Node" in case.source else EventResource.POD
    assert hint(plugin_of(PodTopologySpread, case, LIST), case, kind) == case["hint"]
