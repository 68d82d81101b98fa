"""Events as `kubectl describe` shows them: their texts, counts and limits."""

import pytest

from fakeapi import KubeletOptions
from fakeapi.actors.controller import Context
from fakeapi.actors.events import EventRecorder
from fakeapi.actors.objects import Object
from fakeapi.actors.resources import PODS as POD_RESOURCE

from ..actor_cluster import NODES, PODS, Cluster, cluster, conditions, pod
from ..api_client import Json
from .test_owners import APPS, QUICK, owner
from .test_volumes import CLAIMS, CLASSES, MAKER, claim, storage_class

EVENTS = "/api/v1/namespaces/default/events"
REGISTERED = "Normal RegisteredNode: Node n1 event: Registered Node n1 in Controller"
STOPPED = {"metadata": {"annotations": {"fakeapi.kubesched.io/stopped": "true"}}}


async def events_of(c: Cluster, name: str) -> list[str]:
    """Return the events of an object, in the order in which they were written."""
    found = await c.items(EVENTS, fieldSelector=f"involvedObject.name={name}")
    found.sort(key=lambda one: int(one["metadata"]["resourceVersion"]))
    return [f"{one['reason']}: {one['message']}" for one in found]


async def events_by_name(c: Cluster, kind: str) -> dict[str, list[str]]:
    """Return the events of the objects of a kind by name, without those of kubelets."""
    found = await c.items(EVENTS, fieldSelector=f"involvedObject.kind={kind}")
    found.sort(key=lambda one: int(one["metadata"]["resourceVersion"]))
    events: dict[str, list[str]] = {}
    for one in found:
        if one["source"]["component"] != "kubelet":
            words = f"{one['type']} {one['reason']}: {one['message']}"
            events.setdefault(one["involvedObject"]["name"], []).append(words)
    return events


async def test_a_kubelet_writes_events_of_its_containers() -> None:
    async with cluster(kubelet=QUICK) as c:
        await c.create(PODS, pod())
        await c.advance(1)
        await c.api.delete(f"{PODS}/p")
        await c.settle()
        assert await events_of(c, "p") == [
            'Pulled: Container image "x" already present on machine and can be accessed by the pod',
            "Created: Container created",
            "Started: Container started",
            "Killing: Stopping container c",
        ]
        event = (await c.items(EVENTS))[0]
        assert event["involvedObject"]["fieldPath"] == "spec.containers{c}"
        assert event["source"] == {"component": "kubelet", "host": "n1"}


async def test_repeated_failures_of_a_container_are_one_event_with_a_count() -> None:
    async with cluster(kubelet=QUICK) as c:
        await c.create(PODS, pod(run_seconds="1", exit_codes="1"))
        await c.advance(120, step_seconds=1)
        found = {one["reason"]: one for one in await c.items(EVENTS)}
        assert set(found) == {"Pulled", "Created", "Started", "BackOff"}
        assert found["Started"]["count"] == 5
        assert found["BackOff"]["type"] == "Warning"
        assert found["BackOff"]["message"].startswith("Back-off restarting failed container c in")
        assert found["Started"]["lastTimestamp"] > found["Started"]["firstTimestamp"]


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        ("run-seconds", "soon", "expected a number of seconds, 0 or more; the default is used"),
        ("startup-seconds", "-1", "expected a number of seconds, 0 or more; the default is used"),
        ("termination-seconds", "", "expected a number of seconds, 0 or more; the default is used"),
        ("exit-codes", "1,x", "expected numbers from 0 to 255 and commas; the default is used"),
        ("exit-codes", "256", "expected numbers from 0 to 255 and commas; the default is used"),
        ("run-second", "3", "unknown annotation; did you mean run-seconds?"),
        (
            "colour",
            "3",
            "unknown annotation; expected one of startup-seconds, run-seconds, exit-codes, "
            "termination-seconds",
        ),
    ],
)
async def test_an_invalid_annotation_is_an_event_of_the_pod(
    annotation: str, value: str, expected: str
) -> None:
    options = KubeletOptions(startup_seconds=1, run_seconds=5, exit_code=3)
    async with cluster(kubelet=options) as c:
        spec = {"restartPolicy": "Never"}
        await c.create(PODS, pod(spec=spec, **{annotation.replace("-", "_"): value}))
        await c.advance(6, step_seconds=1)
        (told_of,) = [one for one in await c.items(EVENTS) if one["reason"] == "InvalidAnnotation"]
        assert (told_of["type"], told_of["count"]) == ("Warning", 1)
        name = f"fakeapi.kubesched.io/{annotation}"
        assert told_of["message"] == f'annotation {name}: "{value}": {expected}'
        status = (await c.read(f"{PODS}/p"))["status"]  # the defaults hold
        assert status["phase"] == "Failed"
        (container,) = status["containerStatuses"]
        assert container["state"]["terminated"]["exitCode"] == 3


