"""Rows of pods: what state a pod is in, in one word.

Source: pkg/printers/internalversion/printers.go, printPod, of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.printing.columns import (
    AGE,
    NAME,
    NONE,
    age_of,
    mappings_at,
    text_at,
    texts_columns,
    wide,
)
from fakeapi.printing.durations import age
from fakeapi.types.objects import integer, is_deleting, mapping, mappings, name_of, text
from fakeapi.types.printer import Printer

if TYPE_CHECKING:
    from fakeapi.types.objects import Json

_TERMINAL: Final = ("Succeeded", "Failed")
_DONE: Final[dict[str, str]] = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


class _Containers:
    """What is gathered while the containers of a pod are looked at."""

    def __init__(self, pod: Json, reason: str) -> None:
        self.pod = pod
        self.reason = reason
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""
        self.sidecars = {
            text(container.get("name"))
            for container in mappings_at(pod, "spec", "initContainers")
            if container.get("restartPolicy") == "Always"
        }
        self.initializing = False
        self._sidecar_restarts = 0
        self._sidecar_last = ""

    def look_at_init_containers(self) -> None:
        """Up to the first that is not done: the pod waits for it."""
        total = len(mappings_at(self.pod, "spec", "initContainers"))
        statuses = mappings_at(self.pod, "status", "initContainerStatuses")
        for index, status in enumerate(statuses):
            restarts, last = integer(status.get("restartCount")), _last_end(status)
            self.restarts += restarts
            self.last_restart = max(self.last_restart, last)
            is_sidecar = text(status.get("name")) in self.sidecars
            if is_sidecar:
                self._sidecar_restarts += restarts
                self._sidecar_last = max(self._sidecar_last, last)
            ended = _state(status, "terminated")
            if ended is not None and integer(ended.get("exitCode")) == 0:
                continue
            if is_sidecar and status.get("started") is True:
                self.ready += status.get("ready") is True
                continue
            self.reason = _init_reason(status, f"{index}/{total}")
            self.initializing = True
            return

    def look_at_containers(self) -> None:
        """From the last to the first, so that the first with a reason is the one shown."""
        self.restarts, self.last_restart = self._sidecar_restarts, self._sidecar_last
        has_running, error_reason = False, ""
        for status in reversed(mappings_at(self.pod, "status", "containerStatuses")):
            self.restarts += integer(status.get("restartCount"))
            self.last_restart = max(self.last_restart, _last_end(status))
            waiting, ended = _state(status, "waiting"), _state(status, "terminated")
            if waiting is not None and waiting.get("reason"):
                self.reason = text(waiting.get("reason"))
            elif ended is not None:
                self.reason = _end_reason(ended)
                if integer(ended.get("exitCode")) != 0:
                    error_reason = self.reason
            elif status.get("ready") is True and _state(status, "running") is not None:
                has_running = True
                self.ready += 1
        if self.reason == "Completed":
            if has_running and _has_condition(self.pod, "Ready"):
                self.reason = "Running"
            elif error_reason or has_running:
                self.reason = error_reason or "NotReady"


def _state(status: Json, name: str) -> Json | None:
    state = mapping(status.get("state")).get(name)
    return state if isinstance(state, dict) else None


def _last_end(status: Json) -> str:
    """When the container ended the last time; timestamps sort as text."""
    return text(mapping(mapping(status.get("lastState")).get("terminated")).get("finishedAt"))


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
    found = next((c for c in mappings_at(pod, "status", "conditions") if c["type"] == wanted), {})
    return found.get("status") == "True"


def _phase_reason(pod: Json) -> str:
    for condition in mappings_at(pod, "status", "conditions"):
        kind, reason = condition.get("type"), condition.get("reason")
        if (kind, reason) == ("PodScheduled", "SchedulingGated"):
            return "SchedulingGated"
    return text_at(pod, "status", "reason") or text_at(pod, "status", "phase")


def _status(pod: Json) -> _Containers:
    seen = _Containers(pod, _phase_reason(pod))
    seen.look_at_init_containers()
    if not seen.initializing or _has_condition(pod, "Initialized"):
        seen.look_at_containers()
    if is_deleting(pod):
        if text_at(pod, "status", "reason") == "NodeLost":
            seen.reason = "Unknown"
        elif text_at(pod, "status", "phase") not in _TERMINAL:
            seen.reason = "Terminating"
    return seen


def _readiness_gates(pod: Json) -> str:
    gates = mappings_at(pod, "spec", "readinessGates")
    if not gates:
        return NONE
    passed = sum(_has_condition(pod, text(gate.get("conditionType"))) for gate in gates)
    return f"{passed}/{len(gates)}"


def _cells(pod: Json, now_seconds: float) -> list[object]:
    seen = _status(pod)
    total = len(mappings_at(pod, "spec", "containers")) + len(seen.sidecars)
    restarts = str(seen.restarts)
    if seen.restarts and seen.last_restart:
        restarts = f"{restarts} ({age(seen.last_restart, now_seconds)} ago)"
    addresses = mappings(mapping(pod.get("status")).get("podIPs"))
    return [
        name_of(pod),
        f"{seen.ready}/{total}",
        seen.reason,
        restarts,
        age_of(pod, now_seconds),
        (text(addresses[0].get("ip")) if addresses else "") or NONE,
        text_at(pod, "spec", "nodeName") or NONE,
        text_at(pod, "status", "nominatedNodeName") or NONE,
        _readiness_gates(pod),
    ]


def _conditions(pod: Json) -> list[Json]:
    """Pods that are done carry a condition, by which clients may hide them."""
    phase = text_at(pod, "status", "phase")
    if phase not in _DONE:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _DONE[phase]}]


PODS: Final = Printer(
    (
        NAME,
        *texts_columns("Ready", "Status", "Restarts"),
        AGE,
        *wide("IP", "Node", "Nominated Node", "Readiness Gates"),
    ),
    _cells,
    _conditions,
)
