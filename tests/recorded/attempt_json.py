"""An attempt to schedule a pod or a group, in the recorded format."""

from collections.abc import Iterable
from typing import Any, Final

from scheduler.cycle.pod_group.results import MemberResult, PlacementResult, PodGroupAttempt
from scheduler.cycle.schedule_one import Found
from scheduler.cycle.schedule_pod import ScheduleResult
from scheduler.framework.status import Code, Status
from scheduler.framework.types import FitError, NominatingMode
from scheduler.snapshot import PodInfo

#: A JSON object.
Json = dict[str, Any]

SUCCESS: Final = Status(Code.SUCCESS)


def group_attempt_json(attempt: PodGroupAttempt) -> Json:
    """Return one attempt of a pod group."""
    if not attempt.members:
        return {}
    result = attempt.result
    json: Json = {
        "group": attempt.info.key,
        "members": [member.key for member in attempt.members],
        "error": attempt.failure,
        "pods": [_member_json(member) for member in result.members],
        "placements": [_placement_json(placement) for placement in attempt.placements],
        "waitingOnPreemption": result.waiting_on_preemption,
        "message": result.status.message if result.status is not None else "",
    }
    if attempt.placement is not None:
        json["placement"] = attempt.placement.name
    if not attempt.failure:
        json["status"] = _status_json(result.status)
    if attempt.preemption_status is not None:
        tried = attempt.preemption.tried if attempt.preemption is not None else ()
        codes = [(status or SUCCESS).code for status in attempt.simulations]
        # Upstream searches for each unit, also where the room is counted.
        codes += [
            Code.SUCCESS if spared else Code.UNSCHEDULABLE for _, spared in tried[len(codes) - 1 :]
        ]
        json["workloadPreemption"] = bare(
            {
                "status": _status_json(attempt.preemption_status),
                "simulations": [str(code) for code in codes],
                "reprieve": [[sorted(pods), spared] for pods, spared in tried],
            }
        )
    return json


def _placement_json(placement: PlacementResult) -> Json:
    result, scores = placement.result, placement.scores
    return bare(
        {
            "name": placement.placement.name,
            "nodes": placement.placement.nodes.names,
            "status": _status_json(result.status),
            "waitingOnPreemption": result.waiting_on_preemption,
            "pods": [[m.attempt.pod.key, m.host] for m in result.members],
            "scores": dict(scores.by_plugin) if scores is not None else {},
            "total": scores.total if scores is not None else 0,
        },
        keep=("name",),
    )


def _member_json(member: MemberResult) -> Json:
    json = pod_json(member.attempt.pod, member.found, member.permit_status)
    if member.requires_preemption:
        json.update({"node": member.host, "requiresPreemption": True})
    return json


def pod_json(pod: PodInfo, found: Found, permit: Status | None) -> Json:
    """Return one pod's result; `permit` is the status of Permit for a pod with a node."""
    status, result, info = found.status, found.result, found.nominating_info
    json: Json = {"pod": pod.key, "code": str((status or SUCCESS).code)}
    if result is not None:
        json.update(_scores_json(result))
        if status is None:
            json["node"] = result.suggested_host
            json["evaluated"] = result.evaluated_nodes
            json["feasible"] = len(result.feasible_nodes)
    if status is not None:
        json["message"] = status.message
        if isinstance(status.cause, FitError):
            diagnosis = status.cause.diagnosis
            json["filter"] = {
                name: bare(sorted_status_json(rejection))
                for name, rejection in diagnosis.node_to_status.items()
            }
            json["unschedulablePlugins"] = sorted(diagnosis.unschedulable_plugins)
        if info is not None and info.mode == NominatingMode.OVERRIDE:
            json["nominatedNode"] = info.nominated_node_name
    if permit is not None and (status is None or info is not None):
        json["permit"] = _status_json(permit)
    return bare(json, keep=("nominatedNode",))


def _scores_json(result: ScheduleResult) -> Json:
    if result.scores is None:
        return {}
    names = result.feasible_nodes.names
    by_plugin = {plugin: column.tolist() for plugin, column in result.scores.by_plugin.items()}
    return {
        "scores": {
            name: {plugin: column[i] for plugin, column in by_plugin.items() if column[i]}
            for i, name in enumerate(names)
        },
        "total": dict(zip(names, result.scores.total.tolist(), strict=True)),
    }


def sorted_status_json(status: Status) -> Json:
    """Return a status. Upstream's order of its reasons is left to chance."""
    reasons = sorted(status.reasons)
    return {"code": str(status.code), "plugin": status.plugin, "reasons": reasons}


def _status_json(status: Status | None) -> Json:
    status = status or SUCCESS
    reasons = [*status.reasons]
    return bare({"code": str(status.code), "plugin": status.plugin, "reasons": reasons})


def bare(json: Json, *, keep: Iterable[str] = ()) -> Json:
    """Return the fields that are not empty, and those to keep."""
    return {key: value for key, value in json.items() if value or key in keep}
