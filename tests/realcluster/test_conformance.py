"""The conformance suite against schedulers that run in a real cluster, ours and stock's."""

import collections
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance.differential.comparison import Verdict as Difference
from conformance.differential.run import Compared, compare_all
from conformance.differential.sides import side_of
from conformance.format.case import BUILT_IN, Case, load_cases
from conformance.outcome import Verdict
from conformance.run.runner import Settings, run_cases
from conformance.targets.target import TargetOptions
from tests.realcluster.binaries import NoBinary
from tests.realcluster.cluster import RealCluster, free_ports
from tests.realcluster.conftest import Note

#: All would take a quarter of an hour for each scheduler.
AREAS_WITH_CONTROLLERS = ("devices", "filter", "preemption", "requeue")
AREAS = ("affinity", "binding", "devices", "filter", "preemption", "requeue", "spread", "volumes")
METRICS = "--authorization-always-allow-paths=/metrics"


@pytest.mark.parametrize("kind", ["stock", "ours"])
def test_both_schedulers_pass_the_conformance_suite(
    cluster: RealCluster, kind: str, note_figures: Note
) -> None:
    cases = [case for case in load_cases([BUILT_IN]) if case.area in AREAS]
    (port,) = free_ports(1)
    flags = (f"--secure-port={port}", METRICS, "--leader-elect=false")
    options = TargetOptions(
        kubeconfig=str(cluster.kubeconfig), metrics_url=f"https://127.0.0.1:{port}/metrics"
    )
    with cluster.scheduler(kind, *flags):
        counts = _counts(cases, options)
    note_figures(kind, **counts)
    assert counts[Verdict.PASSED.value] > len(cases) / 2


@pytest.mark.parametrize("kind", ["stock", "ours"])
def test_conformance_beside_controllers(kind: str, tmp_path: Path, note_figures: Note) -> None:
    cases = [case for case in load_cases([BUILT_IN]) if case.area in AREAS_WITH_CONTROLLERS]
    (port,) = free_ports(1)
    flags = (f"--secure-port={port}", METRICS, "--leader-elect=false")
    try:
        cluster = RealCluster(tmp_path, disabled_admission=())
    except NoBinary as error:
        pytest.skip(str(error))
    options = TargetOptions(
        kubeconfig=str(cluster.kubeconfig), metrics_url=f"https://127.0.0.1:{port}/metrics"
    )
    with cluster, cluster.controllers(), cluster.scheduler(kind, *flags):
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        while cluster.request("GET", account)[0] != 200:
            time.sleep(0.1)
        counts = _counts(cases, options)
        _, nodes = cluster.request("GET", "/api/v1/nodes")
    note_figures(kind, **counts)
    assert counts[Verdict.PASSED.value] > len(cases) / 3
    assert nodes["items"] == []


def test_a_cluster_decides_as_our_scheduler_in_process(cluster: RealCluster) -> None:
    cases = [case for case in load_cases([BUILT_IN]) if case.area == "preemption"]
    base = TargetOptions()
    ours = side_of("ours", option="--a", base=base)
    stock = side_of(f"kubeconfig:{cluster.kubeconfig}", option="--b", base=base)
    with cluster.scheduler("stock", "--leader-elect=false"):
        compared = [*compare_all(cases, ours, stock, seed=0, timeout_seconds=120.0)]
        verdicts = collections.Counter(each.comparison.verdict for each in compared)
        # As above: only a scenario that differs twice differs.
        differing = [each.comparison.case for each in compared if _is_divergent(each)]
        again = [*compare_all(differing, ours, stock, seed=0, timeout_seconds=120.0)]
    divergent = [each.comparison for each in again if _is_divergent(each)]
    assert [(comparison.case.id, comparison.differences) for comparison in divergent] == []
    # The others are skipped in a cluster, or are choices among equally good nodes.
    assert verdicts[Difference.SAME] > 0, verdicts


def _is_divergent(compared: Compared) -> bool:
    return compared.comparison.verdict.is_divergence


def _counts(cases: Sequence[Case], options: TargetOptions) -> collections.Counter[str]:
    """Run cases, of which none may fail; return the number of each verdict."""
    outcomes = run_cases(cases, Settings(target=options))
    # A machine that is busy makes a case fail: only a case that fails twice has failed.
    bad = {outcome.id for outcome in outcomes if outcome.is_bad}
    again = run_cases([case for case in cases if case.id in bad], Settings(target=options))
    final = [outcome for outcome in outcomes if outcome.id not in bad] + again
    assert [f"{outcome.id}: {outcome.reason}" for outcome in final if outcome.is_bad] == []
    return collections.Counter(outcome.verdict.value for outcome in final)
