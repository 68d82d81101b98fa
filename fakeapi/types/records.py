"""Base classes of values that are made for each request.

A Struct is made in a third of the time of a frozen dataclass.
"""

from __future__ import annotations

import msgspec


class Record(msgspec.Struct, frozen=True):
    """An immutable struct. It is never decoded, so its annotations need no import at run time."""


class MutableRecord(msgspec.Struct):
    """A struct that is filled step by step. It is never decoded."""
