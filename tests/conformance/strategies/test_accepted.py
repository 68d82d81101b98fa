"""Every drawn value is a valid API object: an API server accepts all of them."""

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from conformance import strategies
from conformance.api import ApiClient, Json
from conformance.connection import Connection
from conformance.format.case import Case
from conformance.run.execution import run_case
from conformance.strategies import Cluster
from conformance.targets import target_kind
from conformance.targets.quiet import QuietLoop
from fakeapi import FakeApiServer
from tests.conformance import schedulers
from tests.conformance.cases import in_process
from tests.thoroughness import examples


def _settings(count: int) -> settings:
    return settings(
        max_examples=examples(count),
        phases=(Phase.generate,),
        suppress_health_check=[*HealthCheck],
    )


async def _create(objects: Iterable[Json]) -> None:
    """Create all objects on a new server; its answer to an invalid one is an error here."""
    async with FakeApiServer() as server, ApiClient(Connection(server.url)) as api:
        for obj in objects:
            await api.create(obj)


@st.composite
def _single_objects(draw: DrawFn) -> list[Json]:
    """One object of each kind that is drawn alone."""
    volume = draw(strategies.volumes())
    pod = draw(strategies.pods())
    spec = pod["spec"]
    assert isinstance(spec, dict)
    spec |= {
        "affinity": draw(strategies.affinities()),
        "topologySpreadConstraints": [draw(strategies.topology_spreads())],
        "tolerations": [draw(strategies.tolerations())],
        "volumes": [volume.mount],
    }
    spec.pop("priorityClassName", None)
    node = draw(strategies.nodes())
    assert isinstance(node["spec"], dict)
    node["spec"]["taints"] = [draw(strategies.taints())]
    return [
        node,
        draw(strategies.priority_classes()),
        draw(strategies.budgets()),
        *volume.objects,
        pod,
    ]


@_settings(20)
@given(_single_objects())
def test_objects_are_accepted(objects: list[Json]) -> None:
    asyncio.run(_create(objects))


@_settings(20)
@given(strategies.clusters())
def test_clusters_are_accepted(cluster: Cluster) -> None:
    asyncio.run(_create(cluster.objects))


def _run_without_binding(case: Case) -> None:
    with asyncio.Runner(loop_factory=QuietLoop) as runner:
        kind = target_kind(in_process(schedulers.binds_nothing))
        outcome = runner.run(run_case(case, kind, seed=0, timeout_seconds=60))
    assert not outcome.reason


@_settings(15)
@given(strategies.cases())
def test_steps_are_accepted(case: Case) -> None:
    _run_without_binding(case)


@pytest.mark.slow
@_settings(200)
@given(_single_objects(), strategies.clusters())
def test_thousands_of_objects_are_accepted(objects: list[Json], cluster: Cluster) -> None:
    asyncio.run(_create(objects))
    asyncio.run(_create(cluster.objects))


@pytest.mark.slow
@_settings(150)
@given(strategies.cases(nodes_max=6, pods_max=8, steps_max=12))
def test_hundreds_of_histories_are_accepted(case: Case) -> None:
    _run_without_binding(case)
