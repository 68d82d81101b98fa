"""DefaultBinder against upstream's own cases."""

import pytest

from scheduler.framework import CycleState
from scheduler.plugins.default_binder import DefaultBinder
from scheduler.testing import FakeHandle
from tests.upstream.loading import Case, cases
from tests.upstream.running import incoming


class ServerError(Exception):
    """An error of the API server."""


@pytest.mark.parametrize("case", cases("default_binder", "bind"))
async def test_a_binding_ends_as_upstreams(case: Case) -> None:
    plugin = DefaultBinder()
    plugin.handle = handle = FakeHandle()
    if failure := case.get("failure"):
        handle.api.failure = ServerError(failure)
        with pytest.raises(ServerError, match=failure):
            await plugin.bind(CycleState(), incoming(case), case["node_name"])
    else:
        await plugin.bind(CycleState(), incoming(case), case["node_name"])
    assert handle.api.bound == case["bound"]
