"""The grammars of names, label keys and label values.

Each function returns upstream's error texts, none for a valid value.
Source: k8s.io/apimachinery pkg/api/validate/content and pkg/util/validation of v0.36.3.
"""

from __future__ import annotations

import re
from typing import Final

from fakeapi.types.client_text import cached

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_PORT_NAME: Final = re.compile(r"[-a-z0-9]+").fullmatch
_ENVIRONMENT: Final = re.compile(r"[ -<>-~]+").fullmatch
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_LETTER: Final = re.compile(r"[a-z]").search

_match_label = re.compile(_LABEL).fullmatch
_match_subdomain = re.compile(_SUBDOMAIN).fullmatch
_match_label_1035 = re.compile(_LABEL_1035).fullmatch
_match_key = re.compile(_KEY).fullmatch
_match_config_key = re.compile(_CONFIG_KEY).fullmatch
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
_CONFIG_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character"
)


def _pattern_error(rule: str, pattern: str, *examples: str) -> str:
    # Upstream puts a comma and a blank after each example, hence two blanks before "or".
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def _length_error(limit: int) -> str:
    return f"must be no more than {limit} bytes"


@cached(4096)
def dns_label(value: str) -> tuple[str, ...]:
    """Check an RFC 1123 label: the name of a namespace, container or volume."""
    errors = [_length_error(63)] if len(value) > 63 else []
    if not _match_label(value):
        if _match_subdomain(value):
            errors.append("must not contain dots")
        else:
            errors.append(_pattern_error(_LABEL_RULE, _LABEL, "my-name", "123-abc"))
    return tuple(errors)


def dns_subdomain(value: str) -> tuple[str, ...]:
    """Check an RFC 1123 subdomain: the name of most objects."""
    if len(value) <= 253 and _match_subdomain(value):
        return ()
    errors = [_length_error(253)] if len(value) > 253 else []
    if not _match_subdomain(value):
        errors.append(_pattern_error(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return tuple(errors)


def dns_1035_label(value: str) -> tuple[str, ...]:
    """Check an RFC 1035 label: the name of a service before RelaxedServiceNameValidation."""
    errors = [_length_error(63)] if len(value) > 63 else []
    if not _match_label_1035(value):
        errors.append(_pattern_error(_LABEL_1035_RULE, _LABEL_1035, "my-name", "abc-123"))
    return tuple(errors)


@cached(8192)
def qualified_name(value: str) -> tuple[str, ...]:
    """Check a label key, taint key or resource name: an optional DNS prefix, a slash, a name."""
    parts = value.split("/")
    errors: list[str] = []
    if len(parts) > 2:
        rule = _pattern_error(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")
        tail = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {rule} {tail}",)
    if len(parts) == 2:
        if not parts[0]:
            errors.append("prefix part must be non-empty")
        errors += [f"prefix part {text}" for text in (dns_subdomain(parts[0]) if parts[0] else ())]
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > 63:
        errors.append(f"name part {_length_error(63)}")
    if not _match_key(name):
        rule = _pattern_error(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")
        errors.append(f"name part {rule}")
    return tuple(errors)


@cached(8192)
def label_value(value: str) -> tuple[str, ...]:
    """Check the value of a label."""
    errors = [_length_error(63)] if len(value) > 63 else []
    if not _match_value(value):
        errors.append(_pattern_error(_VALUE_RULE, _VALUE, "MyValue", "my_value", "12345"))
    return tuple(errors)


def path_segment(value: str) -> tuple[str, ...]:
    """Check a name that must only fit into a URL."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{mark}'" for mark in "/%" if mark in value)


def port_name(value: str) -> tuple[str, ...]:
    """Check the name of a container port (IANA service name)."""
    errors = []
    if len(value) > 15:
        errors.append("must be no more than 15 characters")
    if not _PORT_NAME(value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _LETTER(value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value[:1] == "-" or value[-1:] == "-":
        errors.append("must not begin or end with a hyphen")
    return tuple(errors)


def config_map_key(value: str) -> tuple[str, ...]:
    """Check the key of a value in a ConfigMap, or the name of a LeaseCandidate."""
    errors = ["must be no more than 253 characters"] if len(value) > 253 else []
    if not _match_config_key(value):
        examples = ("key.name", "KEY_NAME", "key-name")
        errors.append(_pattern_error(_CONFIG_KEY_RULE, _CONFIG_KEY, *examples))
    elif value in (".", "..") or value.startswith(".."):
        what = f"must not be '{value}'" if value in (".", "..") else "must not start with '..'"
        errors.append(what)
    return tuple(errors)


def environment_name(value: str) -> tuple[str, ...]:
    """Check the name of an environment variable, in the relaxed form, upstream's default."""
    if value and _ENVIRONMENT(value):
        return ()
    return (
        "a valid environment variable name must consist only of printable ASCII characters other "
        "than '='",
    )
