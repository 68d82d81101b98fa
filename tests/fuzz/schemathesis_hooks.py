"""Hooks for schemathesis, to test an API server; it is no requirement of this project.

    kubesched-fakeapi --port 8001 &
    SCHEMATHESIS_HOOKS=tests.fuzz.schemathesis_hooks schemathesis run \\
        http://127.0.0.1:8001/openapi/v3/api/v1 --url http://127.0.0.1:8001 \\
        --checks only_upstreams_failures,response_schema_conformance,content_type_conformance

Watches are left out, as they do not end; and upstream's own answers 500 are no failures.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from .failures import shape_of, status_in

_schemathesis: Final = importlib.import_module("schemathesis")


@_schemathesis.check  # type: ignore[untyped-decorator]
def only_upstreams_failures(_context: Any, response: Any, _case: Any) -> None:
    """No answer 5xx but those that the real server is on record to give."""
    if response.status_code >= 500 and response.status_code != 504:
        assert shape_of(status_in(response.content)), response.text


@_schemathesis.hook  # type: ignore[untyped-decorator]
def filter_query(_context: Any, query: dict[str, Any] | None) -> bool:
    """Return True if a request with these parameters ends."""
    return not query or "watch" not in query
