"""Rows of pods. Cases as in upstream's printers_test.go, TestPrintPod."""

from typing import Any

import pytest

from fakeapi.kinds.pods import KINDS
from fakeapi.printing.tables import row
from fakeapi.types.objects import mappings, sequence

Json = dict[str, Any]
NOW_SECONDS = 1000.0
PODS = next(kind for kind in KINDS if kind.plural == "pods")
RUNNING: Json = {"running": {}}


def cells(obj: Json) -> list[object]:
    return sequence(row(PODS, PODS.columns, obj, NOW_SECONDS)["cells"])


def status(
    state: Json | None = None, *, ready: bool = False, restarts: int = 0, **more: Any
) -> Json:
    return {"name": "c", "ready": ready, "restartCount": restarts, "state": state or {}, **more}


def ended(code: int = 0, **more: Any) -> Json:
    return {"terminated": {"exitCode": code, **more}}


def waiting(reason: str) -> Json:
    return {"waiting": {"reason": reason}}


def before(at: str) -> Json:
    return {"terminated": {"exitCode": 1, "finishedAt": at}}


def condition(kind: str, value: str = "True", **more: str) -> Json:
    return {"type": kind, "status": value, **more}


def pod(
    phase: str,
    *statuses: Json,
    init: list[Json] | None = None,
    sidecars: tuple[str, ...] = (),
    containers: int = 2,
    conditions: list[Json] | None = None,
    deleted: bool = False,
    **more: Any,
) -> Json:
    inits = [{"name": item["name"]} for item in init or []]
    for item in inits:
        if item["name"] in sidecars:
            item["restartPolicy"] = "Always"
    metadata: Json = {"name": "p", "creationTimestamp": "1970-01-01T00:00:00Z"}
    if deleted:
        metadata["deletionTimestamp"] = "1970-01-01T00:10:00Z"
    return {
        "metadata": metadata,
        "spec": {"containers": [{}] * containers, "initContainers": inits},
        "status": {
            "phase": phase,
            "conditions": conditions or [],
            "containerStatuses": list(statuses),
            "initContainerStatuses": init or [],
            **more,
        },
    }


CASES: dict[str, tuple[Json, str, str, str]] = {
    "the phase": (pod("podPhase", status(RUNNING, ready=True), status()), "1/2", "podPhase", "0"),
    "a reason of the pod": (pod("Failed", reason="Evicted"), "0/2", "Evicted", "0"),
    "gated": (
        pod("Pending", conditions=[condition("PodScheduled", "False", reason="SchedulingGated")]),
        "0/2",
        "SchedulingGated",
        "0",
    ),
    "a container waits": (
        pod("Pending", status(waiting("ErrImagePull")), status(waiting("ContainerCreating"))),
        "0/2",
        "ErrImagePull",
        "0",
    ),
    "a container waits for no reason": (
        pod("Pending", status({"waiting": {}})),
        "0/2",
        "Pending",
        "0",
    ),
    "ended by a signal": (
        pod("Failed", status(ended(9, signal=9))),
        "0/2",
        "Signal:9",
        "0",
    ),
    "ended with a code": (pod("Failed", status(ended(3))), "0/2", "ExitCode:3", "0"),
    "crashed": (
        pod(
            "Running", status(waiting("CrashLoopBackOff"), restarts=3), status(RUNNING, ready=True)
        ),
        "1/2",
        "CrashLoopBackOff",
        "3",
    ),
    "restarted a while ago": (
        pod(
            "Running",
            status(RUNNING, ready=True, restarts=2, lastState=before("1970-01-01T00:05:00Z")),
            status(RUNNING, ready=True, restarts=1, lastState=before("1970-01-01T00:15:00Z")),
        ),
        "2/2",
        "Running",
        "3 (100s ago)",
    ),
    "one done, one running and ready": (
        pod(
            "Running",
            status(ended(reason="Completed")),
            status(RUNNING, ready=True),
            conditions=[condition("Ready")],
        ),
        "1/2",
        "Running",
        "0",
    ),
    "one done, one running, not ready": (
        pod(
            "Running",
            status(ended(reason="Completed")),
            status(RUNNING, ready=True),
            conditions=[condition("Ready", "False")],
        ),
        "1/2",
        "NotReady",
        "0",
    ),
    "one done, one failed": (
        pod("Failed", status(ended(reason="Completed")), status(ended(1, reason="Error"))),
        "0/2",
        "Error",
        "0",
    ),
    "init failed": (pod("Pending", init=[status(ended(2))]), "0/2", "Init:ExitCode:2", "0"),
    "init killed": (pod("Pending", init=[status(ended(9, signal=9))]), "0/2", "Init:Signal:9", "0"),
    "init crashed": (
        pod("Pending", init=[status(waiting("CrashLoopBackOff"), restarts=4)]),
        "0/2",
        "Init:CrashLoopBackOff",
        "4",
    ),
    "init under way": (
        pod("Pending", init=[status(ended()), status(waiting("PodInitializing"), restarts=1)]),
        "0/2",
        "Init:1/2",
        "1",
    ),
    "init over, its restarts forgotten": (
        pod(
            "Running", status(RUNNING, ready=True), init=[status(ended(), restarts=3)], containers=1
        ),
        "1/1",
        "Running",
        "0",
    ),
    "initialized whatever the statuses say": (
        pod(
            "Running",
            status(RUNNING, ready=True),
            init=[status(RUNNING, restarts=3)],
            containers=1,
            conditions=[condition("Initialized")],
        ),
        "1/1",
        "Init:0/1",
        "0",
    ),
    "a sidecar counts": (
        pod(
            "Running",
            status(RUNNING, ready=True),
            init=[status(RUNNING, ready=True, restarts=2, started=True)],
            sidecars=("c",),
            containers=1,
        ),
        "2/2",
        "Running",
        "2",
    ),
    "a sidecar that has not started": (
        pod("Pending", init=[status(RUNNING, started=False)], sidecars=("c",), containers=1),
        "0/2",
        "Init:0/1",
        "0",
    ),
    "being deleted": (pod("Running", deleted=True), "0/2", "Terminating", "0"),
    "deleted when it was done": (pod("Succeeded", deleted=True), "0/2", "Succeeded", "0"),
    "deleted on a lost node": (
        pod("Running", deleted=True, reason="NodeLost"),
        "0/2",
        "Unknown",
        "0",
    ),
}


@pytest.mark.parametrize(("given", "ready", "word", "restarts"), CASES.values(), ids=CASES.keys())
def test_the_state_of_a_pod(given: Json, ready: str, word: str, restarts: str) -> None:
    assert cells(given)[:5] == ["p", ready, word, restarts, "16m"]


def test_the_wide_columns() -> None:
    given = pod("Running", conditions=[condition("g1"), condition("g2", "False")])
    assert cells(given)[5:] == ["<none>"] * 4
    given["spec"] |= {
        "nodeName": "n1",
        "readinessGates": [{"conditionType": g} for g in ("g1", "g2", "g3")],
    }
    given["status"] |= {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}], "nominatedNodeName": "n2"}
    assert cells(given)[5:] == ["10.0.0.1", "n1", "n2", "1/3"]


def test_the_row_of_a_completed_pod_has_a_condition() -> None:
    assert "conditions" not in row(PODS, PODS.columns, pod("Running"), NOW_SECONDS)
    (done,) = mappings(row(PODS, PODS.columns, pod("Succeeded"), NOW_SECONDS)["conditions"])
    assert (done["type"], done["reason"]) == ("Completed", "Succeeded")
