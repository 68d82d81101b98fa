"""The metadata of cases: labels, level and feature, versions, the line in the file."""

import textwrap
from pathlib import Path

import pytest

from conformance.errors import InputError
from conformance.format.case import BUILT_IN, load_cases
from conformance.format.version import Version
from conformance.outcome import Level

from ..cases import write_cases

FILE = """\
area: tiny
defaults: {level: extended, feature: preemption, labels: [priority], since: "1.35"}
cases:
- name: plain
  source: nowhere
  steps: [{expect: {pod: p, bound_to: a}}]

- name: own
  source: nowhere
  labels: [victims]
  level: core
  until: "1.36"
  steps: [{advance: 10m}, {restart: }, {expect: {metric: m, value: 1}}]
"""


def test_a_case_has_the_metadata_of_its_file(tmp_path: Path) -> None:
    plain, _ = write_cases(tmp_path, FILE)
    assert (plain.level, plain.feature) == (Level.EXTENDED, "preemption")
    assert (plain.since, plain.until) == (Version(1, 35), None)
    assert plain.labels == {"priority"}
    assert plain.words == {"priority", "extended", "preemption", "tiny"}


def test_a_case_replaces_the_metadata_of_its_file_and_adds_labels(tmp_path: Path) -> None:
    _, own = write_cases(tmp_path, FILE)
    assert (own.level, own.feature) == (Level.CORE, "")
    assert (own.since, own.until) == (Version(1, 35), Version(1, 36))
    assert own.labels >= {"priority", "victims"}


def test_some_labels_follow_from_the_content(tmp_path: Path) -> None:
    _, own = write_cases(tmp_path, FILE)
    assert own.labels == {"priority", "victims", "slow", "restart", "metrics"}


def test_a_case_has_its_line_in_the_file(tmp_path: Path) -> None:
    assert [case.line for case in write_cases(tmp_path, FILE)] == [4, 8]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("level: extended", "expected a feature for the level extended, and only for it"),
        ("feature: volumes", "expected a feature for the level extended, and only for it"),
        ("level: advanced", 'level: expected "core" or "extended", got "advanced"'),
        (
            "since: 1.36",
            'since: expected a version such as "1.36" or "1.36.4", in quotes, got 1.36',
        ),
        ('since: "1.36"\n  until: "1.9"', "until: expected 1.36 or later, got 1.9"),
        ("labels: [Slow]", "labels[0]: expected lower-case words"),
    ],
)
def test_bad_metadata_is_one_line(tmp_path: Path, fields: str, message: str) -> None:
    text = f"area: tiny\ncases:\n- name: c\n  source: s\n  {fields}\n  steps: [{{advance: 1s}}]\n"
    with pytest.raises(InputError) as caught:
        write_cases(tmp_path, textwrap.dedent(text))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "patch"),
    [("1.36", None), ("v1.36", None), ("1.36.3", 3), ("v1.36.0-rc.1", 0), ("1.36.3+abc", 3)],
)
def test_versions_are_parsed_with_their_patch_number(text: str, patch: int | None) -> None:
    assert Version.parse(text) == Version(1, 36, patch)


@pytest.mark.parametrize("text", ["", "1", "latest", "1.x"])
def test_a_bad_version_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"expected a version such as 1\.36"):
        Version.parse(text)


def test_every_built_in_case_has_its_line() -> None:
    cases = load_cases([BUILT_IN])
    assert all(case.line > 1 for case in cases)


def test_core_cases_need_nothing_but_a_scheduler() -> None:
    special = {"config", "extenders", "faults", "gates", "metrics", "restart", "exact-time"}
    core = [case for case in load_cases([BUILT_IN]) if case.level is Level.CORE]
    assert len(core) > 100
    assert [case.id for case in core if case.labels & special] == []
