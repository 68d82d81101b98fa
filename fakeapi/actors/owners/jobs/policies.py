"""podFailurePolicy and successPolicy. Source: pod_failure_policy.go, success_policy.go."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.actors.owners.jobs.indexes import parsed
from fakeapi.types.objects import (
    Json,
    integer,
    mapping,
    mappings,
    name_of,
    namespace_of,
    sequence,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Set

__all__ = ["Failure", "matched_success", "matching_failure"]


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """What a pod's failure means: the end of the Job (and why), of its index, or one more."""

    message: str = ""
    counts: bool = True
    action: str = ""


_COUNTED: Final = Failure()


def matching_failure(job: Json, pod: Json) -> Failure:
    """What the first rule that matches a failed pod says; a failure counts if none does."""
    policy = mapping(mapping(job.get("spec")).get("podFailurePolicy"))
    for index, rule in enumerate(mappings(policy.get("rules"))):
        why = _match(rule, pod)
        if not why:
            continue
        action = text(rule.get("action"))
        message = f"{why} matching {action} rule at index {index}" if action == "FailJob" else ""
        return Failure(message, counts=action != "Ignore", action=action)
    return _COUNTED


def _match(rule: Json, pod: Json) -> str:
    """Why a rule matches a pod, empty if it does not."""
    status = mapping(pod.get("status"))
    who = f"{namespace_of(pod)}/{name_of(pod)}"
    if rule.get("onExitCodes") is not None:
        wanted = mapping(rule["onExitCodes"])
        for field in ("containerStatuses", "initContainerStatuses"):
            for container in mappings(status.get(field)):
                code = _exit_code(container)
                name = wanted.get("containerName")
                if code and name in (None, container.get("name")) and _is_among(code, wanted):
                    return (
                        f"Container {container.get('name')} for pod {who} failed "
                        f"with exit code {code}"
                    )
        return ""
    for condition in mappings(status.get("conditions")):
        for pattern in mappings(rule.get("onPodConditions")):
            if all(pattern.get(name) == condition.get(name) for name in ("type", "status")):
                return f"Pod {who} has condition {condition.get('type')}"
    return ""


def _exit_code(container: Json) -> int:
    return integer(mapping(mapping(container.get("state")).get("terminated")).get("exitCode"))


def _is_among(code: int, wanted: Json) -> bool:
    return (code in sequence(wanted.get("values"))) == (wanted.get("operator") == "In")


def matched_success(job: Json, succeeded: Set[int]) -> str:
    """Which rule of the successPolicy is met, empty if none is."""
    spec = mapping(job.get("spec"))
    if not succeeded:
        return ""
    for index, rule in enumerate(mappings(mapping(spec.get("successPolicy")).get("rules"))):
        count = rule.get("succeededCount")
        there = len(succeeded)
        if rule.get("succeededIndexes") is not None:
            wanted = parsed(text(rule["succeededIndexes"]), integer(spec.get("completions")))
            if not wanted:
                continue
            there = len(wanted & succeeded)
            if there == len(wanted):
                return f"Matched rules at index {index}"
        if isinstance(count, int) and there >= count:
            return f"Matched rules at index {index}"
    return ""
