"""Content negotiation: the form of an answer that a client accepts.

    choice = negotiated(header, ("application/json", "text/plain"), allows=...)

Source: `github.com/munnerz/goautoneg`, apiserver `endpoints/handlers/negotiation/negotiate.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class WantedKind(NamedTuple):
    """The kind to which an object is to be converted: `as`, `g` and `v` of a media type."""

    group: str
    version: str
    kind: str


class Clause(NamedTuple):
    """A media type that a client accepts. `type`, `subtype` or both may be `*`."""

    type: str
    subtype: str
    quality: float
    parameters: Mapping[str, str]

    def matches(self, media_type: str) -> bool:
        """Return True if this is the media type, or a wildcard for it."""
        kind, subtype = media_type.split("/")
        return (self.type, self.subtype) in {(kind, subtype), (kind, "*"), ("*", "*")}

    def comes_before(self, other: Clause) -> bool:
        """Compare as upstream, where a wildcard also comes after a media type of lower quality."""
        return (
            self.quality > other.quality
            or (self.type != "*" and other.type == "*")
            or (self.subtype != "*" and other.subtype == "*")
        )


class Choice(NamedTuple):
    """The chosen media type, with the kind if the client wants one."""

    media_type: str
    kind: WantedKind | None
    is_pretty: bool


def negotiated(
    header: str, media_types: Sequence[str], *, allows: Callable[[str, WantedKind | None], bool]
) -> Choice | None:
    """Return the media type for this Accept header; None if no one is accepted and allowed."""
    for clause in clauses(header):
        parameters = clause.parameters
        if "sv" in parameters or "stream" in parameters:
            continue
        wanted = WantedKind(*(parameters.get(name, "") for name in ("g", "v", "as")))
        kind = wanted if any(wanted) else None
        for media_type in media_types:
            if clause.matches(media_type) and allows(media_type, kind):
                return Choice(media_type, kind, parameters.get("pretty") == "1")
    return None


def clauses(header: str) -> list[Clause]:
    """Return the media types of an Accept header, the preferred first."""
    ordered: list[Clause] = []
    for text in header.split(","):
        clause = _parsed(text)
        if clause is not None:
            # An insertion sort, as the order of three may be contradictory.
            position = len(ordered)
            while position and clause.comes_before(ordered[position - 1]):
                position -= 1
            ordered.insert(position, clause)
    return ordered


def _parsed(text: str) -> Clause | None:
    media_type, *rest = text.split(";")
    kind, _, subtype = (part.strip(" ") for part in media_type.partition("/"))
    if kind == "*" and not subtype:
        subtype = "*"
    if not subtype or "/" in subtype:
        return None
    pairs = (part.partition("=") for part in rest)
    parameters = {
        name.strip(" "): value.strip(" ") for name, _, value in pairs if value and "=" not in value
    }
    try:
        quality = float(parameters.pop("q", "1"))
    except ValueError:
        quality = 0.0
    return Clause(kind, subtype, quality, parameters)
