"""Errors about one field of an object, in the words of the Kubernetes API.

A `FieldError` renders as `path: Kind of error: bad value: detail`, which is what kubectl users and
scripts already read. Source: apimachinery `pkg/util/validation/field/errors.go`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "FieldError",
    "aggregate",
    "duplicate",
    "forbidden",
    "invalid",
    "not_supported",
    "required",
]


class FieldError(ValueError):
    """One field is wrong: `path` says which, the text says how."""

    def __init__(self, path: str, body: str) -> None:
        super().__init__(f"{path}: {body}")
        self.path = path
        self.body = body


def required(path: str, detail: str = "") -> FieldError:
    """A value is missing."""
    return FieldError(path, _with_detail("Required value", detail))


def invalid(path: str, bad_value: object, detail: str) -> FieldError:
    """A value is malformed or out of its range."""
    return FieldError(path, _with_detail(f"Invalid value: {_render(bad_value)}", detail))


def forbidden(path: str, detail: str) -> FieldError:
    """A value is well formed but not allowed here."""
    return FieldError(path, _with_detail("Forbidden", detail))


def duplicate(path: str, bad_value: object) -> FieldError:
    """A value that must be unique is not."""
    return FieldError(path, f"Duplicate value: {_render(bad_value)}")


def not_supported(path: str, bad_value: object, supported: Sequence[str]) -> FieldError:
    """A value is not one of the few there are."""
    choices = ", ".join(_quote(choice) for choice in supported)
    detail = f"supported values: {choices}" if supported else ""
    return FieldError(path, _with_detail(f"Unsupported value: {_render(bad_value)}", detail))


def aggregate(errors: Iterable[Exception]) -> str:
    """Several errors as one text: alone as it is, else in brackets, equal ones once."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _with_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _render(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return msgspec.json.encode(value).decode()
