"""Selecting cases: patterns, expressions over labels, shards, versions and features."""

from pathlib import Path

import msgspec
import pytest

from conformance.errors import InputError
from conformance.format.case import Case
from conformance.format.selection import (
    Requirements,
    Selection,
    features_in,
    parse_expression,
    parse_shard,
    select,
)
from conformance.format.version import Version

from ..cases import write_cases


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    """The cases queue/flush, queue/flush-often, requeue/flush, preemption/victims."""
    found: list[Case] = []
    for area, names in {
        "queue": ["flush", "flush-often"],
        "requeue": ["flush"],
        "preemption": ["victims"],
    }.items():
        folder = tmp_path / area
        folder.mkdir()
        head = f"area: {area}\n"
        if area == "preemption":
            head += 'defaults: {level: extended, feature: preemption, since: "1.35"}\n'
        text = head + "cases:\n"
        for name in names:
            seconds = 60 if "often" in name else 1
            text += f"- {{name: {name}, source: s, steps: [advance: {seconds}s]}}\n"
        found += write_cases(folder, text)
    return found


def _ids(cases: list[Case]) -> list[str]:
    return [case.id for case in cases]


@pytest.mark.parametrize(
    ("patterns", "ids"),
    [
        (["queue/"], ["queue/flush", "queue/flush-often"]),
        (["queue/flush"], ["queue/flush"]),
        (["QUEUE/Flush"], ["queue/flush"]),
        (["often"], ["queue/flush-often"]),
        (["flush"], ["queue/flush", "queue/flush-often", "requeue/flush"]),
        (["*flush"], ["queue/flush", "requeue/flush"]),
        (["requeue/", "vict"], ["requeue/flush", "preemption/victims"]),
    ],
)
def test_several_patterns_are_a_union_and_words_begin_where_they_begin(
    cases: list[Case], patterns: list[str], ids: list[str]
) -> None:
    assert _ids(select(cases, *patterns)) == ids


@pytest.mark.parametrize("pattern", ["lush", "ueue/", "eue*x"])
def test_a_pattern_without_a_case_is_an_error(cases: list[Case], pattern: str) -> None:
    with pytest.raises(InputError, match="no case matches"):
        select(cases, "queue/", pattern)


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        (Selection(skipped=("flush",)), ["preemption/victims"]),
        (Selection(patterns=("queue/",), skipped=("queue/flush",)), ["queue/flush-often"]),
        (Selection(expression="slow or preemption"), ["queue/flush-often", "preemption/victims"]),
        (Selection(expression="core and not (slow or requeue)"), ["queue/flush"]),
        (Selection(shard=(2, 3)), ["queue/flush-often"]),
        (Selection(shard=(1, 3)), ["queue/flush", "preemption/victims"]),
        (Selection(only=frozenset({"requeue/flush"})), ["requeue/flush"]),
    ],
    ids=str,
)
def test_the_parts_of_a_selection_all_hold(
    cases: list[Case], selection: Selection, ids: list[str]
) -> None:
    assert _ids(selection.of(cases)) == ids


def test_an_empty_selection_is_an_error(cases: list[Case]) -> None:
    with pytest.raises(InputError, match="no case is selected"):
        Selection(patterns=("queue/",), expression="preemption").of(cases)


WORDS = {"a", "b", "c", "slow"}


@pytest.mark.parametrize(
    ("text", "words", "holds"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("not a", "b", True),
        ("not not a", "a", True),
        ("a and b", "a", False),
        ("a or b and c", "a", True),
        ("(a or b) and c", "a", False),
        ("a and not (b or c)", "a", True),
        ("a and not (b or c)", "a c", False),
        ("(a)and(not b)", "a", True),
    ],
)
def test_an_expression_holds_for_the_words_of_a_case(text: str, words: str, holds: bool) -> None:
    assert parse_expression(text, WORDS)({*words.split()}) is holds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a and", "column 6: expected a word, not, or (, got the end"),
        ("a b", "column 3: expected and, or, or the end, got 'b'"),
        ("(a or b", "column 8: expected and, or, or ), got the end"),
        ("a and or b", "column 7: expected a word, not, or (, got 'or'"),
        ("a & b", "column 3: unexpected '&'"),
        ("not slwo", "column 5: no case has the label, level, feature or area 'slwo'; did you"),
    ],
)
def test_a_mistake_in_an_expression_has_its_column(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_expression(text, WORDS)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/0"])
def test_a_shard_is_one_of_them(text: str) -> None:
    assert parse_shard("4/4") == (4, 4)
    with pytest.raises(InputError, match="expected a part such as 1/4"):
        parse_shard(text)


def test_shards_are_all_cases_together(cases: list[Case]) -> None:
    parts = [_ids(Selection(shard=(number, 3)).of(cases)) for number in (1, 2, 3)]
    assert sorted(case_id for part in parts for case_id in part) == sorted(_ids(cases))


@pytest.mark.parametrize(
    ("requirements", "reason"),
    [
        (Requirements(version=Version(1, 36)), None),
        (Requirements(version=Version(1, 34)), "holds since 1.35, the scheduler has 1.34"),
        (Requirements(version=Version(1, 36), features=frozenset({"preemption"})), None),
        (
            Requirements(version=Version(1, 36), features=frozenset()),
            "belongs to the feature preemption, which is not supported",
        ),
    ],
    ids=str,
)
def test_cases_of_other_versions_and_features_are_skipped(
    cases: list[Case], requirements: Requirements, reason: str | None
) -> None:
    assert requirements.why_not(cases[-1]) == reason
    assert requirements.why_not(cases[0]) is None


@pytest.mark.parametrize(
    ("scheduler", "since", "until", "holds"),
    [
        ("1.36.3", "1.36.4", None, False),
        ("1.36.4", "1.36.4", None, True),
        ("1.37.0", "1.36.4", None, True),
        ("1.35.9", "1.36.4", None, False),
        ("1.36.3", None, "1.36.3", True),
        ("1.36.4", None, "1.36.3", False),
        ("1.36.4", None, "1.36", True),
        ("1.36", "1.36.4", None, False),
        ("1.36", None, "1.36.3", True),
    ],
)
def test_a_patch_release_may_begin_or_end_a_behaviour(
    cases: list[Case], scheduler: str, since: str | None, until: str | None, holds: bool
) -> None:
    case = msgspec.structs.replace(
        cases[0],
        since=since and Version.parse(since),
        until=until and Version.parse(until),
    )
    requirements = Requirements(version=Version.parse(scheduler))
    assert (requirements.why_not(case) is None) == holds


def test_a_feature_without_cases_is_an_error(cases: list[Case]) -> None:
    assert features_in(cases, "preemption") == {"preemption"}
    with pytest.raises(InputError, match="no case has 'volumes'; there are preemption"):
        features_in(cases, "preemption, volumes")
