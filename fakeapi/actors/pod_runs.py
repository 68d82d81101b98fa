"""The life of a pod on its node, without I/O: the runs of its containers, and its status.

    waiting ──startup──> running ──run time──> finished
                            ^  │
                            │  └──restart policy──> backoff (10 s, doubling, at most 300 s)
                            └──────────────────────────┘

All containers of a pod start and end together. A container with a readiness probe is ready once
its initialDelaySeconds have passed. Source: pkg/kubelet/{kubelet_pods,status,prober} and
kuberuntime (doBackOff) of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from typing import Final

from fakeapi.actors.objects import Object, with_condition
from fakeapi.types import times
from fakeapi.types.objects import Json, integer, mapping, mappings, text

_BACKOFF_SECONDS: Final = 10.0
_BACKOFF_SECONDS_MAX: Final = 300.0
_EXIT_CODE_KILLED: Final = 137
_EXIT_CODE_TERMINATED: Final = 143
_DEADLINE_MESSAGE: Final = "Pod was active on the node longer than the specified deadline"


@dataclasses.dataclass(frozen=True, slots=True)
class PodPlan:
    """The times (seconds) and exit codes of a pod's containers.

    With `run_seconds` None containers run until they are stopped. The last of `exit_codes` also
    belongs to all later runs. With `termination_seconds` None they use the whole grace period.
    """

    startup_seconds: float = 1.0
    run_seconds: float | None = None
    exit_codes: tuple[int, ...] = (0,)
    termination_seconds: float | None = None

    def exit_code(self, run: int) -> int:
        """Return the exit code of a run; the first run is 0."""
        return self.exit_codes[min(run, len(self.exit_codes) - 1)]


class State(enum.StrEnum):
    """The state of all containers of a pod."""

    WAITING = enum.auto()
    RUNNING = enum.auto()
    BACKOFF = enum.auto()
    FINISHED = enum.auto()


@dataclasses.dataclass(slots=True)
class PodRun:
    """The state of a pod's containers; times in epoch seconds."""

    state: State
    accepted_at: float
    since: float
    restarts: int = 0
    started_at: float = 0.0
    exit_code: int = 0
    backoff_seconds: float = 0.0
    reason: str = ""
    last: Json | None = None  # the state of the run before

    @property
    def phase(self) -> str:
        if self.state is State.WAITING:
            return "Pending"
        if self.state is not State.FINISHED:
            return "Running"
        return "Failed" if self.exit_code or self.reason else "Succeeded"


def begun(now: float) -> PodRun:
    """Return the run of a pod that the node accepts now."""
    return PodRun(State.WAITING, accepted_at=now, since=now)


def recovered(pod: Object, now: float) -> PodRun:
    """Return the run that a pod's status describes, for a kubelet that was started later."""
    status = pod.status
    accepted = _seconds(status.get("startTime"), now)
    run = PodRun(State.WAITING, accepted_at=accepted, since=accepted)
    container = next(iter(mappings(status.get("containerStatuses"))), {})
    state = mapping(container.get("state"))
    last = mapping(mapping(container.get("lastState")).get("terminated"))
    run.restarts, run.last = integer(container.get("restartCount")), last or None
    if pod.has_ended:
        ended = mapping(state.get("terminated"))
        run.state, run.exit_code = State.FINISHED, integer(ended.get("exitCode"))
        run.reason = text(status.get("reason"))
        run.started_at = _seconds(ended.get("startedAt"), now)
        run.since = _seconds(ended.get("finishedAt"), now)
    elif "running" in state:
        run.state = State.RUNNING
        run.since = run.started_at = _seconds(mapping(state["running"]).get("startedAt"), now)
        run.backoff_seconds = _backoff_before(run.restarts)
    elif last:
        run.state, run.since = State.BACKOFF, _seconds(last.get("finishedAt"), now)
        run.backoff_seconds = _backoff_before(run.restarts + 1)
    return run


def _backoff_before(restart: int) -> float:
    """Return the delay before a restart; there is none before restart 1."""
    if restart < 2:
        return 0.0
    return min(_BACKOFF_SECONDS * 2.0 ** min(restart - 2, 10), _BACKOFF_SECONDS_MAX)


def _seconds(stamp: object, now: float) -> float:
    return times.epoch_seconds(text(stamp)) if stamp else now


def step(run: PodRun, pod: Object, plan: PodPlan, now: float) -> float | None:
    """Make all steps that are due; return the seconds until the next step, or None."""
    while True:
        due = _due(run, plan)
        deadline = _deadline(run, pod)
        if deadline is not None and (due is None or deadline < due):
            if deadline <= now:
                _end(run, deadline, _EXIT_CODE_KILLED, "DeadlineExceeded")
                continue
            due = deadline
        if due is not None and due <= now:
            _take_step(run, pod, plan, due)
            continue
        times_left = [at - now for at in (*_ready_times(run, pod), due) if at and at > now]
        return min(times_left, default=None)