async def test_another_invalid_value_is_another_event() -> None:
    async with cluster(kubelet=QUICK) as c:
        await c.create(PODS, pod(run_seconds="soon"))
        for value in ("1", "later", "x" * 5000):
            patch = {"metadata": {"annotations": {"fakeapi.kubesched.io/run-seconds": value}}}
            await c.api.patch(f"{PODS}/p", patch)
            await c.settle()
        found = [one for one in await events_of(c, "p") if one.startswith("InvalidAnnotation")]
        quoted = [one.split('"')[1] for one in found]
        assert quoted == ["soon", "later", "x" * 80 + "..."]


async def test_an_invalid_stopped_annotation_is_an_event_of_the_node() -> None:
    async with cluster(kubelet=QUICK) as c:
        stopped = {"metadata": {"annotations": {"fakeapi.kubesched.io/stopped": "yes"}}}
        await c.api.patch(f"{NODES}/n1", stopped)
        await c.create(PODS, pod())
        await c.advance(1)
        assert (await events_of(c, "n1"))[-1] == (
            'InvalidAnnotation: annotation fakeapi.kubesched.io/stopped: "yes": '
            'expected "true" or "false"; "false" is used'
        )
        assert (await c.read(f"{PODS}/p"))["status"]["phase"] == "Running"


async def test_without_events_invalid_annotations_are_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with cluster(kubelet=QUICK, events=False) as c:
        await c.create(PODS, pod(run_seconds="soon"))
        assert await c.items(EVENTS) == []
    (record,) = [one for one in caplog.records if one.name.startswith("fakeapi.actors")]
    assert record.levelname == "WARNING"
    assert record.message.startswith(
        'Pod default/p: annotation fakeapi.kubesched.io/run-seconds: "soon": expected a number'
    )


async def test_owners_write_events_of_their_pods() -> None:
    async with cluster(owners=True) as c:
        await c.create(f"{APPS}/deployments", owner("d", replicas=1))
        (owned,) = await c.items(f"{APPS}/replicasets")
        name = owned["metadata"]["name"]
        assert await events_of(c, "d") == [
            f"ScalingReplicaSet: Scaled up replica set {name} from 0 to 1"
        ]
        (made,) = await c.items(PODS)
        assert await events_of(c, name) == [
            f"SuccessfulCreate: Created pod: {made['metadata']['name']}"
        ]
        await c.create(f"{APPS}/statefulsets", owner("s", replicas=1))
        assert await events_of(c, "s") == [
            "SuccessfulCreate: Create Pod s-0 in StatefulSet s successful"
        ]


async def test_a_waiting_claim_has_an_event_with_the_reason() -> None:
    external = "Waiting for a volume to be created either by the external provisioner 'other.csi' "
    expected = {
        "none": "FailedBinding: no persistent volumes available for this claim and no storage "
        "class is set",
        "unknown": 'ProvisioningFailed: storageclass.storage.k8s.io "nowhere" not found',
        "later": "WaitForFirstConsumer: waiting for first consumer to be created before binding",
        "foreign": f"ExternalProvisioning: {external}",
        "made": "ProvisioningSucceeded: Successfully provisioned volume pvc-",
    }
    classes = {"unknown": "nowhere", "later": "later", "foreign": "foreign", "made": "made"}
    async with cluster(volumes=MAKER) as c:
        await c.create(CLASSES, storage_class("later", "WaitForFirstConsumer"))
        await c.create(CLASSES, storage_class("made"))
        await c.create(CLASSES, {**storage_class("foreign"), "provisioner": "other.csi"})
        for name in expected:
            await c.create(CLAIMS, claim(name, storage_class=classes.get(name, "")))
        await c.create(CLASSES, storage_class("news"))  # all that wait are looked at once more
        for name, beginning in expected.items():
            (only,) = await events_of(c, name)
            assert only.startswith(beginning)
        assert {one["count"] for one in await c.items(EVENTS)} == {1}


async def test_a_node_without_heartbeat_has_events_and_its_pods_too() -> None:
    async with cluster(kubelet=QUICK, node_lifecycle=True) as c:
        await c.create(PODS, pod("goes"))
        forever = {"key": "node.kubernetes.io/unreachable", "operator": "Exists"}
        await c.create(PODS, pod("stays", spec={"tolerations": [forever]}))
        await c.advance(1)
        await c.api.patch(f"{NODES}/n1", STOPPED)
        await c.advance(60, step_seconds=10)
        not_ready = "Normal NodeNotReady: Node n1 status is now: NodeNotReady"
        assert await events_by_name(c, "Node") == {"n1": [REGISTERED, not_ready]}
        not_ready = "Warning NodeNotReady: Node is not ready"
        assert await events_by_name(c, "Pod") == {"goes": [not_ready], "stays": [not_ready]}
        await c.advance(300)
        evicted = "Normal TaintManagerEviction: Marking for deletion Pod default/goes"
        assert await events_by_name(c, "Pod") == {
            "goes": [not_ready, evicted],
            "stays": [not_ready],
        }


