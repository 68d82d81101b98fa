"""Texts as JSON and the log can hold them."""

from __future__ import annotations


def well_formed(text: str) -> str:
    """Return a text that UTF-8 can encode: half a surrogate pair becomes U+FFFD, as in Go.

    Such halves come from `json.loads` of what users wrote, and from `os.fsdecode`.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
