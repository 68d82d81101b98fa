"""The share of upstream's cases that run here never shrinks; each one exists in upstream."""

import pytest

from scheduler.config.known_features import features_of
from tests.upstream.loading import load_all, version_of
from tests.upstream.shares import Share, expand, reasons, shares, table

PATH = "pkg/x_test.go"
ALL = frozenset({"TestA[0]", "TestA[1]", "TestB"})


def test_the_data_agrees_with_upstream(capsys: pytest.CaptureFixture[str]) -> None:
    """`pytest -s` shows the table."""
    found = shares()
    print(table(found))
    assert [fault for share in found for fault in share.faults(reasons())] == []


def test_no_description_is_there_twice_in_a_file() -> None:
    for path, cases in load_all().items():
        descriptions = [case.description for case in cases]
        assert len(descriptions) == len(set(descriptions)), path.name


def test_the_gates_of_a_case_can_be_set() -> None:
    """By a scheduler of the version of the case that emulates some version."""
    for case in (case for cases in load_all().values() for case in cases):
        version = version_of(case)
        known = [features_of(version, version - before, version - before) for before in range(4)]
        for gate, is_on in case.get("gates", {}).items():
            specs = [features[gate] for features in known if gate in features]
            settable = [spec for spec in specs if not spec.locked or spec.default == is_on]
            assert settable, f"{case.source}: {gate}={is_on} cannot be set"


@pytest.mark.parametrize(
    ("ported", "left_out", "floor", "fault"),
    [
        (["TestB", "TestB"], {}, 0, "TestB is there 2 times"),
        (["TestC"], {}, 0, "TestC is no case of upstream's"),
        (["TestA"], {}, 0, "TestA is no case of upstream's"),
        (["TestA[2]"], {}, 0, "TestA[2] is no case of upstream's"),
        (["TestB"], {"why": ("TestB",)}, 0, "TestB is both here and left out"),
        ([], {"why": ("TestD",)}, 0, "TestD is left out, but no case"),
        ([], {"whim": ("TestB",)}, 0, "whim is no reason"),
        (["TestB"], {}, 2, "1 cases are ported, fewer than the 2 before"),
    ],
)
def test_a_fault_is_found(
    ported: list[str], left_out: dict[str, tuple[str, ...]], floor: int, fault: str
) -> None:
    share = Share(PATH, ALL, tuple(ported), left_out, floor)
    assert share.faults(["why"]) == [f"{PATH}: {fault}"]


def test_a_case_that_is_neither_ported_nor_left_out_is_missing() -> None:
    share = Share(PATH, ALL, ("TestB",), {"why": ("TestA[0]",)}, 1)
    assert share.faults(["why"]) == []
    assert share.missing == {"TestA[1]"}


def test_a_range_stands_for_its_cases() -> None:
    assert expand("TestA[1-3]") == ["TestA[1]", "TestA[2]", "TestA[3]"]
    assert expand("TestA[1]") == ["TestA[1]"]
