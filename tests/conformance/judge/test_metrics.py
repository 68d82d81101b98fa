"""A scheduler's counters: read from its page of metrics, over HTTP."""

import asyncio

import pytest
from aiohttp import web

from conformance.errors import NotObservable, TargetError
from conformance.judge.metrics import (
    MetricsReader,
    QueueCounters,
    in_words,
    parse_counters,
    risen,
    total_in,
)

#: As kube-scheduler writes it, with families of others before, between and after.
PAGE = """\
# HELP go_goroutines Number of goroutines that currently exist.
# TYPE go_goroutines gauge
go_goroutines 152
# HELP scheduler_event_handling_duration_seconds [ALPHA] Event handling latency in seconds.
# TYPE scheduler_event_handling_duration_seconds histogram
scheduler_event_handling_duration_seconds_bucket{event="NodeAdd",le="0.0001"} 1
scheduler_event_handling_duration_seconds_bucket{event="NodeAdd",le="+Inf"} 2
scheduler_event_handling_duration_seconds_sum{event="NodeAdd"} 0.000324
scheduler_event_handling_duration_seconds_count{event="NodeAdd"} 2
scheduler_pending_pods{queue="active"} 0
# HELP scheduler_pod_scheduled_after_flush_total [ALPHA] Pods scheduled after a flush.
# TYPE scheduler_pod_scheduled_after_flush_total counter
scheduler_pod_scheduled_after_flush_total 3
# HELP scheduler_queue_incoming_pods_total [STABLE] Number of pods added to scheduling queues.
# TYPE scheduler_queue_incoming_pods_total counter
scheduler_queue_incoming_pods_total{event="NodeAdd",queue="active"} 1
scheduler_queue_incoming_pods_total{event="NodeAdd",queue="backoff"} 2
scheduler_queue_incoming_pods_total{event="ScheduleAttemptFailure",queue="unschedulable"} 4
scheduler_queue_incoming_pods_total{event="storage.k8s.io/CSINodeAdd",queue="backoff"} 1e+00
scheduler_nonsense{
"""


def test_pods_that_enter_the_active_and_the_backoff_queue_are_counted_by_event() -> None:
    assert parse_counters(PAGE) == QueueCounters(
        requeued={"NodeAdd": 3, "ScheduleAttemptFailure": 0, "storage.k8s.io/CSINodeAdd": 1},
        handled={"NodeAdd": 2},
        after_flush=3,
    )


def test_newer_names_of_events_are_read_as_the_older_ones() -> None:
    page = """\
scheduler_queue_incoming_pods_total{event="UnscheduledPodAdd",queue="active"} 2
scheduler_queue_incoming_pods_total{event="TargetPodUpdatePodToleration",queue="backoff"} 1
scheduler_event_handling_duration_seconds_count{event="AssignedPodDelete"} 4
"""
    assert parse_counters(page) == QueueCounters(
        requeued={"UnschedulablePodAdd": 2, "UnschedulablePodUpdatePodToleration": 1},
        handled={"AssignedPodDelete": 4},
        after_flush=None,
    )


def test_the_total_of_a_metric_is_that_of_the_samples_with_its_labels() -> None:
    name = "scheduler_queue_incoming_pods_total"
    assert total_in(PAGE, name, {}) == 8
    assert total_in(PAGE, name, {"event": "NodeAdd"}) == 3
    assert total_in(PAGE, name, {"event": "NodeAdd", "queue": "backoff"}) == 2
    assert total_in(PAGE, name, {"event": "NodeDelete"}) == 0
    assert total_in(PAGE, "scheduler_event_handling_duration_seconds_count", {}) == 2
    with pytest.raises(ValueError, match=r"expected a count, got 0\.000324"):
        total_in(PAGE, "scheduler_event_handling_duration_seconds_sum", {})


