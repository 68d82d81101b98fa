"""Errors of the options: what cannot be set up is said before the server listens."""

from __future__ import annotations

__all__ = ["SecurityError"]


class SecurityError(Exception):
    """Options that make no sense together, or a file that is not what it should be; one line."""
