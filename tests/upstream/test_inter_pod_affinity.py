"""`interpodaffinity/{filtering,plugin,scoring}_test.go`."""

from collections.abc import Mapping
from typing import cast

import numpy as np
import pytest

from scheduler.api.core import Namespace
from scheduler.framework import CycleState, EventResource
from scheduler.plugins.inter_pod_affinity.filtering import FILTER_STATE, Domains
from scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from scheduler.runtime.registry import Registry
from scheduler.snapshot import IntArray, PodInfo
from scheduler.testing import FakeHandle
from scheduler.testing.doubles import FakeLister
from tests.upstream.loading import (
    Case,
    api_object,
    cases,
    nodes_of,
    pod,
    snapshot,
    verdict,
    verdicts,
)
from tests.upstream.running import filter_statuses, hint, incoming, pre_filter, pre_score, scores

Counts = dict[str, dict[str, int]]

NAMESPACES = [
    api_object(Namespace, {"metadata": {"name": f"{name}.{team}", "labels": {"team": team}}})
    for team in ("team1", "team2")
    for name in ("subteam1", "subteam2")
]


def plugin(case: Case) -> InterPodAffinity:
    handle = FakeHandle(snapshot(case), listers={"namespaces": FakeLister(NAMESPACES)})
    created = Registry([InterPodAffinity]).create("InterPodAffinity", case.get("args"), handle)
    return cast("InterPodAffinity", created)


@pytest.mark.parametrize("case", cases("inter_pod_affinity", "filter"))
def test_the_same_nodes_are_rejected_for_the_same_reasons(case: Case) -> None:
    state, tried = CycleState(), plugin(case)
    found = pre_filter(tried, case, state)
    assert found == verdict(case.get("pre_filter"))
    if found is None:
        assert filter_statuses(tried, case, state) == verdicts(case["statuses"])


@pytest.mark.parametrize("case", cases("inter_pod_affinity", "counts"))
def test_terms_are_counted_as_upstream_counts(case: Case) -> None:
    state, tried, waiting = CycleState(), plugin(case), incoming(case)
    if "error" in case.fields:
        with pytest.raises(LookupError) as caught:
            tried.filter_nodes(state, waiting, snapshot(case).nodes)
        assert str(caught.value) == case["error"]
        return
    if pre_filter(tried, case, state) is not None:
        assert (case["affinity"], case["anti_affinity"]) == ({}, {})
        return
    if "added" not in case.fields:
        assert counted(case, state) == (case["affinity"], case["anti_affinity"])
        return
    before = counted(case, state)
    added = PodInfo(pod(case["added"]))
    node = tried.handle.snapshot.get(added.spec.node_name)
    tried.add_pod(state, waiting, added, node)
    assert counted(case, state, node.base_row) == (case["affinity"], case["anti_affinity"])
    tried.remove_pod(state, waiting, added, node)
    assert counted(case, state, node.base_row) == before


def counted(case: Case, state: CycleState, row: int | None = None) -> tuple[Counts, Counts]:
    """Return pods by topology key and value; for `row`, those of its domains come from the node.

    Upstream counts a pod once for each affinity term with a key, ours once.
    """
    counts, terms = state.read(FILTER_STATE), incoming(case).kind.affinity
    affinity = _by_value(case, counts.affinity, row)
    for term in {term.topology_key: term for term in terms.required_affinity}.values():
        times = [t.topology_key for t in terms.required_affinity].count(term.topology_key)
        for value in affinity.get(term.topology_key, {}):
            affinity[term.topology_key][value] *= times
    return affinity, _by_value(case, counts.anti_affinity, row)


def _by_value(case: Case, counted: Mapping[str, Domains], row: int | None) -> Counts:
    found: Counts = {}
    nodes = nodes_of(case)
    rows: IntArray = np.arange(len(nodes))
    for key, domains in counted.items():
        # The changed node comes last, and has the last word on its domain.
        for index in sorted(rows.tolist(), key=lambda index: index == row):
            value = nodes[index].metadata.labels.get(key)
            if value is not None:
                found.setdefault(key, {})[value] = int(domains.at(rows)[index])
    by_value = {key: {v: n for v, n in values.items() if n} for key, values in found.items()}
    return {key: values for key, values in by_value.items() if values}


@pytest.mark.parametrize("case", cases("inter_pod_affinity", "score"))
def test_nodes_get_upstreams_scores(case: Case) -> None:
    state, tried = CycleState(), plugin(case)
    if "error" in case.fields:
        with pytest.raises(ValueError, match="failed to parse pod: ") as caught:
            pre_score(tried, case, state)
        assert case["error"] in str(caught.value)
        return
    skipped = pre_score(tried, case, state)
    if "pre_score" in case.fields:
        assert skipped == verdict(case["pre_score"])
        return
    # Weights that add up to nothing everywhere make a score of 0 upstream, and none here.
    found = scores(tried, case, state) if skipped is None else dict.fromkeys(case["scores"], 0)
    assert found == case["scores"]


@pytest.mark.parametrize("case", cases("inter_pod_affinity", "hints"))
def test_the_hint_of_an_event_is_upstreams(case: Case) -> None:
    assert hint(plugin(case), case, EventResource(case["kind"])) == case["hint"]