def _deadline(run: PodRun, pod: Object) -> float | None:
    seconds = pod.spec.get("activeDeadlineSeconds")
    if run.state is State.FINISHED or not isinstance(seconds, int):
        return None
    return run.accepted_at + seconds


def _due(run: PodRun, plan: PodPlan) -> float | None:
    if run.state is State.WAITING:
        return run.since + plan.startup_seconds
    if run.state is State.RUNNING:
        return None if plan.run_seconds is None else run.since + plan.run_seconds
    return run.since + run.backoff_seconds if run.state is State.BACKOFF else None


def _ready_times(run: PodRun, pod: Object) -> list[float]:
    """Return the times at which the running containers become ready."""
    if run.state is not State.RUNNING:
        return []
    return [_ready_at(run, container) for container in mappings(pod.spec.get("containers"))]


def _ready_at(run: PodRun, container: Json) -> float:
    probe = mapping(container.get("readinessProbe"))
    return run.started_at + integer(probe.get("initialDelaySeconds"))


def _take_step(run: PodRun, pod: Object, plan: PodPlan, when: float) -> None:
    if run.state is State.WAITING:
        _start(run, when)
    elif run.state is State.BACKOFF:
        run.restarts += 1
        _start(run, when)
    else:
        code = plan.exit_code(run.restarts)
        policy = text(pod.spec.get("restartPolicy")) or "Always"
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            _end(run, when, code)
        else:
            _back_off(run, when, code)


def _start(run: PodRun, when: float) -> None:
    run.state, run.since, run.started_at = State.RUNNING, when, when


def _end(run: PodRun, when: float, code: int, reason: str = "") -> None:
    if run.state is not State.RUNNING:
        run.started_at = 0.0
    run.state, run.since, run.exit_code, run.reason = State.FINISHED, when, code, reason


def _back_off(run: PodRun, when: float, code: int) -> None:
    """Plan a restart: the first one, and one after a run of ten minutes, come without delay."""
    if when - run.started_at > 2 * _BACKOFF_SECONDS_MAX or not run.last:
        run.backoff_seconds = 0.0
    else:
        doubled = run.backoff_seconds * 2 or _BACKOFF_SECONDS
        run.backoff_seconds = min(doubled, _BACKOFF_SECONDS_MAX)
    run.last = _terminated_state(run.started_at, when, code)
    run.state, run.since = State.BACKOFF, when


def terminated(run: PodRun, now: float, *, killed: bool) -> PodRun:
    """Return the run ended by the deletion of its pod."""
    if run.state is State.FINISHED:
        return run
    ended = dataclasses.replace(run)
    was_killed = killed or run.state is not State.RUNNING
    _end(ended, now, _EXIT_CODE_KILLED if was_killed else _EXIT_CODE_TERMINATED)
    return ended


def pod_status(run: PodRun, pod: Object, *, host_ip: str, pod_ip: str, now: float) -> Json:
    """Return the fields of the status that the kubelet sets."""
    spec = pod.spec
    status: Json = {
        "phase": run.phase,
        "startTime": times.timestamp(run.accepted_at),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "conditions": _conditions(run, pod, now),
        "containerStatuses": [
            _container_status(run, pod, container, now)
            for container in mappings(spec.get("containers"))
        ],
    }
    if run.state is not State.WAITING and (run.started_at or pod.status.get("podIP")):
        status["podIP"], status["podIPs"] = pod_ip, [{"ip": pod_ip}]
    if mappings(spec.get("initContainers")):
        status["initContainerStatuses"] = [
            _init_status(run, container) for container in mappings(spec["initContainers"])
        ]
    generation = pod.generation
    if generation is not None:
        status["observedGeneration"] = generation
    if run.reason:
        status["reason"] = run.reason
        status["message"] = _DEADLINE_MESSAGE
    return status


def _conditions(run: PodRun, pod: Object, now: float) -> list[Json]:
    containers, containers_reason = _containers_ready(run, pod, now)
    ready, ready_reason = _gates_open(pod) if containers else (False, containers_reason)
    has_sandbox = run.state in (State.RUNNING, State.BACKOFF)
    wanted: list[tuple[str, bool, Json]] = [
        ("PodReadyToStartContainers", has_sandbox, {}),
        ("Initialized", *_initialized(run, pod)),
        ("Ready", ready, ready_reason),
        ("ContainersReady", containers, containers_reason),
    ]
    conditions: object = pod.status.get("conditions")
    generation = pod.generation
    observed: Json = {} if generation is None else {"observedGeneration": generation}
    for kind, holds, reason in wanted:
        condition: Json = {"type": kind, "status": "True" if holds else "False"}
        condition |= {"lastProbeTime": None, **observed, **reason}
        conditions = with_condition(conditions, condition, times.timestamp(now))
    ours = {kind for kind, *_ in wanted}
    return [one for one in mappings(conditions) if one.get("type") in ours]


