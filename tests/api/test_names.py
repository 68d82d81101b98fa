"""Label keys and values: upstream's complaints, to the byte."""

import pytest

from scheduler.api.names import label_key_errors, label_value_errors

NAME_GRAMMAR = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
PREFIX_GRAMMAR = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
    "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
    "'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
VALUE_GRAMMAR = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    "key",
    [
        "simple", "now-with-dashes", "1-starts-with-num", "1234", "simple/simple",
        "now-with-dashes/simple", "1.2.3.4/5678", "Uppercase_Is_OK_123",
        "example.com/Uppercase_Is_OK_123", "requests.storage-foo", "a" * 63,
        f"{'a' * 253}/{'b' * 63}",
    ],
)  # fmt: skip
def test_good_keys_pass(key: str) -> None:
    assert label_key_errors(key) == ()


@pytest.mark.parametrize(
    ("key", "complaints"),
    [
        ("nospecialchars%^=@", (f"name part {NAME_GRAMMAR}",)),
        ("-starts-with-dash", (f"name part {NAME_GRAMMAR}",)),
        ("ends-with-dot.", (f"name part {NAME_GRAMMAR}",)),
        ("with\nnewline", (f"name part {NAME_GRAMMAR}",)),
        ("ends-with-newline\n", (f"name part {NAME_GRAMMAR}",)),
        ("a" * 64, ("name part must be no more than 63 bytes",)),
        # 40 letters, 80 bytes.
        (
            "é" * 40,
            ("name part must be no more than 63 bytes", f"name part {NAME_GRAMMAR}"),
        ),
        ("", ("name part must be non-empty", f"name part {NAME_GRAMMAR}")),
        ("example.com/", ("name part must be non-empty", f"name part {NAME_GRAMMAR}")),
        ("/name", ("prefix part must be non-empty",)),
        ("Not/Lowercase", (PREFIX_GRAMMAR,)),
        (f"{'a' * 254}/name", ("prefix part must be no more than 253 bytes",)),
        (
            "only/one/slash",
            (
                f"a valid label key {NAME_GRAMMAR} with an optional DNS subdomain prefix and '/' "
                "(e.g. 'example.com/MyName')",
            ),
        ),
    ],
)
def test_bad_keys_are_complained_about(key: str, complaints: tuple[str, ...]) -> None:
    assert label_key_errors(key) == complaints


@pytest.mark.parametrize("value", ["", "simple", "1234", "Upper_Case-ok.1", "a" * 63])
def test_good_values_pass(value: str) -> None:
    assert label_value_errors(value) == ()


@pytest.mark.parametrize(
    ("value", "complaints"),
    [
        ("nospecialchars%^=@", (VALUE_GRAMMAR,)),
        ("Tama-nui-te-rā.is.Māori.sun", (VALUE_GRAMMAR,)),
        ("/starts-with-slash", (VALUE_GRAMMAR,)),
        ("-dash", (VALUE_GRAMMAR,)),
        ("a" * 64, ("must be no more than 63 bytes",)),
        (" " * 64, ("must be no more than 63 bytes", VALUE_GRAMMAR)),
    ],
)
def test_bad_values_are_complained_about(value: str, complaints: tuple[str, ...]) -> None:
    assert label_value_errors(value) == complaints
