"""Formats of strings and numbers."""

import pytest

from fakeapi.crds import formats
from fakeapi.types.quantity import parse_nano


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2020-01-01T00:00:00Z", "2020-01-01 00:00"),
        ("datetime", "2020-01-01t10:00:00.5+01:00", "2020-13-01T00:00:00Z"),
        ("date", "2020-02-29", "2021-02-29"),
        ("duration", "1h30m", "soon"),
        ("ipv4", "1.2.3.4", "::1"),
        ("ipv6", "::1", "1.2.3.4"),
        ("ipv6", "::ffff:1.2.3.4", "fe80::1%eth0"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("cidr", "fd00::1/64", "10.0.0.0/255.0.0.0"),
        ("cidr", "1.2.3.4/032", "fe80::1%eth0/64"),
        ("hostname", "a.example.com", "-a"),
        ("email", "a@b.c", "a"),
        ("byte", "YWJj", "YWJ"),
        ("uuid4", "f47ac10b-58cc-4372-8567-0e02b2c3d479", "f47ac10b-58cc-1372-8567-0e02b2c3d479"),
        ("mac", "aa:bb:cc:dd:ee:ff", "aa:bb"),
        ("mac", "AABB.ccdd.eeff", "aa:bb-cc:dd:ee:ff"),
        ("hostname", "ä-b", "a-b-c"),
        ("duration", "2562047h", "2562048h"),
        ("uri", "http://x/y", "a b"),
        ("k8s-short-name", "a-b", "a.b"),
        ("k8s-long-name", "a.b", "A.b"),
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


@pytest.mark.parametrize("name", ["isbn", "creditcard", "nonsense"])
def test_an_unknown_format_accepts_everything(name: str) -> None:
    assert not formats.is_known(name, "string")
    assert formats.matches(name, "whatever")


@pytest.mark.parametrize("text", ["1", "1h", "9h ", "a.", "ab:", "(", "<", "@", "1µ"])
def test_long_texts_take_linear_time(text: str) -> None:
    """A quadratic check of so many letters takes minutes."""
    value = text * (200_000 // len(text)) + "!"
    for check in formats._STRINGS.values():
        check(value)
    with pytest.raises(ValueError, match="quantit"):
        parse_nano(value)
