"""The ledger: what queues and jobs have, as objects come, change and go in any order."""

import pytest
from msgspec.structs import replace

from scheduler.api.core import ObjectMeta, PodSchedulingGroup
from scheduler.api.pod_groups import PodGroup
from scheduler.api.unstructured import Unstructured
from scheduler.queues.jobs import TaskState
from scheduler.queues.ledger import LedgerOptions, Share
from scheduler.queues.objects import PRIORITY_CLASS_KIND, QUEUE_NAME_ANNOTATION
from scheduler.queues.water_filling import deserved
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod
from tests.queues.cluster import GROUP, QUEUE, Cluster


def test_a_job_counts_once_its_group_and_queue_exist_and_no_longer_without_them(
    cluster: Cluster,
) -> None:
    cluster.put("nodes", make_node("n", allocatable={"cpu": "4"}))
    cluster.put("pods", cluster.member())
    assert cluster.ledger.queue_of(cluster.job) is None
    group = cluster.put(GROUP, cluster.group())
    assert cluster.ledger.queue_of(cluster.job) is None
    queue = cluster.put(QUEUE, cluster.queue())
    assert cluster.ledger.queue_of(cluster.job) is cluster.ledger.queues["a"]
    assert cluster.ledger.shares == {"a": Share({}, {"cpu": 1000.0}, {"cpu": 1000.0})}
    cluster.put(QUEUE, None, queue)
    assert (cluster.ledger.queue_of(cluster.job), cluster.ledger.shares) == (None, {})
    cluster.put(QUEUE, queue)
    cluster.put(GROUP, None, group)
    assert (cluster.ledger.queue_of(cluster.job), cluster.ledger.shares) == (None, {})


def test_a_changed_group_gives_its_job_another_queue_and_a_changed_status_does_not(
    cluster: Cluster,
) -> None:
    for name in "ab":
        cluster.put(QUEUE, cluster.queue(name))
    cluster.put("pods", cluster.member())
    group = cluster.put(GROUP, cluster.group())
    version = cluster.ledger.version
    finished = Unstructured({**group, "metadata": {"name": "g", "namespace": "default"},
                             "status": {"succeeded": 3}})  # fmt: skip
    cluster.put(GROUP, finished, group)
    assert (cluster.job.succeeded, cluster.ledger.version) == (3, version)
    cluster.put(GROUP, cluster.group("b"), finished)
    assert cluster.ledger.queue_of(cluster.job) is cluster.ledger.queues["b"]


def test_a_core_group_names_its_queue_by_an_annotation(cluster: Cluster) -> None:
    cluster.put(QUEUE, cluster.queue())
    metadata = ObjectMeta(name="g", namespace="default", annotations={QUEUE_NAME_ANNOTATION: "a"})
    group = cluster.put("podgroups", PodGroup(metadata))
    pod = make_pod(requests={"cpu": "1"})
    spec = replace(pod.spec, scheduling_group=PodSchedulingGroup("g"))
    cluster.put("pods", replace(pod, spec=spec))
    assert cluster.ledger.queue_of(cluster.job) is cluster.ledger.queues["a"]
    cluster.put("podgroups", None, group)
    assert cluster.ledger.queue_of(cluster.job) is None


