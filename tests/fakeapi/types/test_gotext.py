"""Values as Go prints them."""

import pytest

from fakeapi.types.gotext import number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"), (0.0, "0"), (-0.5, "-0.5"), (123456.0, "123456"), (1e6, "1e+06"),
        (1234567.0, "1.234567e+06"), (0.0001, "0.0001"), (1e-5, "1e-05"), (1e30, "1e+30"),
    ],
)  # fmt: skip
def test_floats_as_go_prints_them(value: float, text: str) -> None:
    assert number(value) == text
