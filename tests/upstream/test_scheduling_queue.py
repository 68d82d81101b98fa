"""Upstream's cases for the parts of the scheduling queue; `tests/queue/recorded` has the whole."""

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.config import POP_FROM_BACKOFF_Q
from scheduler.metrics import SchedulerMetrics
from scheduler.queue.backoff_queue import NO_BACKOFF, BackoffQueue
from scheduler.queue.heap import Heap
from scheduler.queue.hints import QueueingHints, QueueingStrategy
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.queue.unschedulable_pods import UnschedulablePods
from scheduler.snapshot.pod_info import PodInfo
from tests.queue.world import PROFILE, START, event_of, hint_map, hints_of, sort_key
from tests.upstream.loading import Case, cases, feature_gates, pod


@pytest.mark.parametrize("case", cases("scheduling_queue", "worth_requeuing"))
def test_worth_requeuing(case: Case) -> None:
    asked: list[str] = []
    hints = {PROFILE: hint_map(hints_of(case["hints"], asked))} if case.get("hints") else {}
    queueing_hints = QueueingHints(hints, SchedulerMetrics(), generic_workload=False)
    info = QueuedPodInfo(
        PodInfo(pod({"metadata": {"name": "pod1", "namespace": "ns1", "uid": "1"}})), timestamp=0.0
    )
    info.unschedulable_plugins = set(case["unschedulable"])
    info.pending_plugins = set(case.get("pending", []))
    registered = queueing_hints.registered_for(event_of(case["event"]))
    new = pod(case["new"]) if case.get("new") else None
    strategy = queueing_hints.is_pod_worth_requeuing(info, registered, None, new, [])
    assert (strategy, asked) == (QueueingStrategy[case["strategy"]], case["asked"])


@pytest.mark.parametrize("case", cases("scheduling_queue", "backoff_time"))
def test_backoff_time(case: Case) -> None:
    until = case["until"]
    expected = NO_BACKOFF if until == "never" else START + until
    assert _backoff_queue(case).backoff_time(_failed("pod", case.fields)) == expected


@pytest.mark.parametrize("case", cases("scheduling_queue", "backoff_duration"))
def test_backoff_duration(case: Case) -> None:
    assert _backoff_queue(case).calculate_backoff_duration(case["count"]) == pytest.approx(
        case["duration"], rel=1e-12
    )


@pytest.mark.parametrize("case", cases("scheduling_queue", "backoff_completed"))
def test_backoff_completed(case: Case) -> None:
    queue = _backoff_queue(case)
    for name in case["here"]:
        info = _failed(name, case["pods"][name])
        queue.add(info)
    assert [i.pod_info.name for i in queue.pop_backoff_completed(START, pods_max=9)] == case[
        "completed"
    ]
    assert len(queue) == len(case["here"]) - len(case["completed"])
    assert list(queue.complaints()) == []


def _backoff_queue(case: Case) -> BackoffQueue:
    return BackoffQueue(
        initial_backoff_seconds=case.get("initial", 1.0),
        max_backoff_seconds=case.get("max", 10.0),
        sort_key=sort_key,
        pops_early=POP_FROM_BACKOFF_Q in feature_gates(case),
    )


def _failed(name: str, fields: Mapping[str, Any]) -> QueuedPodInfo:
    value = {"spec": {"priority": fields.get("priority", 0)}}
    info = QueuedPodInfo(PodInfo(pod(value, name=name)), timestamp=START + fields.get("at", 0.0))
    info.unschedulable_count = fields.get("unschedulable_count", 0)
    info.consecutive_errors_count = fields.get("errors_count", 0)
    info.unschedulable_plugins = set() if info.consecutive_errors_count else {"plugin"}
    if "expiration" in fields:
        info.backoff_expiration = START + fields["expiration"]
    return info


@pytest.mark.parametrize("case", cases("scheduling_queue", "unschedulable_pods"))
def test_unschedulable_pods(case: Case) -> None:
    hints = QueueingHints({}, SchedulerMetrics(), generic_workload=False)
    pods = UnschedulablePods(hints.rejectors_of, hints.hint_group_key)
    for step in case["steps"]:
        for info in map(_waiting, [*step.get("add", []), *step.get("update", [])]):
            pods.add(info)
        for info in map(_waiting, step.get("delete", [])):
            pods.delete(info.key)
        here = [f"{i.pod_info.name}{' gated' if i.is_gated else ''}" for i in pods]
        assert sorted(here) == step["here"]
        gated = sum(name.endswith("gated") for name in here)
        assert (pods.gated_total, pods.unschedulable_total) == (gated, len(here) - gated)
        assert list(pods.complaints()) == []


def _waiting(text: str) -> QueuedPodInfo:
    name, *gate = text.split()
    info = QueuedPodInfo(PodInfo(pod({}, name=name)), timestamp=START)
    info.unschedulable_plugins = set(gate)
    info.gating_plugin = "".join(gate)
    return info


@pytest.mark.parametrize("case", cases("scheduling_queue", "heap"))
def test_the_heap_gives_upstreams_order(case: Case) -> None:
    heap: Heap[int] = Heap(lambda number: (number,))
    for step in case["steps"]:
        _heap_step(heap, *step.split())
        assert list(heap.complaints()) == []
    total = case.get("falling", 0)
    for number in range(total, 0, -1):
        heap.add_or_update(f"a{number}", number)
        assert heap.peek() == number
    if total:
        assert [heap.pop() for _ in range(total + 1)] == [*range(1, total + 1), None]


def _heap_step(heap: Heap[int], verb: str, *words: str) -> None:
    expected = None if words[-1:] == ("nothing",) else words and int(words[-1])
    if verb == "put":
        heap.add_or_update(words[0], int(words[1]))
    elif verb == "list":
        assert sorted(heap) == [int(word) for word in words]
    elif verb == "size":
        assert len(heap) == expected
    elif verb in ("peek", "pop"):
        assert getattr(heap, verb)() == expected
    else:
        assert getattr(heap, verb)(words[0]) == expected
