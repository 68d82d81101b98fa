"""The suite against the real `kubesched`: a process of its own, real time."""

import sys

import pytest

from conformance.format.case import BUILT_IN, load_cases
from conformance.outcome import Verdict
from conformance.run.runner import Settings, run_cases
from conformance.targets.target import TargetOptions

pytestmark = pytest.mark.slow

KUBESCHED = f"{sys.executable} -m scheduler --kubeconfig {{kubeconfig}}"
OPTIONS = (
    "--config {config} --secure-port {port} --feature-gates={feature-gates} "
    "--authorization-always-allow-paths=/metrics"
)
CHOSEN = {
    "config/added-affinity-is-enforced",
    "pod-groups/metrics-of-groups-that-are-bound",
    "pod-groups/restart-after-binding",
    "queue/empty-active-queue-takes-from-backoff",
}


def _verdicts(command: str) -> dict[str, tuple[Verdict, str]]:
    cases = [case for case in load_cases([BUILT_IN]) if case.id in CHOSEN]
    options = TargetOptions(command=command, quiet_seconds=0.3)
    outcomes = run_cases(cases, Settings(target=options))
    return {outcome.id: (outcome.verdict, outcome.reason) for outcome in outcomes}


def test_a_handful_of_cases_hold_for_the_process() -> None:
    verdicts = _verdicts(f"{KUBESCHED} {OPTIONS}")
    assert verdicts == dict.fromkeys(CHOSEN, (Verdict.PASSED, ""))


def test_the_error_of_a_refused_configuration_is_its_own() -> None:
    (case,) = [case for case in load_cases([BUILT_IN]) if case.id == "status/no-nodes-at-all"]
    options = TargetOptions(command=f"{KUBESCHED} --secure-port 0 --plugin no.such:Plugin")
    (outcome,) = run_cases([case], Settings(target=options))
    assert outcome.verdict is Verdict.ERROR
    assert outcome.reason.startswith("did not start: exit status 1: E")
