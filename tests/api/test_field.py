"""Errors about fields: the renderings of apimachinery's `field.Error` and `Aggregate`."""

import pytest

from scheduler.api import field
from scheduler.api.field import FieldError, FieldErrors


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (field.required("a.b"), "a.b: Required value"),
        (field.required("a.b", "say it"), "a.b: Required value: say it"),
        (field.invalid("a", "x", "must be y"), 'a: Invalid value: "x": must be y'),
        (field.invalid("a", -1, "too small"), "a: Invalid value: -1: too small"),
        (field.invalid("a", True, "no"), "a: Invalid value: true: no"),
        (field.invalid("a", None, "empty"), "a: Invalid value: null: empty"),
        (field.invalid("a", ("x", "<y>"), "no"), r'a: Invalid value: ["x","\u003cy\u003e"]: no'),
        (field.forbidden("a", "not now"), "a: Forbidden: not now"),
        (field.duplicate("a[1]", "x"), 'a[1]: Duplicate value: "x"'),
        (
            field.not_supported("op", "Foo", ("In", "NotIn")),
            'op: Unsupported value: "Foo": supported values: "In", "NotIn"',
        ),
        (field.not_supported("op", "Foo", ()), 'op: Unsupported value: "Foo"'),
    ],
)
def test_an_error_reads_as_upstreams_does(error: FieldError, text: str) -> None:
    assert str(error) == text
    assert text == f"{error.path}: {error.body}"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain <text> & more", '"plain <text> & more"'),
        ('say "x\\y"', r'"say \"x\\y\""'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
        ("ünïcode", '"ünïcode"'),
        ("\u00a0\u2028", r'"\u00a0\u2028"'),
        ("\U000e0001", r'"\U000e0001"'),
    ],
)
def test_texts_are_quoted_as_go_quotes_them(text: str, quoted: str) -> None:
    assert field.quoted(text) == quoted


def test_a_lone_error_stands_as_it_is() -> None:
    assert field.aggregate([field.required("a")]) == "a: Required value"


def test_several_errors_stand_in_brackets_and_equal_ones_once() -> None:
    errors = [field.required("a"), field.required("b"), field.required("a")]
    assert field.aggregate(errors) == "[a: Required value, b: Required value]"


def test_errors_together_read_as_their_aggregate() -> None:
    errors = [field.required("a"), field.required("b")]
    together = FieldErrors(errors)
    assert str(together) == "[a: Required value, b: Required value]"
    assert together.errors == tuple(errors)
    assert isinstance(together, ValueError)
