"""The life of a pod on its node, as values: what its containers do, and the status that says so.

    waiting ──startup──> running ──run time──> finished
                            ^  │
                            │  └──restart policy──> backing off (10 s, doubling, at most 300 s)
                            └──────────────────────────┘

All containers of a pod begin and end together. Source: pkg/kubelet/{kubelet_pods,status} and
kuberuntime (doBackOff) of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Final

from fakeapi.actors.objects import condition_of, spec_of, status_of, with_condition
from fakeapi.types import times
from fakeapi.types.objects import (
    Json,
    integer,
    mapping,
    mappings,
    metadata_of,
    name_of,
    namespace_of,
    text,
)

_BACKOFF_SECONDS: Final = 10.0
_BACKOFF_SECONDS_MAX: Final = 300.0
_KILLED: Final = 137
_TERMINATED: Final = 143
_DEADLINE_MESSAGE: Final = "Pod was active on the node longer than the specified deadline"
_FINISHED: Final = ("Succeeded", "Failed")


@dataclasses.dataclass(frozen=True, slots=True)
class PodPlan:
    """What a pod's containers are going to do; seconds.

    `run_seconds` None is until they are told to stop. Each run ends with the next of `exit_codes`,
    the last of which holds for all that follow. `termination_seconds` None takes all the grace.
    """

    startup_seconds: float = 1.0
    run_seconds: float | None = None
    exit_codes: tuple[int, ...] = (0,)
    termination_seconds: float | None = None

    def exit_code(self, run: int) -> int:
        """How the run of that number ends; the first is 0."""
        return self.exit_codes[min(run, len(self.exit_codes) - 1)]


@dataclasses.dataclass(slots=True)
class PodRun:
    """Where a pod is in its life; times in epoch seconds."""

    state: str  # waiting, running, backoff, finished
    accepted_at: float
    since: float
    restarts: int = 0
    started_at: float = 0.0
    exit_code: int = 0
    backoff_seconds: float = 0.0
    reason: str = ""
    last: Json | None = None

    @property
    def phase(self) -> str:
        """The pod's phase."""
        if self.state == "waiting":
            return "Pending"
        if self.state != "finished":
            return "Running"
        return "Failed" if self.exit_code or self.reason else "Succeeded"


def begun(now: float) -> PodRun:
    """A pod that the node has just accepted."""
    return PodRun("waiting", accepted_at=now, since=now)


def recovered(pod: Json, now: float) -> PodRun:
    """The run that a pod's status tells of, for a kubelet that was not there before."""
    status = status_of(pod)
    accepted = _seconds(status.get("startTime"), now)
    run = PodRun("waiting", accepted_at=accepted, since=accepted)
    container = next(iter(mappings(status.get("containerStatuses"))), {})
    state = mapping(container.get("state"))
    last = mapping(mapping(container.get("lastState")).get("terminated"))
    run.restarts, run.last = integer(container.get("restartCount")), last or None
    if status.get("phase") in _FINISHED:
        ended = mapping(state.get("terminated"))
        run.state, run.exit_code = "finished", integer(ended.get("exitCode"))
        run.reason = text(status.get("reason"))
        run.started_at = _seconds(ended.get("startedAt"), now)
        run.since = _seconds(ended.get("finishedAt"), now)
    elif "running" in state:
        run.state = "running"
        run.since = run.started_at = _seconds(mapping(state["running"]).get("startedAt"), now)
        run.backoff_seconds = _backoff_after(run.restarts)
    elif last:
        run.state, run.since = "backoff", _seconds(last.get("finishedAt"), now)
        run.backoff_seconds = _backoff_after(run.restarts + 1)
    return run


def _backoff_after(restarts: int) -> float:
    """The delay before the restart of that number; there is none before the first."""
    if restarts < 2:
        return 0.0
    return min(_BACKOFF_SECONDS * 2.0 ** min(restarts - 2, 10), _BACKOFF_SECONDS_MAX)


def _seconds(stamp: object, now: float) -> float:
    return times.epoch_seconds(text(stamp)) if stamp else now


def step(run: PodRun, pod: Json, plan: PodPlan, now: float) -> float | None:
    """Let happen what is due; how many seconds until the next thing is, None if nothing is."""
    while True:
        due = _due(run, plan)
        deadline = _deadline(run, pod)
        if deadline is not None and (due is None or deadline < due):
            if deadline > now:
                return deadline - now
            _end(run, deadline, _KILLED, "DeadlineExceeded")
            continue
        if due is None:
            return None
        if due > now:
            return due - now
        _happen(run, pod, plan, due)


