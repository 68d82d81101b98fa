"""Formats of strings and numbers."""

from __future__ import annotations

import pytest

from fakeapi.crds import formats


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
def test_a_format_accepts_and_refuses_what_go_does(name: str, good: str, bad: str) -> None:
    assert formats.is_known(name, "string")
    assert formats.matches(name, good)
    assert not formats.matches(name, bad)


def test_formats_belong_to_types() -> None:
    assert formats.is_known("int32", "integer")
    assert not formats.is_known("int32", "string")
    assert not formats.is_known("date", "integer")
    assert formats.matches("int32", "whatever")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90m", 5400), ("3 weeks", 1814400), ("2 days 1 hour", 176400), ("5 MILLIS", 0.005)],
)
def test_durations_may_be_written_with_units(text: str, seconds: float) -> None:
    assert formats.duration_seconds(text) == seconds
