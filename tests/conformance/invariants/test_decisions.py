"""Preemptions and events of a history that no scheduler of the suite makes."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from conformance.api import Json
from conformance.invariants import INVARIANTS
from conformance.invariants.history import History, Preemption
from conformance.invariants.state import State
from conformance.run.observation import PodRecord

_NODE: Json = {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": 2, "pods": 110}}}
_BUDGET: Json = {
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}},
    "status": {"disruptionsAllowed": 0},
}


def _pod(
    name: str, *, node: str = "", cpu: int = 1, priority: int = 0, phase: str = "", app: str = ""
) -> Json:
    containers = [{"resources": {"requests": {"cpu": cpu}}}]
    labels = {"app": app}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels},
        "spec": {"nodeName": node, "priority": priority, "containers": containers},
        "status": {"phase": phase},
    }


def _texts(name: str, history: object) -> list[str]:
    check = INVARIANTS[name].check
    assert check is not None
    return [each.text for each in check(cast("History", history))]


def _preempted(
    victim: Json, preemptor: Json | None, *others: Json, budget: Json = _BUDGET
) -> SimpleNamespace:
    """A history in which a pod of node `a` is preempted."""
    pods = [victim, *others, *([preemptor] if preemptor else [])]
    state = State(
        nodes={"a": _NODE},
        pods={str(pod["metadata"]["uid"]): pod for pod in pods},  # type: ignore[index]
        others={("PodDisruptionBudget", "default", "b"): budget},
    )
    event = Preemption(
        preemptor=preemptor, victims=[victim], node_name="a", moments=[state], step="steps[0]"
    )
    return SimpleNamespace(preemptions=[event])


_LOW = _pod("low", node="a")
_HIGH = _pod("high", priority=10)


@pytest.mark.parametrize(
    ("victim", "preemptor", "others", "texts"),
    [
        (_LOW, _HIGH, [], []),
        (
            _LOW,
            _pod("same"),
            [],
            ["pod low was preempted by same, whose priority is not higher"],
        ),
        # Without an event any waiting pod may be the preemptor.
        (_LOW, None, [_HIGH], []),
        (_LOW, None, [], ["pod low was preempted and no waiting pod has a higher priority"]),
        (
            _LOW,
            None,
            [_pod("runs", node="a", priority=10)],
            ["pod low was preempted and no waiting pod has a higher priority"],
        ),
        # A pod that has ended makes no room.
        (_pod("low", node="a", phase="Succeeded"), _pod("same"), [], []),
    ],
)
def test_a_victim_has_a_lower_priority(
    victim: Json, preemptor: Json | None, others: Sequence[Json], texts: list[str]
) -> None:
    history = _preempted(victim, preemptor, *others)
    assert _texts("victims_of_lower_priority", history) == texts


_WEB = _pod("low", node="a", app="web")


@pytest.mark.parametrize(
    ("preemptor", "others", "texts"),
    [
        (
            _HIGH,
            [_pod("spare", node="a")],
            ["low preempted by high against the budget b; on a no budget would be violated"],
        ),
        (None, [_pod("spare", node="a")], []),
        # No other victim, or none whose room suffices.
        (_HIGH, [], []),
        (_pod("high", priority=10, cpu=2), [_pod("spare", node="a")], []),
        (_pod("high", priority=10, cpu=3), [_pod("spare", node="a")], []),
    ],
)
def test_a_budget_is_violated_if_nothing_else_helps(
    preemptor: Json | None, others: Sequence[Json], texts: list[str]
) -> None:
    history = _preempted(_WEB, preemptor, *others)
    assert _texts("budgets_violated_only_if_unavoidable", history) == texts


def test_a_budget_with_an_empty_selector_covers_all_pods() -> None:
    """Upstream ignores it (kubernetes#141785)."""
    spare = _pod("spare", node="a")
    spare["metadata"] = {"name": "spare", "namespace": "other", "uid": "spare"}
    history = _preempted(_WEB, _HIGH, spare, budget={**_BUDGET, "spec": {"selector": {}}})
    assert len(_texts("budgets_violated_only_if_unavoidable", history)) == 1


@pytest.mark.parametrize(
    ("status", "texts"),
    [
        (201, ["pod p has the event 'Assigned default/p to a', and is on no node"]),
        # A binding that was refused may have been done.
        (500, []),
    ],
)
def test_an_event_of_a_binding_agrees_with_its_pod(status: int, texts: list[str]) -> None:
    obj: Json = {"metadata": {"name": "p", "namespace": "default"}}
    record = PodRecord(key="default/p", uid="p", created_seconds=0.0, object=obj)
    event = {"regarding": {"uid": "p"}, "reason": "Scheduled", "note": "Assigned default/p to a"}
    other = {"regarding": {"uid": "p"}, "reason": "Pulled", "note": "Pulled an image"}
    write = SimpleNamespace(status=status, path="/api/v1/namespaces/default/pods/p/binding?x=y")
    seen = SimpleNamespace(events=[event, other], writes=[write], pods=[record])
    assert _texts("events_agree", SimpleNamespace(observation=seen)) == texts
