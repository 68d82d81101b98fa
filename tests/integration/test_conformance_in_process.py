"""The suite with our scheduler in its own process, on virtual time: the README's example, twice."""

import re
from pathlib import Path

import pytest

import conformance
from conformance.format.case import BUILT_IN, load_cases
from conformance.format.selection import select
from conformance.outcome import Outcome, Verdict
from conformance.run.runner import Settings, run_cases
from conformance.targets.target import TargetOptions
from tests.thoroughness import IS_THOROUGH

pytestmark = [
    pytest.mark.slow,
    # Left behind by pygal, which the replay draws with, for all imports that come after it.
    pytest.mark.filterwarnings("ignore:PluginImportFixer"),
]

README = Path(conformance.__file__).parent / "README.md"


def test_the_example_of_the_readme_is_a_case_that_passes(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    (tmp_path / "example.yaml").write_text(example[1], encoding="utf-8")
    (outcome,) = run_cases(load_cases([tmp_path]), Settings(workers=0))
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")


def _outcome_with(plugin: str) -> Outcome:
    (case,) = select(load_cases([BUILT_IN]), "filter/tolerations-that-match")
    target = TargetOptions(plugins=(f"tests.integration.faulty_plugins:{plugin}",))
    (outcome,) = run_cases([case], Settings(workers=0, target=target))
    return outcome


def test_a_plugin_takes_part_in_the_suite() -> None:
    assert _outcome_with("Quiet").verdict is Verdict.PASSED
    outcome = _outcome_with("Faulty")
    assert outcome.verdict is Verdict.FAILED
    log = "\n".join(outcome.log)
    assert "Plugin Faulty failed at Filter for pod default/" in log
    assert "faulty_plugins.py" in log
    assert "KeyError: 'rack'" in log


def test_scores_are_decided_by_scores_and_not_by_chance() -> None:
    """Another seed than that of the suite's own stage decides the same."""
    cases = select(load_cases([BUILT_IN]), "score/")[:: 1 if IS_THOROUGH else 3]
    outcomes = run_cases(cases, Settings(workers=0, seed=1))
    assert [
        outcome.id
        for outcome in outcomes
        if outcome.verdict not in (Verdict.PASSED, Verdict.SKIPPED)
    ] == []
