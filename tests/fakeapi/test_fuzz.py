"""A slice of the fuzz program; all of it is `python -m tests.fuzz.api_server`."""

from __future__ import annotations

import pytest

from tests.fuzz.api_server import fuzz, running_server


@pytest.mark.slow
def test_whatever_it_is_asked_it_bears() -> None:
    with running_server() as server:
        findings = fuzz(server, requests=400, seed=7)
    assert findings.problems == []
    assert findings.requests == 400