async def test_a_cancelled_eviction_is_an_event() -> None:
    async with cluster(kubelet=QUICK, node_lifecycle=True) as c:
        await c.create(PODS, pod("p"))
        await c.advance(1)
        await c.api.patch(f"{NODES}/n1", STOPPED)
        await c.advance(60, step_seconds=10)
        started = {"metadata": {"annotations": {"fakeapi.kubesched.io/stopped": None}}}
        await c.api.patch(f"{NODES}/n1", started)
        await c.settle()
        cancelled = "Normal TaintManagerEviction: Cancelling deletion of Pod default/p"
        assert (await events_by_name(c, "Pod"))["p"][-1] == cancelled


async def test_a_node_that_never_was_ready_has_no_event_not_ready() -> None:
    async with cluster(node_lifecycle=True) as c:
        await c.advance(70, step_seconds=10)
        assert conditions(await c.read(f"{NODES}/n1"))["Ready"] == "Unknown"
        assert await events_by_name(c, "Node") == {"n1": [REGISTERED]}


async def test_new_and_deleted_nodes_have_events() -> None:
    async with cluster(node_lifecycle=True) as c:
        await c.advance(20, step_seconds=10)
        uid = (await c.read(f"{NODES}/n1"))["metadata"]["uid"]
        await c.api.delete(f"{NODES}/n1")
        await c.settle()
        removed = "Normal RemovingNode: Node n1 event: Removing Node n1 from Controller"
        assert await events_by_name(c, "Node") == {"n1": [REGISTERED, removed]}
        assert {one["involvedObject"]["uid"] for one in await c.items(EVENTS)} == {uid}


async def test_the_event_of_a_waiting_claim_names_its_pods() -> None:
    async with cluster(volumes=MAKER) as c:
        await c.create(CLASSES, storage_class("later", "WaitForFirstConsumer"))
        await c.create(CLAIMS, claim("c", storage_class="later"))
        mounts = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
        bound = pod("bound", spec=mounts)
        await c.create(PODS, bound)
        for name in ("q", "p"):
            waiting = pod(name, spec=mounts)
            del waiting["spec"]["nodeName"]
            await c.create(PODS, waiting)
        first = "WaitForFirstConsumer: waiting for first consumer to be created before binding"
        one, both = (f"WaitForPodScheduled: waiting for {who}" for who in ("pod q", "pods p,q"))
        assert await events_of(c, "c") == [
            first,
            f"{one} to be scheduled",
            f"{both} to be scheduled",
        ]


async def test_a_refused_pod_is_an_event_of_its_owner() -> None:
    async with cluster(owners=True) as c:
        hard = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
        await c.create("/api/v1/namespaces/default/resourcequotas", hard)
        await c.create(f"{APPS}/replicasets", owner("rs", replicas=1))
        found = await c.items(EVENTS)  # with the name of another pod each time
        assert len(found) <= 2
        assert {(one["type"], one["reason"]) for one in found} == {("Warning", "FailedCreate")}
        assert found[0]["message"].startswith("Error creating: ")


async def test_events_can_be_switched_off() -> None:
    async with cluster(kubelet=QUICK, owners=True, events=False) as c:
        await c.create(f"{APPS}/replicasets", owner("rs", replicas=1))
        await c.advance(2, step_seconds=1)
        assert await c.items(EVENTS) == []


def recorder(c: Cluster) -> EventRecorder:
    context = c.actors._context
    assert isinstance(context, Context)
    return EventRecorder(context, "me")


async def test_events_that_differ_in_their_message_alone_are_aggregated() -> None:
    async with cluster() as c:
        writes, target = recorder(c), Object(await c.api.create(PODS, pod()))
        for number in range(15):
            await writes.record(POD_RESOURCE, target, "Tried", f"attempt {number}")
        found = await c.items(EVENTS)
        assert len(found) == 10
        combined = [one for one in found if one["message"].startswith("(combined")]
        assert [(one["count"], one["message"]) for one in combined] == [
            (6, "(combined from similar events): attempt 14")
        ]


async def test_one_object_has_25_events_at_once_and_then_one_in_five_minutes() -> None:
    async with cluster() as c:
        writes, target = recorder(c), Object(await c.api.create(PODS, pod()))
        other = await c.api.create(PODS, pod("q"))
        for number in range(40):
            await writes.record(POD_RESOURCE, target, f"Reason{number}", "x")
        assert len(await c.items(EVENTS)) == 25
        await writes.record(POD_RESOURCE, Object(other), "Own", "x")
        c.clock.advance(300)
        for number in range(40, 43):
            await writes.record(POD_RESOURCE, target, f"Reason{number}", "x")
        assert len(await c.items(EVENTS)) == 27


async def test_events_of_objects_without_namespace_are_in_default() -> None:
    async with cluster() as c:
        found: Json = await c.read(f"{NODES}/n1")
        from fakeapi.actors.resources import NODES as NODE_RESOURCE

        await recorder(c).record(NODE_RESOURCE, Object(found), "Seen", "here")
        assert await events_of(c, "n1") == ["Seen: here"]
