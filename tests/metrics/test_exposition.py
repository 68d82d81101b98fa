"""The page /metrics: upstream's names and labels, in Prometheus' text format."""

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scheduler.metrics import Histogram, HistogramVec, SchedulerMetrics
from scheduler.metrics.exposition import ALL_METRICS, Exposition, MetricsOptions
from scheduler.metrics.instruments import Kind, Metric, exponential_buckets


def samples(metrics: SchedulerMetrics) -> dict[str, float]:
    """Each sample by its name and labels in the order of the alphabet, as `name{label=value}`."""
    text = Exposition(metrics, ALL_METRICS).text().decode()
    return {
        sample.name + "{" + ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items())) + "}": (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_an_attempt_is_counted_and_measured_by_result_and_profile() -> None:
    metrics = SchedulerMetrics()
    metrics.attempt_ended("scheduled", "default-scheduler", 0.003)
    found = samples(metrics)
    labels = "profile=default-scheduler,result=scheduled"
    name = "scheduler_scheduling_attempt_duration_seconds"
    assert found[f"scheduler_schedule_attempts_total{{{labels}}}"] == 1
    assert found[f"{name}_count{{{labels}}}"] == 1
    assert found[f"{name}_sum{{{labels}}}"] == 0.003
    assert found[f"{name}_bucket{{le=0.002,{labels}}}"] == 0
    assert found[f"{name}_bucket{{le=0.004,{labels}}}"] == 1
    assert found[f"{name}_bucket{{le=+Inf,{labels}}}"] == 1


def test_the_state_of_queue_and_cache_is_read_when_the_page_is_written() -> None:
    metrics = SchedulerMetrics()
    metrics.pending_pods.read = lambda: [(("gated",), 3)]
    metrics.queue_incoming_pods.read = lambda: [(("active", "NodeAdd"), 2)]
    metrics.inflight_events.read = lambda: [(("PodPopped",), 1)]
    metrics.unschedulable_pods.read = lambda: [(("NodeResourcesFit", "default-scheduler"), 4)]
    metrics.cache_size.read = lambda: [(("nodes",), 5)]
    found = samples(metrics)
    assert found["scheduler_pending_pods{queue=gated}"] == 3
    assert found["scheduler_queue_incoming_pods_total{event=NodeAdd,queue=active}"] == 2
    assert found["scheduler_inflight_events{event=PodPopped}"] == 1
    unschedulable = "{plugin=NodeResourcesFit,profile=default-scheduler}"
    assert found[f"scheduler_unschedulable_pods{unschedulable}"] == 4
    assert found["scheduler_cache_size{type=nodes}"] == 5


def test_counters_without_labels_are_there_before_they_count() -> None:
    found = samples(SchedulerMetrics())
    assert found["scheduler_pod_scheduled_after_flush_total{}"] == 0
    assert found["scheduler_preemption_attempts_total{}"] == 0


def test_a_metric_without_values_is_left_out() -> None:
    found = samples(SchedulerMetrics())
    assert not any(name.startswith("scheduler_schedule_attempts") for name in found)


def test_the_metrics_of_batching_have_upstreams_names_and_labels() -> None:
    metrics = SchedulerMetrics()
    metrics.batch_attempts["p", "no_hint"] += 1
    metrics.batch_cache_flushed["p", "other"] += 1
    metrics.get_node_hint_duration.observe(0.0, "hint", "p")
    metrics.store_schedule_results_duration.observe(0.0, "p")
    assert {
        "scheduler_batch_attempts_total{profile=p,result=no_hint}",
        "scheduler_batch_cache_flushed_total{profile=p,reason=other}",
        "scheduler_get_node_hint_duration_seconds_count{hinted=hint,profile=p}",
        "scheduler_store_schedule_results_duration_seconds_count{profile=p}",
    } <= samples(metrics).keys()


def test_a_help_text_begins_with_the_promise_of_stability() -> None:
    text = Exposition(SchedulerMetrics(), ALL_METRICS).text().decode()
    assert (
        "# HELP scheduler_preemption_attempts_total [STABLE] "
        "Total preemption attempts in the cluster till now\n"
    ) in text
    assert "_created" not in text


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (35, "kubernetes_build_info [ALPHA] A metric with a constant '1' value"),
        (36, "kubernetes_build_info [BETA] A metric with a constant '1' value"),
        (35, "scheduler_goroutines [ALPHA] Number of running goroutines"),
        (36, "scheduler_goroutines [BETA] Number of running goroutines"),
        (36, "scheduler_preemption_goroutines_duration_seconds [ALPHA] Duration in seconds"),
        (37, "scheduler_preemption_goroutines_duration_seconds [ALPHA] (Deprecated since 1.37.0)"),
        (37, "scheduler_queued_entities [ALPHA] Number of queued scheduling entities"),
    ],
)
def test_texts_are_those_of_the_version(version: int, text: str) -> None:
    metrics = SchedulerMetrics()
    metrics.goroutines[("binding",)] = 1
    metrics.preemption_goroutines_duration.observe(1, "success")
    metrics.queued_entities.read = lambda: [(("active", "pod"), 1)]
    metrics.build_info.read = lambda: [(("",) * 9, 1)]
    page = Exposition(metrics, MetricsOptions(version=version, shows_hidden=True)).text().decode()
    assert f"# HELP {text}" in page


