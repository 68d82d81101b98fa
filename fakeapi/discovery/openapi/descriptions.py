"""What types and fields are for, in a line each, as `kubectl explain` shows it."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Final

import msgspec

_PATH: Final = Path(__file__).with_name("descriptions.json")
#: Fields that mean the same wherever they are; looked up when a type says nothing of its own.
_ANY_TYPE: Final = ""
_ITSELF: Final = ""


@functools.cache
def _texts() -> dict[str, dict[str, str]]:
    return msgspec.json.decode(_PATH.read_bytes(), type=dict[str, dict[str, str]])


def digest() -> str:
    """What tells these texts from any others."""
    return hashlib.sha256(_PATH.read_bytes()).hexdigest()


def described(type_name: str, field: str = _ITSELF) -> str:
    """The description of a field of a type, or of the type itself; empty if there is none."""
    own = _texts().get(type_name, {}).get(field)
    if own is None and field:
        own = _texts()[_ANY_TYPE].get(field)
    return own or ""
