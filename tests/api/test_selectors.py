"""Label selectors: upstream's `TestRequirementConstructor`, `TestSetMatches` and the like."""

import pytest

from scheduler.api.core import LabelSelector, LabelSelectorRequirement
from scheduler.api.field import FieldErrors
from scheduler.api.selectors import (
    EVERYTHING,
    NOTHING,
    Requirement,
    SelectorError,
    parse_int64,
    parse_label_selector,
    selector_from_set,
)


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_an_equal_number_is_neither_greater_nor_less(operator: str) -> None:
    assert not Requirement("gen", operator, ("5",)).accepts("5")


def test_an_unparsed_requirement_with_nonsense_accepts_nothing() -> None:
    assert not Requirement("key", "Gt", ("many",)).accepts("6")
    assert not Requirement("key", "Gt", ()).accepts("6")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-12", -12),
        ("+3", 3),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("", None),
        (" 1", None),
        ("1_0", None),
        ("1.0", None),
        ("٣", None),
    ],
)
def test_integers_are_plain_decimals_of_64_bits(text: str, number: int | None) -> None:
    assert parse_int64(text) == number


EMPTY_SET = "for 'in', 'notin' operators, values set can't be empty"
NO_VALUES = "values set must be empty for exists and does not exist"
ONE_VALUE = "for 'Gt', 'Lt' operators, exactly one value is required"
INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"


@pytest.mark.parametrize(
    ("operator", "values", "text"),
    [
        ("In", (), f"values: Invalid value: null: {EMPTY_SET}"),
        ("NotIn", (), f"values: Invalid value: null: {EMPTY_SET}"),
        ("Exists", ("a",), f'values: Invalid value: ["a"]: {NO_VALUES}'),
        ("DoesNotExist", ("a",), f'values: Invalid value: ["a"]: {NO_VALUES}'),
        ("Gt", ("1", "2"), f'values: Invalid value: ["1","2"]: {ONE_VALUE}'),
        ("Lt", (), f"values: Invalid value: null: {ONE_VALUE}"),
        ("Gt", ("2.0",), f'values[0]: Invalid value: "2.0": {INTEGER}'),
        (
            "Lt",
            ("x", "1"),
            f'[values: Invalid value: ["x","1"]: {ONE_VALUE}, '
            f'values[0]: Invalid value: "x": {INTEGER}]',
        ),
    ],
)
def test_a_malformed_requirement_is_refused(
    operator: str, values: tuple[str, ...], text: str
) -> None:
    with pytest.raises(FieldErrors) as refusal:
        Requirement.parse("key", operator, values)
    assert str(refusal.value) == text


@pytest.mark.parametrize("value", ["-5", "+5", "no good"])
def test_an_invalid_label_value_is_refused(value: str) -> None:
    with pytest.raises(FieldErrors) as refusal:
        Requirement.parse("key", "Gt" if value != "no good" else "In", (value,))
    assert refusal.value.errors[-1].path == "values[0][key]"


def test_the_errors_of_a_requirement_name_their_fields() -> None:
    with pytest.raises(FieldErrors) as refusal:
        Requirement.parse("-key", "In", ("v" * 64,), path="terms[0]")
    assert [error.path for error in refusal.value.errors] == [
        "terms[0].key",
        "terms[0].values[0][-key]",
    ]


def test_only_a_selector_without_requirements_that_is_not_nothing_is_empty() -> None:
    assert EVERYTHING.is_empty
    assert not NOTHING.is_empty
    assert not selector_from_set({"x": "y"}).is_empty


def test_an_absent_label_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert parse_label_selector(None) is NOTHING
    assert parse_label_selector(LabelSelector()) is EVERYTHING


def test_a_label_selector_joins_labels_and_expressions() -> None:
    selector = parse_label_selector(
        LabelSelector(
            match_labels={"app": "web"},
            match_expressions=(LabelSelectorRequirement("tier", "NotIn", ("test",)),),
        )
    )
    assert selector.matches({"app": "web"})
    assert selector.matches({"app": "web", "tier": "front"})
    assert not selector.matches({"app": "web", "tier": "test"})
    assert not selector.matches({"tier": "front"})


@pytest.mark.parametrize("operator", ["Gt", "Lt", "", 'no "such"'])
def test_a_label_selector_knows_four_operators(operator: str) -> None:
    malformed = LabelSelector(match_expressions=(LabelSelectorRequirement("k", operator, ("1",)),))
    with pytest.raises(SelectorError) as refusal:
        parse_label_selector(malformed)
    quoted = operator.replace('"', '\\"')
    assert str(refusal.value) == f'"{quoted}" is not a valid label selector operator'


def test_the_labels_of_a_label_selector_are_checked() -> None:
    with pytest.raises(
        FieldErrors, match=r'^values\[0\]\[app\]: Invalid value: "no good": a valid'
    ):
        parse_label_selector(LabelSelector(match_labels={"app": "no good"}))


def test_selectors_have_a_repr() -> None:
    assert repr(NOTHING) == "Selector(nothing)"
    assert repr(selector_from_set({"x": "y"})) == "Selector((Requirement('x', 'In', ('y',)),))"
