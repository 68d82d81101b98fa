"""The Workload and the PodGroup of a Job whose pods are a gang, as with the gate WorkloadWithJob.

A Job is a gang if it is Indexed, with `parallelism` equal to `completions` and above 1, and its
template names no group. The objects are made before its first pod, and only for a Job that has
never started. Objects of others that refer to the Job, or several of them, leave its pods alone.

Source: pkg/controller/job/job_scheduling_manager.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.objects import Object, owner_reference
from fakeapi.actors.owners.pods import safe_encoded
from fakeapi.actors.resources import JOBS, POD_GROUPS, WORKLOADS
from fakeapi.types.objects import Json, mapping, mappings, text

if TYPE_CHECKING:
    from fakeapi.actors.owners.pods import Owner

_NAME_MAX: Final = 253
_STARTED: Final = ("startTime", "succeeded", "failed")


class PodGroupsOfJobs:
    """Finds or creates the objects; `jobs` is the controller that writes them."""

    def __init__(self, jobs: Owner) -> None:
        self._jobs: Final = jobs
        self._workloads: Final = jobs.informer(WORKLOADS)
        self._groups: Final = jobs.informer(POD_GROUPS)

    async def pod_group(self, job: Object, pods: list[Object]) -> Object | None:
        """Return the PodGroup for the Job's new pods; None if they have no group.

        Raises ActorApiError.
        """
        if not _is_gang(job):
            return None
        workload = await self._workload(job, pods)
        if workload is None:
            return None
        groups = [
            group
            for group in self._groups.of_namespace(job.namespace)
            if _workload_of(group) == workload.name
        ]
        if not groups:
            return await self._jobs.create(POD_GROUPS, _new_pod_group(job, workload))
        return _owned(groups, job)

    async def _workload(self, job: Object, pods: list[Object]) -> Object | None:
        workloads = [
            workload
            for workload in self._workloads.of_namespace(job.namespace)
            if _job_of(workload) == job.name
        ]
        if workloads:
            owned = _owned(workloads, job)
            has_one = owned is not None and len(_templates(owned)) == 1
            return owned if has_one else None
        if not _is_new(job, pods):
            return None
        made = await self._jobs.create(WORKLOADS, _new_workload(job))
        message = f"Created Workload {made.name} for Job {job.name}"
        await self._jobs.record(job, "WorkloadCreated", message)
        return made


def in_group(pod: Object, group: Object) -> Object:
    """Return the pod as a member of the group.

    The pod gets no reference to the group: upstream's is lost before it reaches the server.
    """
    return pod.changed(spec={**pod.spec, "schedulingGroup": {"podGroupName": group.name}})


def _is_gang(job: Object) -> bool:
    spec = job.spec
    parallelism = spec.get("parallelism")
    return (
        isinstance(parallelism, int)
        and parallelism > 1
        and spec.get("completionMode") == "Indexed"
        and spec.get("completions") == parallelism
        and mapping(mapping(spec.get("template")).get("spec")).get("schedulingGroup") is None
    )


def _is_new(job: Object, pods: list[Object]) -> bool:
    """Return True if the Job has never started, nor been suspended."""
    is_started = any(job.status.get(name) for name in _STARTED)
    return not pods and not is_started and not job.condition("Suspended")


def _owned(objects: list[Object], job: Object) -> Object | None:
    """Return the only object, if the Job controls it."""
    if len(objects) == 1 and objects[0].owner.get("uid") == job.uid:
        return objects[0]
    return None


def _job_of(workload: Object) -> str:
    """Return the name of the Job that a Workload is for; empty for other owners."""
    owner = mapping(workload.spec.get("controllerRef"))
    is_job = (owner.get("apiGroup"), owner.get("kind")) == (JOBS.group, JOBS.kind)
    return text(owner.get("name")) if is_job else ""


def _workload_of(group: Object) -> str:
    reference = mapping(group.spec.get("podGroupTemplateRef"))
    return text(mapping(reference.get("workload")).get("workloadName"))


def _templates(workload: Object) -> list[Json]:
    return mappings(workload.spec.get("podGroupTemplates"))


def _new_workload(job: Object) -> Json:
    name = job.name
    template = {
        "name": f"{name}-pgt-0",
        "schedulingPolicy": {"gang": {"minCount": job.spec.get("parallelism")}},
    }
    return {
        "metadata": {
            "name": workload_name(name, job.uid),
            "namespace": job.namespace,
            "ownerReferences": [owner_reference(JOBS, job)],
        },
        "spec": {
            "controllerRef": {"apiGroup": JOBS.group, "kind": JOBS.kind, "name": name},
            "podGroupTemplates": [template],
        },
    }


def _new_pod_group(job: Object, workload: Object) -> Json:
    name, template = workload.name, _templates(workload)[0]
    owner = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "name": name,
        "uid": workload.uid,
    }
    reference = {"workloadName": name, "podGroupTemplateName": template["name"]}
    return {
        "metadata": {
            "name": pod_group_name(name, text(template["name"])),
            "namespace": job.namespace,
            "ownerReferences": [owner_reference(JOBS, job), owner],
        },
        "spec": {
            "podGroupTemplateRef": {"workload": reference},
            "schedulingPolicy": template["schedulingPolicy"],
        },
    }


def workload_name(job_name: str, uid: str) -> str:
    """Return the name of a Job's Workload, with a hash of the Job's uid."""
    ending = f"-{_hash(f'(types.UID){uid}')}"
    return job_name[: _NAME_MAX - len(ending)] + ending


def pod_group_name(workload: str, template: str) -> str:
    """Return the name of a Workload's PodGroup, with a hash of both names."""
    ending = f"-{_hash(workload + template)}"
    room = _NAME_MAX - len(ending) - 1
    if len(workload) + len(template) > room:
        # Each name has half of the room; a short one leaves the rest to the other.
        half = room // 2
        if len(workload) <= half:
            template = template[: room - len(workload)]
        elif len(template) <= half:
            workload = workload[: room - len(template)]
        else:
            workload, template = workload[: room - half], template[:half]
    return f"{workload}-{template}{ending}"


def _hash(value: str) -> str:
    """Return the 32-bit FNV-1a hash of a text, in upstream's alphabet."""
    number = 0x811C9DC5
    for byte in value.encode():
        number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
    return safe_encoded(str(number))
