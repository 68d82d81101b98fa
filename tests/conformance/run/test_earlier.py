"""Known failures, and the cases that failed last time."""

from pathlib import Path

import msgspec
import pytest

from conformance.errors import InputError
from conformance.format.case import Case, case_of
from conformance.format.version import Version
from conformance.outcome import Outcome, Verdict
from conformance.run.earlier import KnownFailures, LastFailed, with_known_bug

from ..cases import BOUND, write_cases


def _outcome(name: str, verdict: Verdict) -> Outcome:
    return Outcome(area="tiny", name=name, source="s", origin="o", verdict=verdict, reason="r")


@pytest.fixture
def known(tmp_path: Path) -> KnownFailures:
    file = tmp_path / "known.txt"
    file.write_text("# of our fork\n\ntiny/bound  # binds elsewhere\n", encoding="utf-8")
    return KnownFailures.from_file(file, write_cases(tmp_path, BOUND))


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.ERROR])
def test_a_known_failure_is_not_bad(known: KnownFailures, verdict: Verdict) -> None:
    outcome = known.applied(_outcome("bound", verdict))
    assert (outcome.verdict, outcome.is_bad, outcome.reason) == (Verdict.KNOWN, False, "r")
    assert known.applied(_outcome("other", verdict)).verdict is verdict


def test_a_known_failure_that_passes_is_a_failure(known: KnownFailures) -> None:
    outcome = known.applied(_outcome("bound", Verdict.PASSED))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("passes, and is a known failure in ")
    assert outcome.reason.endswith("known.txt:3: remove it there")


def test_a_known_failure_can_be_skipped(known: KnownFailures) -> None:
    assert known.applied(_outcome("bound", Verdict.SKIPPED)).verdict is Verdict.SKIPPED


def test_an_unknown_id_is_an_error_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "known.txt"
    file.write_text("tiny/bound\ntiny/bond\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"known\.txt:2: no case 'tiny/bond'"):
        KnownFailures.from_file(file, write_cases(tmp_path, BOUND))


def test_a_list_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        KnownFailures.from_file(tmp_path / "none", [])


def test_the_last_failures_are_kept_until_their_cases_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    last = LastFailed()
    assert last.read() == frozenset()
    last.update([_outcome("a", Verdict.FAILED), _outcome("b", Verdict.ERROR)])
    assert last.read() == {"tiny/a", "tiny/b"}
    last.update([_outcome("a", Verdict.PASSED)])
    assert LastFailed().read() == {"tiny/b"}


def test_without_a_cache_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    LastFailed().update([_outcome("a", Verdict.FAILED)])
    assert LastFailed().read() == frozenset()


@pytest.fixture
def with_bug() -> Case:
    raw = {
        "name": "hangs",
        "source": "s",
        "known_bug": {"sentence": "It hangs.", "versions": ["1.36"], "link": "tracker/1"},
        "steps": [{"expect": {"nodes": "no_overcommit"}}],
    }
    return case_of(raw, area="tiny", origin="o")


def test_a_known_bug_is_expected_in_its_versions_only(with_bug: Case) -> None:
    failed = _outcome("hangs", Verdict.FAILED)
    assert with_known_bug(failed, with_bug, Version(1, 36)).verdict is Verdict.KNOWN
    assert with_known_bug(failed, with_bug, Version(1, 37)).verdict is Verdict.FAILED


def test_a_known_bug_that_our_scheduler_does_not_copy_is_no_failure(with_bug: Case) -> None:
    assert with_bug.known_bug is not None
    bug = msgspec.structs.replace(with_bug.known_bug, ours=False)
    case = msgspec.structs.replace(with_bug, known_bug=bug)
    passed = _outcome("hangs", Verdict.PASSED)
    version = Version(1, 36)
    assert with_known_bug(passed, case, version, is_ours=True).verdict is Verdict.PASSED
    assert with_known_bug(passed, case, version).verdict is Verdict.FAILED


def test_a_known_bug_that_is_mended_must_be_announced(with_bug: Case) -> None:
    passed = _outcome("hangs", Verdict.PASSED)
    assert with_known_bug(passed, with_bug, Version(1, 37)).verdict is Verdict.PASSED
    outcome = with_known_bug(passed, with_bug, Version(1, 36))
    assert (outcome.verdict, outcome.reason) == (
        Verdict.FAILED,
        "passes, and its known bug is in 1.36 (tracker/1): remove the version there",
    )
