"""Content negotiation: the media type of an answer, and the form of its objects.

Upstream negotiates twice: its router accepts any Accept header that names a media type of the
route; its handlers then take the first clause, in order of preference, that they can serve.

Sources: apiserver pkg/endpoints/handlers/negotiation/negotiate.go and handlers/rest.go of v0.36.3,
munnerz/goautoneg, emicklei/go-restful route.go.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Final

from fakeapi.types.client_text import CACHED_LENGTH_MAX
from fakeapi.types.errors import BadRequest, NotAcceptable
from fakeapi.types.media_types import JSON, PROTOBUF, YAML

if TYPE_CHECKING:
    from fakeapi.decoding.options import Query

_SERVED: Final = (JSON, YAML, PROTOBUF)
_STREAMED: Final = (JSON, PROTOBUF)
_GROUP: Final = "meta.k8s.io"
_VERSIONS: Final = ("v1", "v1beta1")
_PARTIAL: Final = ("PartialObjectMetadata", "PartialObjectMetadataList")
#: Forms that objects can be converted into.
TARGETS: Final = ("Table", *_PARTIAL)
_INCLUDED: Final = ("", "Metadata", "Object", "None")
#: Media ranges of an Accept header that are read.
_RANGES_MAX: Final = 1000
#: User agents of people, who get indented JSON.
_HUMAN_AGENTS: Final = ("curl", "Wget", "Mozilla/5.0")


@dataclasses.dataclass(frozen=True, slots=True)
class Accepted:
    """The form of an answer: its media type, and the type that objects are converted into.

    `target` is empty, Table, PartialObjectMetadata or PartialObjectMetadataList, `version` that of
    the meta API. Clients of protobuf get JSON: they decode by the answer's Content-Type.
    """

    media_type: str = JSON
    target: str = ""
    version: str = "v1"
    pretty: bool = False

    @property
    def is_plain(self) -> bool:
        """True if the body needs no conversion."""
        return not self.target and not self.pretty and self.media_type == JSON


PLAIN: Final = Accepted()


@dataclasses.dataclass(frozen=True, slots=True)
class Clause:
    """One media range of an Accept header with its parameters."""

    type: str
    subtype: str
    quality: float
    parameters: dict[str, str]

    @property
    def media_range(self) -> str:
        return f"{self.type}/{self.subtype}"

    def takes(self, media_type: str) -> bool:
        """Return True if the media range includes the media type."""
        if (self.type, self.subtype) == ("*", "*"):
            return True
        kind, _, subtype = media_type.partition("/")
        return self.type == kind and self.subtype in (subtype, "*")


def negotiate(
    accept: str,
    *,
    custom: bool = False,
    is_list: bool = False,
    targets: tuple[str, ...] = TARGETS,
) -> Accepted:
    """Return the form of an answer for an Accept header. Raises NotAcceptable.

    `custom` resources have no protobuf; the refusal of a list mentions streams. `targets` are the
    forms that the object can be converted into.
    """
    if not accept:
        return PLAIN
    find = _remembered if len(accept) <= CACHED_LENGTH_MAX else _negotiated
    return find(accept, custom=custom, is_list=is_list, targets=targets)


def _negotiated(accept: str, *, custom: bool, is_list: bool, targets: tuple[str, ...]) -> Accepted:
    served = _SERVED[:-1] if custom else _SERVED
    names = [part.partition(";")[0].strip(" ") for part in _parts(accept)]
    if not any(name in (*served, "*/*") for name in names):
        streams = [f"{name};stream=watch" for name in _STREAMED if name in served] * is_list
        raise NotAcceptable(
            f"406: Not Acceptable\n\nAvailable representations: {', '.join((*served, *streams))}",
            details={},
        )
    for clause in clauses(accept):
        for media_type in served:
            if clause.takes(media_type):
                found = _chosen(media_type, clause.parameters)
                if found is not None and found.target in ("", *targets):
                    return found
    raise _only(served)


_remembered: Final = functools.lru_cache(maxsize=512)(_negotiated)


def streamable(accepted: Accepted) -> Accepted:
    """Return the form of a watch, which is never YAML. Raises NotAcceptable."""
    if accepted.media_type == YAML:
        raise _only([f"{name};stream=watch" for name in _STREAMED])
    return accepted


def _only(served: tuple[str, ...] | list[str]) -> NotAcceptable:
    listed = ", ".join(served)
    return NotAcceptable(f"only the following media types are accepted: {listed}")


def clauses(accept: str) -> list[Clause]:
    """Return the clauses of an Accept header by quality, then by specificity, then in order."""
    found = []
    for part in _parts(accept):
        name, *pieces = (piece.strip(" ") for piece in part.split(";"))
        kind, slash, subtype = name.partition("/")
        if not slash and kind == "*":
            subtype = "*"
        if not kind or not subtype or "/" in subtype:
            continue
        pairs = [piece.split("=") for piece in pieces]
        parameters = {pair[0].strip(" "): pair[1] for pair in pairs if len(pair) == 2 and pair[1]}
        quality = _quality(parameters.pop("q", "1"))
        found.append(Clause(kind, subtype, quality, parameters))
    return sorted(found, key=lambda c: (-c.quality, c.type == "*", c.subtype == "*"))


def _parts(accept: str) -> list[str]:
    """Return the texts of the media ranges that are read."""
    return accept.split(",", _RANGES_MAX)[:_RANGES_MAX]


def _quality(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return 0.0


def _chosen(media_type: str, parameters: dict[str, str]) -> Accepted | None:
    """Return the form for a media type with these parameters, or None if it is not served."""
    if parameters.get("stream", "watch") != "watch" or parameters.get("sv", "v1") != "v1":
        return None
    if "stream" in parameters and media_type == YAML:
        return None
    pretty = parameters.get("pretty") == "1"
    written = YAML if media_type == YAML else JSON
    if not {"as", "g", "v"} & parameters.keys():
        return Accepted(written, pretty=pretty)
    target, version = parameters.get("as", ""), parameters.get("v", "")
    if parameters.get("g") != _GROUP or version not in _VERSIONS:
        return None
    if target in _PARTIAL or (target == "Table" and media_type != PROTOBUF):
        return Accepted(written, target, version, pretty)
    return None


def wants_indentation(query: Query, user_agent: str) -> bool:
    """Return True if a person reads the answer: `?pretty=true`, curl, a browser."""
    asked = query.text("pretty")
    if asked:
        return asked.lower() in ("1", "t", "true")
    return user_agent.startswith(_HUMAN_AGENTS)


def included_object(query: Query) -> str:
    """Return the part of an object that a row of a table includes. Raises BadRequest."""
    value = query.text("includeObject")
    if value not in _INCLUDED:
        raise BadRequest(
            "Unable to convert to Table as requested: includeObject: Invalid value: "
            f"\"{value}\": must be 'Metadata', 'Object', 'None', or empty"
        )
    return value or "Metadata"
