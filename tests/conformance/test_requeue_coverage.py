"""Every event that a plugin of the default profile registers for has a case in `cases/requeue`."""

import pytest

from conformance.format.case import load_cases
from conformance.format.expectation import Expectation

from .registered_events import UNREACHABLE, cases_of, registered_events, without_kind_of_pod


def _asked_of(plugin: str) -> set[str]:
    """The events that a plugin's cases have a pod brought back by."""
    file = cases_of(plugin)
    found: set[str] = set()
    for case in load_cases([file]) if file.exists() else []:
        for step in case.steps:
            if isinstance(step.action, Expectation) and step.action.requeued_by is not None:
                events = step.action.requeued_by
                found |= {events} if isinstance(events, str) else set(events)
    return {without_kind_of_pod(event) for event in found}


@pytest.mark.parametrize(("plugin", "event"), registered_events())
def test_every_registered_event_has_a_case(plugin: str, event: str) -> None:
    assert (event in _asked_of(plugin)) is ((plugin, event) not in UNREACHABLE)
