"""Validation of label keys and label values.

Each check returns upstream's messages, none for a valid text.
Source: apimachinery `pkg/api/validate/content/kube.go` and `dns.go`.
"""

from __future__ import annotations

import functools
import re

_LABEL_PART = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_PART_SENTENCE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_LABEL_VALUE_SENTENCE = "a valid label must be an empty string or consist" + (
    _LABEL_PART_SENTENCE.removeprefix("must consist")
)
_LABEL_LENGTH_MAX = 63

_SUBDOMAIN_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_SUBDOMAIN_LABEL}(\.{_SUBDOMAIN_LABEL})*"
_SUBDOMAIN_SENTENCE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)
_SUBDOMAIN_LENGTH_MAX = 253


@functools.lru_cache(maxsize=4096)
def label_key_errors(key: str) -> tuple[str, ...]:
    """Check a label key: a name of at most 63 characters after an optional `domain/`."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        grammar = _grammar_error(_LABEL_PART_SENTENCE, _LABEL_PART, "MyName", "my.name", "123-abc")
        return (
            f"a valid label key {grammar} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')",
        )
    errors = [f"prefix part {text}" for text in _prefix_errors(prefix)] if slash else []
    if not name:
        errors.append("name part must be non-empty")
    elif _length(name) > _LABEL_LENGTH_MAX:
        errors.append(f"name part must be no more than {_LABEL_LENGTH_MAX} bytes")
    if not re.fullmatch(_LABEL_PART, name):
        grammar = _grammar_error(_LABEL_PART_SENTENCE, _LABEL_PART, "MyName", "my.name", "123-abc")
        errors.append(f"name part {grammar}")
    return tuple(errors)


@functools.lru_cache(maxsize=4096)
def label_value_errors(value: str) -> tuple[str, ...]:
    """Check a label value: empty, or at most 63 characters of a few kinds."""
    errors = []
    if _length(value) > _LABEL_LENGTH_MAX:
        errors.append(f"must be no more than {_LABEL_LENGTH_MAX} bytes")
    if not re.fullmatch(f"({_LABEL_PART})?", value):
        errors.append(
            _grammar_error(
                _LABEL_VALUE_SENTENCE, f"({_LABEL_PART})?", "MyValue", "my_value", "12345"
            )
        )
    return tuple(errors)


def _prefix_errors(prefix: str) -> list[str]:
    if not prefix:
        return ["must be non-empty"]
    errors = []
    if _length(prefix) > _SUBDOMAIN_LENGTH_MAX:
        errors.append(f"must be no more than {_SUBDOMAIN_LENGTH_MAX} bytes")
    if not re.fullmatch(_SUBDOMAIN, prefix):
        errors.append(_grammar_error(_SUBDOMAIN_SENTENCE, _SUBDOMAIN, "example.com"))
    return errors


def _length(text: str) -> int:
    """Return the length in bytes, as Go does."""
    return len(text.encode())


def _grammar_error(sentence: str, grammar: str, *examples: str) -> str:
    # Upstream's messages have two blanks here.
    shown = ",  or ".join(f"'{example}'" for example in examples)
    return f"{sentence} (e.g. {shown}, regex used for validation is '{grammar}')"
