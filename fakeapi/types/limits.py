"""The limits of one server: what one request, one object and one connection may cost it."""

from __future__ import annotations

import dataclasses
from typing import Final

from fakeapi.types.option import option

#: Python's stack holds no more levels; upstream's limit is 10,000.
_DEPTH_MAX: Final = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits, named like flags of kube-apiserver, etcd or net/http where these have one."""

    max_values: int = option(
        50_000,
        "Values in the body of a request, or in a patched object. An object or list counts as "
        "five, in YAML a key counts too, a JSON patch may have twice as many; files of --load have "
        "no limit.",
        minimum=1,
    )
    max_depth: int = option(
        _DEPTH_MAX,
        f"Levels of objects and lists in the body of a request; {_DEPTH_MAX} is the most.",
        minimum=1,
        maximum=_DEPTH_MAX,
    )
    max_path_length: int = option(
        4096,
        "Characters of the keys above an object or list, in sum: errors about its fields show "
        "them.",
        minimum=1,
    )
    max_query_values: int = option(
        10_000,
        "Parameters of a query, and the parts between commas of its selectors, in sum.",
        minimum=1,
    )
    max_errors_length: int = option(
        256 * 1024, "Characters of the errors that one answer shows.", minimum=1
    )
    max_permissions: int = option(
        10_000,
        "Permissions of a role that are compared one by one with those of the user who grants it.",
        minimum=1,
    )
    max_object_bytes: int = option(
        1536 * 1024,
        "Size of the largest object that is stored, as JSON; 0 for no limit. Compare etcd's "
        "--max-request-bytes.",
        minimum=0,
    )
    json_patch_max_copy_bytes: int = option(
        3 * 1024 * 1024,
        "Bytes that the operations of a JSON patch may copy in all; 0 for no limit.",
        minimum=0,
    )
    json_patch_max_operations: int = option(10_000, "Operations of a JSON patch.", minimum=1)
    #: About what upstream's cost limit allows one rule.
    cel_seconds: float = option(
        0.1,
        "Processor time for the rules in CEL of one object, and for the patterns, alternatives and "
        "defaults of its schema; the next rule is an error.",
        metavar="SECONDS",
        above=0,
    )
    max_connections: int = option(
        0, "Close new connections beyond this number; 0 for no limit.", minimum=0
    )
    max_header_bytes: int = option(1024 * 1024, "Size of the head of a request.", minimum=1)
    max_headers: int = option(1000, "Headers of a request.", minimum=1)
    read_header_timeout_seconds: float = option(
        32.0,
        "Disconnect clients that need longer for the head of a request.",
        flag="--read-header-timeout",
        metavar="SECONDS",
        above=0,
    )
    request_timeout_seconds: float = option(
        60.0,
        "Answer 504 to a request whose body takes longer.",
        flag="--request-timeout",
        metavar="SECONDS",
        above=0,
    )
    write_timeout_seconds: float = option(
        60.0,
        "Disconnect clients that do not read their response or watch for this long.",
        flag="--write-timeout",
        metavar="SECONDS",
        above=0,
    )


DEFAULT: Final = Limits()