def _containers_ready(run: PodRun, pod: Object, now: float) -> tuple[bool, Json]:
    """Return the ContainersReady condition's status, with reason and message if it is false."""
    if run.state is State.FINISHED:
        return False, {"reason": "PodCompleted" if run.phase == "Succeeded" else "PodFailed"}
    containers = mappings(pod.spec.get("containers"))
    unready = [one for one in containers if not _is_ready(run, one, now)]
    if not unready:
        return True, {}
    message = f"containers with unready status: [{_names(unready)}]"
    return False, {"reason": "ContainersNotReady", "message": message}


def _is_ready(run: PodRun, container: Json, now: float) -> bool:
    return run.state is State.RUNNING and _ready_at(run, container) <= now


def _initialized(run: PodRun, pod: Object) -> tuple[bool, Json]:
    inits = mappings(pod.spec.get("initContainers"))
    if run.state is State.WAITING and inits:
        message = f"containers with incomplete status: [{_names(inits)}]"
        return False, {"reason": "ContainersNotInitialized", "message": message}
    return True, {"reason": "PodCompleted"} if run.phase == "Succeeded" else {}


def _gates_open(pod: Object) -> tuple[bool, Json]:
    """True if the condition of every readiness gate is true, else False and the reason."""
    wrong = []
    for gate in mappings(pod.spec.get("readinessGates")):
        kind = text(gate.get("conditionType"))
        condition = pod.condition(kind)
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


def _names(containers: list[Json]) -> str:
    return " ".join(text(container.get("name")) for container in containers)


def _container_status(run: PodRun, pod: Object, container: Json, now: float) -> Json:
    status = _image_status(container)
    status |= {
        "ready": _is_ready(run, container, now),
        "started": run.state is State.RUNNING,
        "restartCount": run.restarts,
        "state": _container_state(run, pod, container),
        "lastState": {"terminated": run.last} if run.last else {},
    }
    if run.started_at:
        key = f"{pod.uid}/{container.get('name')}/{run.restarts}"
        status["containerID"] = f"containerd://{hashlib.sha256(key.encode()).hexdigest()}"
    return status


def _image_status(container: Json) -> Json:
    image = text(container.get("image"))
    image_id = f"fake@sha256:{hashlib.sha256(image.encode()).hexdigest()}"
    return {"name": container.get("name"), "image": image, "imageID": image_id}


def _container_state(run: PodRun, pod: Object, container: Json) -> Json:
    if run.state is State.WAITING:
        inits = pod.spec.get("initContainers")
        return {"waiting": {"reason": "PodInitializing" if inits else "ContainerCreating"}}
    if run.state is State.RUNNING:
        return {"running": {"startedAt": times.timestamp(run.started_at)}}
    if run.state is State.FINISHED:
        if run.started_at:
            return {"terminated": _terminated_state(run.started_at, run.since, run.exit_code)}
        lost: Json = {
            "reason": "ContainerStatusUnknown",
            "message": "The container could not be located when the pod was terminated",
            "exitCode": _EXIT_CODE_KILLED,
        }
        return {"terminated": {**lost, "startedAt": None, "finishedAt": None}}
    delay, name = _go_duration(run.backoff_seconds), text(container.get("name"))
    message = f"back-off {delay} restarting failed container={name} pod={full_name(pod)}"
    return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}


def full_name(pod: Object) -> str:
    """Return the pod's name as the kubelet's messages show it."""
    return f"{pod.name}_{pod.namespace}({pod.uid})"


def _go_duration(seconds: float) -> str:
    """Return whole seconds in Go's notation, as `1m20s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _terminated_state(started: float, ended: float, code: int) -> Json:
    return {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": times.timestamp(started),
        "finishedAt": times.timestamp(ended),
    }


def _init_status(run: PodRun, container: Json) -> Json:
    """Return the status of an init container: sidecars run with the pod, others have completed."""
    status = _image_status(container)
    is_sidecar = container.get("restartPolicy") == "Always"
    has_started = run.state is not State.WAITING
    is_running = is_sidecar and run.state in (State.RUNNING, State.BACKOFF)
    status |= {"restartCount": 0, "lastState": {}, "ready": has_started}
    if is_sidecar:
        status |= {"ready": is_running, "started": is_running}
    if not has_started:
        status["state"] = {"waiting": {"reason": "PodInitializing"}}
    elif is_running:
        status["state"] = {"running": {"startedAt": times.timestamp(run.accepted_at)}}
    else:
        status["started"] = False
        ended = _terminated_state(run.accepted_at, run.accepted_at, 0)
        status["state"] = {"terminated": ended}
    return status
