"""`kubesched@VERSION`: our scheduler as it decides in a version of kube-scheduler."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from conformance.differential.comparison import Verdict
from conformance.differential.run import compare_all
from conformance.differential.sides import side_of
from conformance.errors import InputError
from conformance.outcome import Verdict as Ending
from conformance.reports.report import Report
from conformance.run.cli import run
from conformance.targets import target_kind
from conformance.targets.target import TargetOptions

from ..cases import write_cases

CASE = """
area: versions
cases:
- name: feature
  since: "1.36"
  source: s
  cluster:
  - node: {name: old}
  - node: {name: new, status: {declaredFeatures: [RestartAllContainersOnContainerExits]}}
  - pod:
      name: web
      containers:
      - name: c
        image: i
        restartPolicy: Never
        restartPolicyRules:
        - {action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}
  - pod: {name: full, count: 3, node: new}
  steps:
  - expect: {pod: web, bound_to: new}
"""


def test_two_versions_are_compared_each_by_its_own_rules(tmp_path: Path) -> None:
    cases = write_cases(tmp_path, CASE)
    a, b = (
        side_of(f"kubesched@{version}", option="--a", base=TargetOptions())
        for version in ("1.35", "1.36")
    )
    (compared,) = compare_all(cases, a, b, seed=0, timeout_seconds=60)
    first = compared.comparison.first_divergence
    assert compared.comparison.verdict is Verdict.DIFFERS
    assert first is not None
    assert (first.pod, str(first.a), str(first.b)) == ("default/web", "old", "new")
    assert compared.referee_problem == ""
    # By the rules of 1.35 the node fits; by those of 1.36 it does not.
    assert "rejected by NodeDeclaredFeatures" in "\n".join(first.lines)


@pytest.mark.parametrize(
    ("version", "verdict"), [("1.36", Ending.PASSED), ("1.35", Ending.SKIPPED)]
)
def test_the_suite_runs_our_scheduler_as_the_version_of_the_cases(
    tmp_path: Path, version: str, verdict: Ending
) -> None:
    path = tmp_path / "versions.yaml"
    path.write_text(CASE, encoding="utf-8")
    report = tmp_path / "report.json"
    command = ["--cases", str(path), "--scheduler-version", version, "--workers", "0"]
    result = CliRunner().invoke(run, [*command, "--report", str(report)])
    outcome = msgspec.json.decode(report.read_bytes(), type=Report).outcomes[0]
    assert outcome.verdict is verdict, result.output


def test_a_version_that_is_not_built_is_one_line() -> None:
    with pytest.raises(InputError) as error:
        target_kind(TargetOptions(in_process="kubesched@1.33"))
    assert str(error.value) == ("--in-process: kubesched@1.33: expected 1.34, 1.35, 1.36 or 1.37")
