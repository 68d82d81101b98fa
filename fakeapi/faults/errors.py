"""What is wrong with faults that somebody asks for."""

from __future__ import annotations

__all__ = ["FaultError"]


class FaultError(Exception):
    """A fault that makes no sense: one line names the field and what was expected."""