def _deadline(run: PodRun, pod: Json) -> float | None:
    seconds = spec_of(pod).get("activeDeadlineSeconds")
    if run.state == "finished" or not isinstance(seconds, int):
        return None
    return run.accepted_at + seconds


def _due(run: PodRun, plan: PodPlan) -> float | None:
    if run.state == "waiting":
        return run.since + plan.startup_seconds
    if run.state == "running":
        return None if plan.run_seconds is None else run.since + plan.run_seconds
    return run.since + run.backoff_seconds if run.state == "backoff" else None


def _happen(run: PodRun, pod: Json, plan: PodPlan, when: float) -> None:
    if run.state == "waiting":
        _start(run, when)
    elif run.state == "backoff":
        run.restarts += 1
        _start(run, when)
    else:
        code = plan.exit_code(run.restarts)
        policy = text(spec_of(pod).get("restartPolicy")) or "Always"
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            _end(run, when, code)
        else:
            _back_off(run, when, code)


def _start(run: PodRun, when: float) -> None:
    run.state, run.since, run.started_at = "running", when, when


def _end(run: PodRun, when: float, code: int, reason: str = "") -> None:
    if run.state != "running":
        run.started_at = 0.0
    run.state, run.since, run.exit_code, run.reason = "finished", when, code, reason


def _back_off(run: PodRun, when: float, code: int) -> None:
    """The first restart comes at once; a run of ten minutes makes up for those before."""
    if when - run.started_at > 2 * _BACKOFF_SECONDS_MAX or not run.last:
        run.backoff_seconds = 0.0
    else:
        grown = run.backoff_seconds * 2 or _BACKOFF_SECONDS
        run.backoff_seconds = min(grown, _BACKOFF_SECONDS_MAX)
    run.last = _terminated_state(run.started_at, when, code)
    run.state, run.since = "backoff", when


def terminated(run: PodRun, now: float, *, killed: bool) -> PodRun:
    """The run ended from outside, because its pod was deleted."""
    if run.state == "finished":
        return run
    ended = dataclasses.replace(run)
    code = _KILLED if killed or run.state != "running" else _TERMINATED
    _end(ended, now, code)
    return ended


def pod_status(run: PodRun, pod: Json, *, host_ip: str, pod_ip: str, now: float) -> Json:
    """The fields of the status that the kubelet sets."""
    spec, old = spec_of(pod), status_of(pod)
    generation = metadata_of(pod).get("generation")
    status: Json = {
        "phase": run.phase,
        "startTime": times.timestamp(run.accepted_at),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "conditions": _conditions(run, pod, times.timestamp(now)),
        "containerStatuses": [
            _container_status(run, pod, container) for container in mappings(spec.get("containers"))
        ],
    }
    if run.state != "waiting" and (run.started_at or old.get("podIP")):
        status["podIP"], status["podIPs"] = pod_ip, [{"ip": pod_ip}]
    if mappings(spec.get("initContainers")):
        status["initContainerStatuses"] = [
            _init_status(run, pod, container) for container in mappings(spec["initContainers"])
        ]
    if generation is not None:
        status["observedGeneration"] = generation
    if run.reason:
        status["reason"] = run.reason
        status["message"] = _DEADLINE_MESSAGE
    return status


def _conditions(run: PodRun, pod: Json, now: str) -> list[Json]:
    runs = run.state in ("running", "backoff")
    up = run.state == "running"
    because: Json = {}
    if run.state == "finished":
        because = {"reason": "PodCompleted" if run.phase == "Succeeded" else "PodFailed"}
    elif not up:
        names = " ".join(name for name in _names(spec_of(pod).get("containers")))
        message = f"containers with unready status: [{names}]"
        because = {"reason": "ContainersNotReady", "message": message}
    initialized, why = _initialized(run, pod)
    ready, why_not = up, because
    if up:
        ready, why_not = _gates(pod)
    wanted: list[tuple[str, bool, Json]] = [
        ("PodReadyToStartContainers", runs, {}),
        ("Initialized", initialized, why),
        ("Ready", ready, why_not),
        ("ContainersReady", up, because),
    ]
    conditions: object = status_of(pod).get("conditions")
    generation = metadata_of(pod).get("generation")
    observed: Json = {} if generation is None else {"observedGeneration": generation}
    for kind, holds, extra in wanted:
        condition: Json = {"type": kind, "status": "True" if holds else "False"}
        condition |= {"lastProbeTime": None, **observed, **extra}
        conditions = with_condition(conditions, condition, now)
    ours = {kind for kind, _, _ in wanted}
    return [one for one in mappings(conditions) if one.get("type") in ours]


