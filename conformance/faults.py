"""Faults in cases: judged where they are written, aimed at the scheduler and nobody else.

Their format is that of the API server, `fakeapi/faults/schema.json`. A fault that names no client
spares the suite, which must be able to do its part whatever the scheduler suffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fakeapi.faults import Fault, FaultError, faults_of
from fakeapi.faults.files import to_builtins

from .api import USER_AGENT
from .errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .api import Json

__all__ = ["aimed"]


def aimed(faults: Sequence[Json]) -> list[Json]:
    """The faults as they are sent to the API server. Raises InputError for bad ones."""
    try:
        found = faults_of(list(faults)).faults
    except FaultError as error:
        raise InputError(str(error)) from error
    return to_builtins(_sparing_the_suite(fault) for fault in found)


def _sparing_the_suite(fault: Fault) -> Fault:
    match = fault.match
    if fault.is_of_server or match.client or match.except_client:
        return fault
    match = msgspec.structs.replace(match, except_client=USER_AGENT)
    return msgspec.structs.replace(fault, match=match)
