"""Faults in cases: validated when the case is read, and aimed at the scheduler only.

The format is that of the API server, `fakeapi/faults/schema.json`. A fault without a client does
not affect the suite's own requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fakeapi.faults import Fault, FaultError, faults_of

from ..api import USER_AGENT
from ..errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..api import Json


def aimed(faults: Sequence[Json]) -> list[Json]:
    """Return the faults in the form sent to the API server. Raises InputError."""
    try:
        parsed = faults_of(list(faults)).faults
    except FaultError as error:
        raise InputError(str(error)) from error
    return [msgspec.to_builtins(_sparing_the_suite(fault)) for fault in parsed]


def _sparing_the_suite(fault: Fault) -> Fault:
    match = fault.match
    if fault.is_of_server or match.client or match.except_client:
        return fault
    match = msgspec.structs.replace(match, except_client=USER_AGENT)
    return msgspec.structs.replace(fault, match=match)