def _initialized(run: PodRun, pod: Json) -> tuple[bool, Json]:
    inits = mappings(spec_of(pod).get("initContainers"))
    if run.state == "waiting" and inits:
        names = " ".join(_names(inits))
        message = f"containers with incomplete status: [{names}]"
        return False, {"reason": "ContainersNotInitialized", "message": message}
    return True, {"reason": "PodCompleted"} if run.phase == "Succeeded" else {}


def _gates(pod: Json) -> tuple[bool, Json]:
    """A running pod is ready once all its readiness gates say so."""
    wrong = []
    for gate in mappings(spec_of(pod).get("readinessGates")):
        kind = text(gate.get("conditionType"))
        condition = condition_of(pod, kind)
        if not condition:
            wrong.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif condition.get("status") != "True":
            wrong.append(
                f'the status of pod readiness gate "{kind}" is not "True", '
                f"but {text(condition.get('status'))}"
            )
    if not wrong:
        return True, {}
    message = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
    return False, {"reason": "ReadinessGatesNotReady", "message": message}


def _names(containers: object) -> list[str]:
    return [text(container.get("name")) for container in mappings(containers)]


def _container_status(run: PodRun, pod: Json, container: Json) -> Json:
    status = _static_status(pod, container)
    running = run.state == "running"
    status |= {
        "ready": running,
        "started": running,
        "restartCount": run.restarts,
        "state": _state(run, pod, container),
        "lastState": {"terminated": run.last} if run.last else {},
    }
    if run.started_at:
        status["containerID"] = f"containerd://{_digest(pod, container, run.restarts)}"
    return status


def _static_status(pod: Json, container: Json) -> Json:
    image = text(container.get("image"))
    image_id = f"fake@sha256:{hashlib.sha256(image.encode()).hexdigest()}"
    return {"name": container.get("name"), "image": image, "imageID": image_id}


def _state(run: PodRun, pod: Json, container: Json) -> Json:
    if run.state == "waiting":
        inits = spec_of(pod).get("initContainers")
        return {"waiting": {"reason": "PodInitializing" if inits else "ContainerCreating"}}
    if run.state == "running":
        return {"running": {"startedAt": times.timestamp(run.started_at)}}
    if run.state == "finished":
        if run.started_at:
            return {"terminated": _terminated_state(run.started_at, run.since, run.exit_code)}
        message = "The container could not be located when the pod was terminated"
        gone: Json = {"reason": "ContainerStatusUnknown", "message": message}
        return {"terminated": {**gone, "exitCode": _KILLED, "startedAt": None, "finishedAt": None}}
    delay = _duration(run.backoff_seconds)
    who = f"{name_of(pod)}_{namespace_of(pod)}({text(metadata_of(pod).get('uid'))})"
    message = (
        f"back-off {delay} restarting failed container={text(container.get('name'))} pod={who}"
    )
    return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}


def _duration(seconds: float) -> str:
    """As Go shows whole seconds."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _terminated_state(started: float, ended: float, code: int) -> Json:
    return {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": times.timestamp(started),
        "finishedAt": times.timestamp(ended),
    }


def _init_status(run: PodRun, pod: Json, container: Json) -> Json:
    """Sidecars run beside the pod's containers, others have ended before these begin."""
    status = _static_status(pod, container)
    status |= {"restartCount": 0, "lastState": {}, "ready": run.state != "waiting"}
    at = times.timestamp(run.accepted_at)
    if container.get("restartPolicy") == "Always":
        up = run.state in ("running", "backoff")
        status |= {"ready": up, "started": up}
    if run.state == "waiting":
        status["state"] = {"waiting": {"reason": "PodInitializing"}}
    elif container.get("restartPolicy") == "Always" and run.state != "finished":
        status["state"] = {"running": {"startedAt": at}}
    else:
        status |= {"started": False}
        ended = _terminated_state(run.accepted_at, run.accepted_at, 0)
        status["state"] = {"terminated": ended}
    return status


def _digest(pod: Json, container: Json, restarts: int) -> str:
    key = f"{metadata_of(pod).get('uid')}/{container.get('name')}/{restarts}"
    return hashlib.sha256(key.encode()).hexdigest()
