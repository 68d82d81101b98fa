"""Cells of pods.

Source: pkg/printers/internalversion/printers.go, printPod, of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.types.columns import NONE, find_mappings, find_text
from fakeapi.types.durations import age
from fakeapi.types.objects import integer, is_deleting, mapping, text

if TYPE_CHECKING:
    from fakeapi.types.objects import Json

_TERMINAL: Final = ("Succeeded", "Failed")
_COMPLETED_MESSAGES: Final[dict[str, str]] = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


@dataclasses.dataclass(slots=True)
class _Status:
    """The status of a pod's containers, summed up."""

    reason: str
    ready: int = 0
    restarts: int = 0
    #: Timestamp of the latest restart; timestamps sort as text.
    last_restart: str = ""

    def add_restarts(self, status: Json) -> None:
        self.restarts += integer(status.get("restartCount"))
        ended = mapping(mapping(status.get("lastState")).get("terminated"))
        self.last_restart = max(self.last_restart, text(ended.get("finishedAt")))


def _sidecars(pod: Json) -> set[str]:
    """Return the names of the init containers that restart for as long as the pod runs."""
    return {
        text(container.get("name"))
        for container in find_mappings(pod, ".spec.initContainers")
        if container.get("restartPolicy") == "Always"
    }


def _pod_status(pod: Json) -> _Status:
    result = _Status(_phase_reason(pod))
    sidecars = _Status("")
    is_initializing = _add_init_containers(pod, result, sidecars)
    if not is_initializing or _has_condition(pod, "Initialized"):
        result.restarts, result.last_restart = sidecars.restarts, sidecars.last_restart
        _add_containers(pod, result)
    if is_deleting(pod):
        if find_text(pod, ".status.reason") == "NodeLost":
            result.reason = "Unknown"
        elif find_text(pod, ".status.phase") not in _TERMINAL:
            result.reason = "Terminating"
    return result


def _add_init_containers(pod: Json, result: _Status, sidecars: _Status) -> bool:
    """Add the init containers up to the first that is not done. True if there is such a one."""
    sidecar_names = _sidecars(pod)
    total = len(find_mappings(pod, ".spec.initContainers"))
    for index, status in enumerate(find_mappings(pod, ".status.initContainerStatuses")):
        is_sidecar = text(status.get("name")) in sidecar_names
        result.add_restarts(status)
        if is_sidecar:
            sidecars.add_restarts(status)
        ended = _state(status, "terminated")
        if ended is not None and integer(ended.get("exitCode")) == 0:
            continue
        if is_sidecar and status.get("started") is True:
            result.ready += status.get("ready") is True
            continue
        result.reason = _init_reason(status, f"{index}/{total}")
        return True
    return False


def _add_containers(pod: Json, result: _Status) -> None:
    """Add the containers from the last to the first: the reason of the first counts."""
    has_running, error_reason = False, ""
    for status in reversed(find_mappings(pod, ".status.containerStatuses")):
        result.add_restarts(status)
        waiting, ended = _state(status, "waiting"), _state(status, "terminated")
        if waiting is not None and waiting.get("reason"):
            result.reason = text(waiting.get("reason"))
        elif ended is not None:
            result.reason = _end_reason(ended)
            if integer(ended.get("exitCode")) != 0:
                error_reason = result.reason
        elif status.get("ready") is True and _state(status, "running") is not None:
            has_running = True
            result.ready += 1
    if result.reason == "Completed":
        if has_running and _has_condition(pod, "Ready"):
            result.reason = "Running"
        elif error_reason or has_running:
            result.reason = error_reason or "NotReady"


def _state(status: Json, name: str) -> Json | None:
    state = mapping(status.get("state")).get(name)
    return state if isinstance(state, dict) else None


def _end_reason(ended: Json) -> str:
    if ended.get("reason"):
        return text(ended.get("reason"))
    if integer(ended.get("signal")):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{integer(ended.get('exitCode'))}"


def _init_reason(status: Json, position: str) -> str:
    ended, waiting = _state(status, "terminated"), _state(status, "waiting")
    if ended is not None:
        return f"Init:{_end_reason(ended)}"
    if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
        return f"Init:{waiting['reason']}"
    return f"Init:{position}"


def _has_condition(pod: Json, wanted: str) -> bool:
    conditions = find_mappings(pod, ".status.conditions")
    condition = next((item for item in conditions if item.get("type") == wanted), {})
    return condition.get("status") == "True"


def _phase_reason(pod: Json) -> str:
    for condition in find_mappings(pod, ".status.conditions"):
        kind, reason = condition.get("type"), condition.get("reason")
        if (kind, reason) == ("PodScheduled", "SchedulingGated"):
            return "SchedulingGated"
    return find_text(pod, ".status.reason") or find_text(pod, ".status.phase")


def ready(pod: Json, _now_seconds: float) -> str:
    """Return the numbers of ready and of all containers, sidecars included."""
    total = len(find_mappings(pod, ".spec.containers")) + len(_sidecars(pod))
    return f"{_pod_status(pod).ready}/{total}"


def reason(pod: Json, _now_seconds: float) -> str:
    """Return the status: one word for phase, containers and deletion."""
    return _pod_status(pod).reason


def restarts(pod: Json, now_seconds: float) -> str:
    """Return the number of restarts and the time since the last."""
    status = _pod_status(pod)
    if status.restarts and status.last_restart:
        return f"{status.restarts} ({age(status.last_restart, now_seconds)} ago)"
    return str(status.restarts)


def readiness_gates(pod: Json, _now_seconds: float) -> str:
    """Return the numbers of true and of all readiness gates."""
    gates = find_mappings(pod, ".spec.readinessGates")
    passed = sum(_has_condition(pod, text(gate.get("conditionType"))) for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE


def row_conditions(pod: Json) -> list[Json]:
    """Return the condition of a completed pod, by which clients may hide its row."""
    phase = find_text(pod, ".status.phase")
    if phase not in _COMPLETED_MESSAGES:
        return []
    message = _COMPLETED_MESSAGES[phase]
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]
