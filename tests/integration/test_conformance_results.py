"""Every case is confirmed on each version of kube-scheduler that it claims, as far as measured.

A new or changed case is confirmed by `tox -e upstream -- VERSION -k CASE`, which also renders the
table in the README.
"""

from pathlib import Path
from typing import Final

import pytest

import conformance
from conformance.format.case import BUILT_IN, Case, load_cases
from conformance.format.version import Version
from conformance.outcome import Verdict
from conformance.reports.cli import RESULTS, matrix_text, with_matrix
from conformance.reports.results import Results

pytestmark = pytest.mark.slow

README: Final = Path(conformance.__file__).parent / "README.md"
STOCK: Final = sorted(RESULTS.glob("kube-scheduler-*.json"))
#: Our scheduler as it decides in each version.
OURS: Final = sorted(RESULTS.glob("kubesched as-*.json"))
#: The beginnings of reasons for which a case cannot be confirmed on a scheduler in real time.
UNCONFIRMED: Final = ("needs a clock that the suite moves", "holds since", "holds until")
#: The beginning of the reason for a case of a plugin that kube-scheduler does not have.
OUR_PLUGIN: Final = "belongs to the feature"
REAL_TIME: Final = "of real time, --real-time-max is"


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return load_cases([BUILT_IN])


def claims(case: Case, version: Version) -> bool:
    """True if a case claims to hold for a version."""
    return not (
        (case.since is not None and version.is_before(case.since))
        or (case.until is not None and version.is_after(case.until))
    )


def problem(results: Results, case: Case) -> str | None:
    verdict = results.verdict(case.id)
    if verdict is None:
        return f"{case.id} was never run on {results.title}"
    if verdict is Verdict.FAILED:
        return f"{case.id} fails on {results.title}: {results.failed[case.id]}"
    reason = results.skipped.get(case.id, "")
    if reason and REAL_TIME not in reason and not reason.startswith(UNCONFIRMED):
        return f"{case.id} was skipped on {results.title}: {reason}"
    return None


@pytest.mark.parametrize("path", STOCK, ids=lambda path: str(path.stem))
def test_cases_are_confirmed_on_the_versions_that_they_claim(path: Path, cases: list[Case]) -> None:
    results = Results.from_file(path)
    version = Version.parse(results.version)
    claimed = [case for case in cases if claims(case, version)]
    of_both = [
        case for case in claimed if not results.skipped.get(case.id, "").startswith(OUR_PLUGIN)
    ]
    assert [found for case in of_both if (found := problem(results, case))] == []


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.stem))
def test_our_scheduler_passes_what_stock_passes(path: Path, cases: list[Case]) -> None:
    results = Results.from_file(path)
    assert [found for case in cases if (found := problem(results, case))] == []


def test_the_table_in_the_readme_is_fresh() -> None:
    before = README.read_text(encoding="utf-8")
    assert with_matrix(before, matrix_text(RESULTS)) == before