def test_missing_families_differ_from_zero() -> None:
    assert parse_counters("") == QueueCounters(None, None, None)
    assert parse_counters("<html>hello</html>\n") == QueueCounters(None, None, None)
    assert parse_counters("scheduler_pod_scheduled_after_flush_total 0\n").after_flush == 0
    only = 'scheduler_queue_incoming_pods_total{event="A",queue="unschedulable"} 1\n'
    assert parse_counters(only) == QueueCounters({"A": 0}, None, None)


def test_a_name_that_only_begins_like_ours_is_another_family() -> None:
    assert (
        parse_counters("scheduler_pod_scheduled_after_flush_total_of_all 7\n").after_flush is None
    )


@pytest.mark.parametrize(
    "line",
    [
        'scheduler_queue_incoming_pods_total{event="NodeAdd",queue="active"} many',
        'scheduler_queue_incoming_pods_total{event="NodeAdd",queue="active"} -1',
        'scheduler_queue_incoming_pods_total{event="NodeAdd",queue="active"} 1.5',
        'scheduler_queue_incoming_pods_total{event="NodeAdd",queue="active"} NaN',
        'scheduler_queue_incoming_pods_total{event="NodeAdd",queue="active"} +Inf',
        'scheduler_queue_incoming_pods_total{queue="active"} 1',
        'scheduler_queue_incoming_pods_total{event="NodeAdd"',
        "scheduler_pod_scheduled_after_flush_total",
    ],
)
def test_a_line_that_makes_no_sense_is_an_error(line: str) -> None:
    with pytest.raises(ValueError):
        parse_counters(f"{line}\n")


def test_only_counters_that_have_risen_are_returned() -> None:
    assert risen({"b": 3, "a": 1, "c": 2}, {"b": 1, "c": 2}) == {"a": 1, "b": 2}
    assert risen({"a": 1}, None) == {"a": 1}


def test_counts_as_text() -> None:
    assert in_words({"a": 1, "b": 2}) == "a 1, b 2"
    assert in_words({"a": 1, "b": 2}, ["b"]) == "b 2"
    assert in_words({}) == "none"


async def _ask(
    answer: web.Response, *, path: str = "/metrics", wait: bool = False
) -> QueueCounters:
    """Read that page from a server of its own."""

    async def handle(request: web.BaseRequest) -> web.Response:
        return answer if request.path == "/metrics" else web.Response(status=404)

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        async with MetricsReader(f"http://127.0.0.1:{port}{path}") as reader:
            return await (reader.wait_until_served() if wait else reader.read())
    finally:
        await runner.cleanup()


def test_the_page_is_read_over_http() -> None:
    assert asyncio.run(_ask(web.Response(text=PAGE), wait=True)).after_flush == 3


def test_a_page_that_is_not_there_is_no_page() -> None:
    with pytest.raises(NotObservable, match="expected status 200, got 404"):
        asyncio.run(_ask(web.Response(), path="/elsewhere", wait=True))


def test_a_page_that_goes_away_later_is_the_schedulers_fault() -> None:
    with pytest.raises(TargetError, match="expected status 200, got 403"):
        asyncio.run(_ask(web.Response(status=403)))


def test_the_error_of_an_unreadable_page_has_its_url() -> None:
    page = 'scheduler_queue_incoming_pods_total{event="NodeAdd",queue="active"} many\n'
    with pytest.raises(TargetError, match=r"GET http://127.0.0.1:.*not Prometheus' format"):
        asyncio.run(_ask(web.Response(text=page)))


def test_a_line_on_which_the_parser_breaks_is_unreadable() -> None:
    page = "scheduler_pod_scheduled_after_flush_total{, =b- }a\\{\n"
    with pytest.raises(ValueError, match="a line without an end"):
        parse_counters(page)


def test_a_missing_server_is_an_error_of_the_target() -> None:
    async def read() -> None:
        async with MetricsReader("http://127.0.0.1:1/metrics") as reader:
            await reader.read()

    with pytest.raises(TargetError, match=r"GET http://127.0.0.1:1/metrics: "):
        asyncio.run(read())