def test_a_deprecated_metric_is_hidden() -> None:
    metrics = SchedulerMetrics()
    metrics.preemption_goroutines_duration.observe(1, "success")
    pages = [
        Exposition(metrics, MetricsOptions(version=version)).text().decode() for version in (36, 37)
    ]
    name = "scheduler_preemption_goroutines_duration_seconds"
    assert [name in page for page in pages] == [True, False]


def test_leader_election_has_upstreams_metrics() -> None:
    metrics = SchedulerMetrics()
    metrics.leader_election_master_status[("kube-scheduler",)] = 1
    metrics.leader_election_slowpath[("kube-scheduler",)] = 2
    names = ("leader_election_master_status", "leader_election_slowpath_total")
    text = Exposition(metrics, ALL_METRICS).text(names).decode()
    assert text == (
        "# HELP leader_election_master_status [ALPHA] Gauge of if the reporting system is master "
        "of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used "
        "to identify the lease. Please make sure to group by name.\n"
        "# TYPE leader_election_master_status gauge\n"
        'leader_election_master_status{name="kube-scheduler"} 1.0\n'
        "# HELP leader_election_slowpath_total [ALPHA] Total number of slow path exercised in "
        "renewing leader leases. 'name' is the string used to identify the lease. Please make "
        "sure to group by name.\n"
        "# TYPE leader_election_slowpath_total counter\n"
        'leader_election_slowpath_total{name="kube-scheduler"} 2.0\n'
    )


def test_metrics_can_be_selected_by_name() -> None:
    metrics = SchedulerMetrics()
    metrics.attempt_ended("scheduled", "default-scheduler", 0.003)
    page = Exposition(metrics, ALL_METRICS)
    text = page.text(["scheduler_schedule_attempts_total", "no_such_metric"]).decode()
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) == 1
    assert samples[0].startswith("scheduler_schedule_attempts_total{")


def test_a_bound_that_is_whole_has_no_point() -> None:
    metrics = SchedulerMetrics()
    metrics.pod_scheduling_attempts.observe(1)
    text = Exposition(metrics, ALL_METRICS).text().decode()
    assert 'scheduler_pod_scheduling_attempts_bucket{le="1"} 1.0' in text


def test_label_values_may_hold_anything() -> None:
    metrics = SchedulerMetrics()
    metrics.goroutines[('a"b\\c\nd',)] = 1
    text = Exposition(metrics, ALL_METRICS).text(["scheduler_goroutines"]).decode()
    assert 'scheduler_goroutines{operation="a\\"b\\\\c\\nd"} 1.0' in text


def test_there_is_one_value_for_each_label() -> None:
    metrics = SchedulerMetrics()
    with pytest.raises(ValueError, match=r"schedule_attempts_total has labels \('result', 'prof"):
        metrics.schedule_attempts[("scheduled",)] += 1
    with pytest.raises(ValueError, match="attempt_duration"):
        metrics.scheduling_attempt_duration.observe(1.0, "scheduled", "profile", "one too many")
    with pytest.raises(ValueError, match="evaluation"):
        metrics.plugin_evaluations.cell("NodeName")
    metrics.goroutines[()] = 1
    with pytest.raises(ValueError, match="goroutines"):
        Exposition(metrics, ALL_METRICS).text()


def test_a_value_on_a_bound_belongs_below_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.counts == [1, 2, 1]
    assert histogram.sum == 7.0
    assert histogram.total == 4


def test_histograms_of_different_labels_are_apart() -> None:
    histograms = HistogramVec(Metric("odd", Kind.HISTOGRAM, ("what",), "", "Odd.", (1.0,)))
    histograms.observe(0.5, "a")
    histograms.observe(5.0, "b")
    assert histograms.by_labels[("a",)].counts == [1, 0]
    assert histograms.by_labels[("b",)].counts == [0, 1]


def test_the_duration_of_an_event_includes_the_time_spent_before() -> None:
    times = iter((10.0, 10.5, 20.0, 20.25))
    metrics = SchedulerMetrics(lambda: next(times))
    with metrics.event("NodeAdd"):
        pass
    with pytest.raises(RuntimeError), metrics.change("NodeAdd", spent_seconds=1.0):
        raise RuntimeError
    durations = metrics.event_handling_duration.of("NodeAdd")
    assert (durations.total, durations.sum) == (2, 0.5 + 1.25)


def test_exponential_buckets_are_upstreams() -> None:
    bounds = exponential_buckets(0.001, 2, 15)
    assert bounds[0] == 0.001
    assert len(bounds) == 15
    assert math.isclose(bounds[-1], 16.384)


def test_metrics_may_be_disabled_and_their_label_values_limited() -> None:
    metrics = SchedulerMetrics()
    for profile in ("a", "b", "c"):
        metrics.attempt_ended("scheduled", profile, 0.5)
    options = MetricsOptions(
        disabled=frozenset({"scheduler_scheduling_attempt_duration_seconds"}),
        allowed_values={("scheduler_schedule_attempts_total", "profile"): frozenset({"a"})},
    )
    text = Exposition(metrics, options).text().decode()
    assert "scheduler_scheduling_attempt_duration_seconds" not in text
    found = [line for line in text.splitlines() if line.startswith("scheduler_schedule_attempts")]
    assert found == [
        'scheduler_schedule_attempts_total{profile="a",result="scheduled"} 1.0',
        'scheduler_schedule_attempts_total{profile="unexpected",result="scheduled"} 2.0',
    ]
