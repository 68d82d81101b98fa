"""Why a Stage is refused."""

from __future__ import annotations

__all__ = ["StageError"]


class StageError(Exception):
    """A Stage says something that is not understood; the message says where."""