def test_a_malformed_object_is_left_out_and_logged(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.put(QUEUE, cluster.queue(weight="heavy"))
    assert cluster.ledger.queues == {}
    assert [record.message for record in caplog.records] == ["Ignored an object that is malformed"]


def test_the_priority_of_a_job_is_its_classs_or_the_default(cluster: Cluster) -> None:
    def priority_class(name: str, value: int, *, is_default: bool = False) -> Unstructured:
        fields = {"metadata": {"name": name}, "value": value, "globalDefault": is_default}
        return Unstructured(fields)

    cluster.put("pods", cluster.member())
    cluster.put(GROUP, cluster.group(priorityClassName="high"))
    assert cluster.ledger.priority_of(cluster.job) == 0
    cluster.put(PRIORITY_CLASS_KIND, priority_class("low", 1, is_default=True))
    assert cluster.ledger.priority_of(cluster.job) == 1
    high = cluster.put(PRIORITY_CLASS_KIND, priority_class("high", 7))
    assert cluster.ledger.priority_of(cluster.job) == 7
    higher = cluster.put(PRIORITY_CLASS_KIND, priority_class("high", 9), high)
    assert cluster.ledger.priority_of(cluster.job) == 9
    cluster.put(PRIORITY_CLASS_KIND, None, higher)
    assert cluster.ledger.priority_of(cluster.job) == 1


def test_the_total_is_that_of_the_nodes_there_are(cluster: Cluster) -> None:
    node = cluster.put("nodes", make_node("n", allocatable={"cpu": "4"}))
    larger = cluster.put("nodes", make_node("n", allocatable={"cpu": "6"}), node)
    other = cluster.put("nodes", make_node("other", allocatable={"cpu": "1"}))
    assert cluster.ledger.total["cpu"] == 7000.0
    cluster.put("nodes", None, larger)
    assert cluster.ledger.total["cpu"] == 1000.0
    cluster.put("nodes", None, other)
    assert cluster.ledger.total["cpu"] == 0.0


def test_a_pod_that_was_created_again_under_its_name_is_another_task(cluster: Cluster) -> None:
    cluster.put(GROUP, cluster.group())
    before = cluster.put("pods", cluster.member(uid="1"))
    after = cluster.put("pods", cluster.member(uid="2"), before)
    assert list(cluster.job.tasks) == ["2"]
    cluster.put("pods", None, after)
    assert list(cluster.job.tasks) == []


def test_a_job_without_a_group_is_forgotten_with_its_last_pod(cluster: Cluster) -> None:
    pod = cluster.put("pods", cluster.member())
    cluster.put("pods", None, pod)
    assert cluster.ledger.jobs == {}
    cluster.put("pods", None, pod)


def test_pods_of_other_schedulers_without_a_group_do_not_count(cluster: Cluster) -> None:
    cluster.ledger.profiles.add("mine")
    cluster.put("pods", cluster.member("theirs", group=""))
    assert cluster.ledger.jobs == {}
    cluster.put("pods", cluster.member("ours", group="", scheduler_name="mine"))
    assert list(cluster.ledger.jobs) == ["default//ours"]


def test_a_pod_that_ends_makes_room_for_the_waiting_jobs(cluster: Cluster) -> None:
    waiting, theirs = cluster.member(), cluster.member("q", group="", node_name="n")
    cluster.put("pods", waiting)
    cluster.put("pods", theirs)
    assert cluster.has_room == []
    cluster.put("pods", None, theirs)
    assert cluster.has_room == ["default/g"]


def test_a_reserved_task_stays_reserved_until_the_pod_has_its_node(cluster: Cluster) -> None:
    cluster.put("nodes", make_node("n", allocatable={"cpu": "4"}))
    cluster.put(QUEUE, cluster.queue())
    cluster.put(GROUP, cluster.group())
    pod = cluster.put("pods", cluster.member())
    assert cluster.ledger.shares["a"].allocated == {}
    cluster.ledger.reserve(PodInfo(pod))
    assert cluster.ledger.shares["a"].allocated == {"cpu": 1000.0}
    changed = replace(pod, metadata=replace(pod.metadata, labels={"a": "b"}))
    cluster.put("pods", changed, pod)
    assert cluster.job.tasks[pod.metadata.uid].state == TaskState.RESERVED
    assert cluster.ledger.unreserve(PodInfo(pod)) is cluster.job
    assert cluster.ledger.shares["a"].allocated == {"cpu": 0.0}
    # A pod that is no task, and one that has no node to give back.
    assert cluster.ledger.unreserve(PodInfo(make_pod("other"))) is None
    assert cluster.ledger.unreserve(PodInfo(pod)) is cluster.job


def test_a_job_has_a_claim_while_its_queue_has_less_than_it_deserves(cluster: Cluster) -> None:
    cluster.put("nodes", make_node("n", allocatable={"cpu": "1"}))
    first = cluster.put("pods", cluster.member("p-1"))
    assert not cluster.ledger.has_a_claim(cluster.job)
    cluster.put("pods", cluster.member("p-2"))
    cluster.put(QUEUE, cluster.queue())
    cluster.put(GROUP, cluster.group())
    assert cluster.ledger.has_a_claim(cluster.job)
    cluster.ledger.reserve(PodInfo(first))
    assert not cluster.ledger.has_a_claim(cluster.job)
    assert cluster.ledger.excess() == {}
    assert sorted(cluster.ledger.resources_by_label()) == [
        (("a", "allocated", "cpu"), 1000.0),
        (("a", "deserved", "cpu"), 1000.0),
        (("a", "request", "cpu"), 2000.0),
    ]


def test_profiles_agree_in_the_options_of_the_ledger(cluster: Cluster) -> None:
    options = LedgerOptions("default", tasks_by_priority=True, fill=deserved)
    cluster.ledger.join("one", options)
    cluster.ledger.join("two", options)
    with pytest.raises(ValueError, match="profiles differ in defaultQueue, taskOrder"):
        cluster.ledger.join("three", options._replace(default_queue="other"))
