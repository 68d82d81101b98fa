"""The grammars of names, label keys and label values, with upstream's words for what breaks them.

Each function answers the list of complaints, empty if the value is fine.
Source: k8s.io/apimachinery pkg/api/validate/content and pkg/util/validation of v0.36.3.
"""

from __future__ import annotations

import functools
import re
from typing import Final

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_PORT_NAME: Final = re.compile(r"[-a-z0-9]+").fullmatch
_ENVIRONMENT: Final = re.compile(r"[ -<>-~]+").fullmatch
_LETTER: Final = re.compile(r"[a-z]").search

_match_label = re.compile(_LABEL).fullmatch
_match_subdomain = re.compile(_SUBDOMAIN).fullmatch
_match_label_1035 = re.compile(_LABEL_1035).fullmatch
_match_key = re.compile(_KEY).fullmatch
_match_value = re.compile(_VALUE).fullmatch

_KEY_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)
_LABEL_1035_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character"
)


def _regex_complaint(rule: str, pattern: str, *examples: str) -> str:
    # Upstream puts a comma and a space before every "or", hence the two blanks.
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def _length_complaint(limit: int) -> str:
    return f"must be no more than {limit} bytes"


@functools.lru_cache(maxsize=4096)
def dns_label(value: str) -> tuple[str, ...]:
    """RFC 1123 label: namespaces, containers, volumes."""
    complaints = [_length_complaint(63)] if len(value) > 63 else []
    if not _match_label(value):
        if _match_subdomain(value):
            complaints.append("must not contain dots")
        else:
            complaints.append(_regex_complaint(_LABEL_RULE, _LABEL, "my-name", "123-abc"))
    return tuple(complaints)


def dns_subdomain(value: str) -> tuple[str, ...]:
    """RFC 1123 subdomain: the names of most objects, which are told apart by them."""
    if len(value) <= 253 and _match_subdomain(value):
        return ()
    complaints = [_length_complaint(253)] if len(value) > 253 else []
    if not _match_subdomain(value):
        complaints.append(_regex_complaint(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return tuple(complaints)


def dns_1035_label(value: str) -> tuple[str, ...]:
    """RFC 1035 label: services before RelaxedServiceNameValidation."""
    complaints = [_length_complaint(63)] if len(value) > 63 else []
    if not _match_label_1035(value):
        complaints.append(_regex_complaint(_LABEL_1035_RULE, _LABEL_1035, "my-name", "abc-123"))
    return tuple(complaints)


@functools.lru_cache(maxsize=8192)
def qualified_name(value: str) -> tuple[str, ...]:
    """A label key, taint key or resource name: an optional DNS prefix, a slash, a name."""
    parts = value.split("/")
    complaints: list[str] = []
    if len(parts) > 2:
        rule = _regex_complaint(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")
        tail = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {rule} {tail}",)
    if len(parts) == 2:
        if not parts[0]:
            complaints.append("prefix part must be non-empty")
        complaints += [
            f"prefix part {text}" for text in (dns_subdomain(parts[0]) if parts[0] else ())
        ]
    name = parts[-1]
    if not name:
        complaints.append("name part must be non-empty")
    elif len(name) > 63:
        complaints.append(f"name part {_length_complaint(63)}")
    if not _match_key(name):
        rule = _regex_complaint(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")
        complaints.append(f"name part {rule}")
    return tuple(complaints)


@functools.lru_cache(maxsize=8192)
def label_value(value: str) -> tuple[str, ...]:
    """The value of a label."""
    complaints = [_length_complaint(63)] if len(value) > 63 else []
    if not _match_value(value):
        complaints.append(_regex_complaint(_VALUE_RULE, _VALUE, "MyValue", "my_value", "12345"))
    return tuple(complaints)


def path_segment(value: str) -> tuple[str, ...]:
    """A name that is only held to fit into a URL."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{mark}'" for mark in "/%" if mark in value)


def port_name(value: str) -> tuple[str, ...]:
    """The name of a container port (IANA service name)."""
    complaints = []
    if len(value) > 15:
        complaints.append("must be no more than 15 characters")
    if not _PORT_NAME(value):
        complaints.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _LETTER(value):
        complaints.append("must contain at least one letter (a-z)")
    if "--" in value:
        complaints.append("must not contain consecutive hyphens")
    if value[:1] == "-" or value[-1:] == "-":
        complaints.append("must not begin or end with a hyphen")
    return tuple(complaints)


def environment_name(value: str) -> tuple[str, ...]:
    """The name of an environment variable, in the relaxed form that is on by default."""
    if value and _ENVIRONMENT(value):
        return ()
    return (
        "a valid environment variable name must consist only of printable ASCII characters other "
        "than '='",
    )
