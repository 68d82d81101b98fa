"""An extender over HTTP for tests: the example server of the conformance suite, and its client."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec

from conformance.api import ApiClient
from conformance.clock import RealClock
from conformance.extender import Extender as Example
from conformance.extender import RunningExtender
from scheduler.clock import Clock, SystemClock
from scheduler.config import API_VERSION, KIND, Extender, load_text
from scheduler.extenders import HTTPExtender, HTTPExtenders
from scheduler.plugins import SCHEME


def config_of(fields: dict[str, Any]) -> Extender:
    """Return the configuration of an extender, from the fields of the file."""
    head = {"apiVersion": API_VERSION, "kind": KIND}
    (extender,) = load_text(json.dumps({**head, "extenders": [fields]}), SCHEME).extenders
    return extender


@contextlib.asynccontextmanager
async def running(
    config: dict[str, Any], *, clock: Clock | None = None, **example: Any
) -> AsyncIterator[tuple[HTTPExtender, RunningExtender]]:
    """Run an example server and an extender of the scheduler that calls it.

    `example` are `answers` and `tls`, as in a conformance case.
    """
    described = msgspec.convert({"name": "example", "config": config, **example}, Example)
    # Without bindings and victims by name the example needs no API server.
    api = cast("ApiClient", None)
    async with (
        RunningExtender(described, api=api, clock=RealClock()) as server,
        HTTPExtenders(
            [config_of({"httpTimeout": "5s", **server.config})],
            clock=clock or SystemClock(),
            environ={},
        ) as extenders,
    ):
        yield extenders.in_order[0], server
