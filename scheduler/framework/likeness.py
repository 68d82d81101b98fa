"""What makes waiting pods alike in the eyes of queueing hints, in a form to compare by."""

from __future__ import annotations


def same_parts(*parts: object) -> tuple[int, ...]:
    """Equal for the very same objects, and for empty ones.

    Far cheaper than to compare what is in them; and pods of one template share their parts, once
    they have come through an informer. Good for as long as somebody holds on to the parts.
    """
    return tuple(id(part) if part else 0 for part in parts)
