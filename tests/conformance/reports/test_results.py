"""Results of versions: files, their update by a further run, the table and its freshness."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.errors import InputError
from conformance.outcome import Outcome, Verdict
from conformance.reports.cli import matrix
from conformance.reports.results import Results, matrix_of, results_at, skips_of, write_results


def outcome(case_id: str, verdict: Verdict, reason: str = "") -> Outcome:
    area, _, name = case_id.partition("/")
    return Outcome(
        area=area, name=name, source="", origin="", verdict=verdict, reason=reason, seconds=1.5
    )


def test_a_further_run_replaces_the_verdicts_of_its_cases(tmp_path: Path) -> None:
    path = tmp_path / "kube-scheduler-1.36.3.json"
    first = results_at(path).updated(
        [
            outcome("b/two", Verdict.PASSED),
            outcome("a/one", Verdict.ERROR, "late"),
            outcome("a/gone", Verdict.PASSED),
        ],
        ["a/one", "b/two", "a/gone"],
    )
    write_results(path, first)
    second = results_at(path).updated(
        [outcome("a/one", Verdict.PASSED), outcome("a/new", Verdict.SKIPPED, "why")],
        ["a/one", "b/two", "a/new"],
    )
    assert second == Results(
        scheduler="kube-scheduler",
        version="1.36.3",
        passed=["a/one", "b/two"],
        skipped={"a/new": "why"},
    )
    write_results(path, second)
    assert results_at(path) == second
    assert [second.verdict(name) for name in ("a/one", "a/new", "a/gone")] == [
        Verdict.PASSED,
        Verdict.SKIPPED,
        None,
    ]


def test_a_reason_has_no_time_process_and_uid_of_its_run() -> None:
    uid = "9c6d9f0e-1b2c-4d5e-8f90-0123456789ab"
    line = f'died: E1127 04:31:02.977110   15897 cache.go:568] "Moved" podKey="{uid}"'
    results = Results(scheduler="s", version="1.36")
    later = results.updated([outcome("a/one", Verdict.FAILED, line)], ["a/one"])
    assert later.failed == {"a/one": 'died: cache.go:568] "Moved" podKey=""'}


def test_a_case_that_is_left_out_for_its_length_keeps_its_verdict() -> None:
    results = Results(
        scheduler="s", version="1.36", passed=["a/long", "a/other"], skipped={"a/longer": "why"}
    )
    reason = "needs 3600s of real time, --real-time-max is 20s"
    names = ["a/long", "a/longer", "a/other"]
    outcomes = [outcome(name, Verdict.SKIPPED, reason) for name in names[:2]]
    outcomes.append(outcome("a/other", Verdict.SKIPPED, "needs a clock"))
    later = results.updated(outcomes, names)
    assert later.passed == ["a/long"]
    assert later.skipped == {"a/longer": reason, "a/other": "needs a clock"}


def test_a_file_is_named_after_scheduler_and_version(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"SCHEDULER-VERSION\.json, got results\.json"):
        results_at(tmp_path / "results.json")
    broken = tmp_path / "kube-scheduler-1.36.json"
    broken.write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="not a file of results"):
        results_at(broken)


def test_the_table_counts_by_area() -> None:
    results = Results(
        scheduler="s",
        version="1.0",
        passed=["a/x", "b/x"],
        failed={"a/y": "late"},
        skipped={"b/y": "why"},
    )
    assert matrix_of([results], ["b/x", "b/y", "b/z", "a/x", "a/y"]) == [
        "| area | cases | s 1.0 |",
        "|---|--:|--:|",
        "| a | 2 | 1, 1 failed |",
        "| b | 3 | 1, 1 skipped, 1 not run |",
        "| **all** | 5 | 2, 1 failed, 1 skipped, 1 not run |",
    ]


def test_skipped_cases_are_named_with_their_reason() -> None:
    waits = "of real time, --real-time-max is 20s"
    old, new = (
        Results(
            scheduler="s",
            version=version,
            skipped={
                "a/new": f"holds since 1.2, the scheduler has {version}",
                "a/other": f"holds since 1.2, the scheduler has {version}",
                "b/slow": f"needs 30s {waits}",
                "b/slower": f"needs 60s {waits}",
            },
        )
        for version in ("1.0", "1.1")
    )
    assert skips_of([old, new, Results(scheduler="s", version="1.2", passed=["a/x"])]) == [
        "| skipped because a case | on | cases |",
        "|---|---|---|",
        "| holds since 1.2 | s 1.0, s 1.1 | 2 |",
        "| needs more than 20s of real time | s 1.0, s 1.1 | b/slow, b/slower |",
    ]


def test_the_command_writes_the_table_into_a_document(tmp_path: Path) -> None:
    folder, document = tmp_path / "results", tmp_path / "README.md"
    folder.mkdir()
    for version in ("1.9.0", "1.10.0"):
        path = folder / f"kube-scheduler-{version}.json"
        write_results(path, results_at(path))
    document.write_text("before\n<!-- matrix -->\n<!-- /matrix -->\nafter\n", encoding="utf-8")
    options = ["--results", str(folder), "--into", str(document)]
    assert CliRunner().invoke(matrix, [*options, "--check"]).exit_code == 1
    assert CliRunner().invoke(matrix, options).exit_code == 0
    assert CliRunner().invoke(matrix, [*options, "--check"]).exit_code == 0
    text = document.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- matrix -->\n\n| area | cases | kube-scheduler 1.9.0 |")
    assert text.endswith("<!-- /matrix -->\nafter\n")
    assert "| kube-scheduler 1.10.0 |\n" in text
    document.write_text("nothing", encoding="utf-8")
    assert CliRunner().invoke(matrix, options).exit_code == 2
    assert CliRunner().invoke(matrix, ["--results", str(tmp_path / "none")]).exit_code == 2
