"""Which texts may be label keys and label values.

Each check returns upstream's complaints, none for a good text.
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
def label_key_complaints(key: str) -> tuple[str, ...]:
    """What is wrong with a label key: a name of 63 characters, after an optional `domain/`."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        grammar = _grammar_complaint(
            _LABEL_PART_SENTENCE, _LABEL_PART, "MyName", "my.name", "123-abc"
        )
        return (
            f"a valid label key {grammar} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')",
        )
    complaints = [f"prefix part {text}" for text in _prefix_complaints(prefix)] if slash else []
    if not name:
        complaints.append("name part must be non-empty")
    elif _length(name) > _LABEL_LENGTH_MAX:
        complaints.append(f"name part must be no more than {_LABEL_LENGTH_MAX} bytes")
    if not re.fullmatch(_LABEL_PART, name):
        grammar = _grammar_complaint(
            _LABEL_PART_SENTENCE, _LABEL_PART, "MyName", "my.name", "123-abc"
        )
        complaints.append(f"name part {grammar}")
    return tuple(complaints)


@functools.lru_cache(maxsize=4096)
def label_value_complaints(value: str) -> tuple[str, ...]:
    """What is wrong with a label value: nothing, or up to 63 characters of a few kinds."""
    complaints = []
    if _length(value) > _LABEL_LENGTH_MAX:
        complaints.append(f"must be no more than {_LABEL_LENGTH_MAX} bytes")
    if not re.fullmatch(f"({_LABEL_PART})?", value):
        complaints.append(
            _grammar_complaint(
                _LABEL_VALUE_SENTENCE, f"({_LABEL_PART})?", "MyValue", "my_value", "12345"
            )
        )
    return tuple(complaints)


def _prefix_complaints(prefix: str) -> list[str]:
    if not prefix:
        return ["must be non-empty"]
    complaints = []
    if _length(prefix) > _SUBDOMAIN_LENGTH_MAX:
        complaints.append(f"must be no more than {_SUBDOMAIN_LENGTH_MAX} bytes")
    if not re.fullmatch(_SUBDOMAIN, prefix):
        complaints.append(_grammar_complaint(_SUBDOMAIN_SENTENCE, _SUBDOMAIN, "example.com"))
    return complaints


def _length(text: str) -> int:
    """In bytes, as Go counts."""
    return len(text.encode())


def _grammar_complaint(sentence: str, grammar: str, *examples: str) -> str:
    # Two blanks: so it reads in every message of upstream's.
    shown = ",  or ".join(f"'{example}'" for example in examples)
    return f"{sentence} (e.g. {shown}, regex used for validation is '{grammar}')"
