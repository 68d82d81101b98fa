"""Go's regular expressions and string formats, in Python."""

from __future__ import annotations

import pytest

from fakeapi.crds import formats
from fakeapi.types.go_patterns import PatternError, compiled
from fakeapi.types.gotext import number


@pytest.mark.parametrize(
    ("pattern", "value", "found"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        (r"^a\z", "a", True),
        (r"\d+", "٣", False),
        ("[[:alpha:]]+$", "abc", True),
        ("^[[:digit:][:space:]]+$", "1 2", True),
        (r"^[^\]$]+$", "ab", True),
        ("^[$]$", "$", True),
        (r"^\pL+$", "é", True),
        (r"^\p{L}$", "1", False),
        (r"^\Qa.b\E$", "a.b", True),
        (r"^\x{41}$", "A", True),
        ("(?P<name>x)", "x", True),
        ("(?i)abc", "ABC", True),
        ("^.$", "\n", False),
        ("^[]a]+$", "]a", True),
    ],
)
def test_patterns(pattern: str, value: str, *, found: bool) -> None:
    assert (compiled(pattern).search(value) is not None) is found


@pytest.mark.parametrize("pattern", ["(", "(?=a)", "(?<!a)b", r"(a)\1", "[[:nope:]]", "a**"])
def test_what_is_no_pattern_of_go(pattern: str) -> None:
    with pytest.raises(PatternError, match="error parsing regexp"):
        compiled(pattern)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2020-01-01T00:00:00Z", "2020-01-01 00:00"),
        ("datetime", "2020-01-01t10:00:00.5+01:00", "2020-13-01T00:00:00Z"),
        ("date", "2020-02-29", "2021-02-29"),
        ("duration", "1h30m", "soon"),
        ("ipv4", "1.2.3.4", "::1"),
        ("ipv6", "::1", "1.2.3.4"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("hostname", "a.example.com", "-a"),
        ("email", "a@b.c", "a"),
        ("byte", "YWJj", "YWJ"),
        ("uuid4", "f47ac10b-58cc-4372-8567-0e02b2c3d479", "f47ac10b-58cc-1372-8567-0e02b2c3d479"),
        ("mac", "aa:bb:cc:dd:ee:ff", "aa:bb"),
        ("hexcolor", "#ff00aa", "red"),
        ("isbn", "978-0321751041", "978-0321751042"),
        ("isbn10", "0321751043", "0321751044"),
        ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("ssn", "111-22-3333", "11-22-3333"),
        ("rgbcolor", "rgb(1,2,3)", "rgb(1,2)"),
        ("uri", "http://x/y", "a b"),
        ("k8s-short-name", "a-b", "a.b"),
        ("k8s-long-name", "a.b", "A.b"),
        ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    assert formats.is_known(name, "string")
    assert formats.matches(name, good)
    assert not formats.matches(name, bad)


def test_formats_belong_to_types() -> None:
    assert formats.is_known("int32", "integer")
    assert not formats.is_known("int32", "string")
    assert not formats.is_known("date", "integer")
    assert formats.matches("int32", "whatever")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"), (0.0, "0"), (-0.5, "-0.5"), (123456.0, "123456"), (1e6, "1e+06"),
        (1234567.0, "1.234567e+06"), (0.0001, "0.0001"), (1e-5, "1e-05"), (1e30, "1e+30"),
    ],
)  # fmt: skip
def test_floats_as_go_prints_them(value: float, text: str) -> None:
    assert number(value) == text
