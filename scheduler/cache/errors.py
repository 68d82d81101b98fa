"""What the cache complains of.

CacheError                  the caller's view and the cache's differ: logged, and survived
    CacheCorruptedError     a bound pod has moved: no decision can be trusted any more
"""

from __future__ import annotations


class CacheError(Exception):
    """A pod or node is not in the state that the call needs; the text is upstream's."""


class CacheCorruptedError(CacheError):
    """A pod has changed its node, which cannot be; upstream's process exits, and so does ours."""
