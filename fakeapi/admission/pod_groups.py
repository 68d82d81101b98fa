"""PodGroupProtection, PodGroupWorkloadExists and JobValidation: pod groups and their members.

Source: plugin/pkg/admission/{scheduling/podgroupprotection,podgroup,job} of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation, Review
from fakeapi.types.kind import POD_GROUPS
from fakeapi.types.objects import (
    Json,
    child,
    finalizers_of,
    is_deleting,
    mapping,
    mappings,
    metadata_of,
    name_of,
    namespace_of,
    text,
)

_WORKLOADS: Final = ("scheduling.k8s.io", "workloads")
_JOBS: Final = ("batch", "jobs")
_FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"


class PodGroupProtection(Plugin):
    """Adds the finalizer that keeps a PodGroup while pods refer to it.

    A controller removes it, here the actor podgroup-protection-controller. Without one a deleted
    PodGroup stays until a client removes its finalizer.
    """

    name = "PodGroupProtection"
    resources = (POD_GROUPS,)

    def mutate(self, review: Review) -> None:
        present = finalizers_of(review.object)
        if _FINALIZER not in present:
            child(review.object, "metadata")["finalizers"] = [*present, _FINALIZER]


class PodGroupWorkloadExists(Plugin):
    """Refuses a PodGroup whose Workload, or whose template in it, does not exist."""

    name = "PodGroupWorkloadExists"
    resources = (POD_GROUPS,)

    def check(self, review: Review) -> None:
        spec = mapping(review.object.get("spec"))
        reference = mapping(spec.get("podGroupTemplateRef")).get("workload")
        if reference is None:
            return
        name = text(mapping(reference).get("workloadName"))
        template = text(mapping(reference).get("podGroupTemplateName"))
        workload = review.registry.store.get(_WORKLOADS, namespace_of(review.object), name)
        if workload is None:
            raise review.forbid(f'PodGroup rejected: Workload "{name}" not found')
        if is_deleting(workload.object):
            raise review.forbid(f'PodGroup rejected: Workload "{name}" is being deleted')
        templates = mappings(mapping(workload.object.get("spec")).get("podGroupTemplates"))
        if all(one.get("name") != template for one in templates):
            raise review.forbid(
                f'PodGroup rejected: PodGroupTemplate "{template}" not found in Workload "{name}"'
            )


class JobValidation(Plugin):
    """Refuses that the parallelism of a Job changes while its pods are a gang."""

    name = "JobValidation"
    resources = (_JOBS,)
    operations = (Operation.UPDATE,)

    def check(self, review: Review) -> None:
        old = review.old or {}
        spec, old_spec = mapping(review.object.get("spec")), mapping(old.get("spec"))
        if spec.get("parallelism") == old_spec.get("parallelism"):
            return
        for group in _groups_of_job(review, old):
            if mapping(mapping(group.get("spec")).get("schedulingPolicy")).get("gang") is not None:
                raise review.forbid(
                    "cannot change parallelism for a Job referencing gang-scheduled PodGroup "
                    f'"{name_of(group)}"'
                )


def _groups_of_job(review: Review, job: Json) -> list[Json]:
    """Return the PodGroup of the Job's template, or the PodGroups that the Job controls."""
    store, namespace = review.registry.store, namespace_of(job)
    template = mapping(mapping(mapping(job.get("spec")).get("template")).get("spec"))
    name = mapping(template.get("schedulingGroup")).get("podGroupName")
    if name is not None:
        stored = store.get(POD_GROUPS, namespace, text(name))
        return [] if stored is None else [stored.object]
    uid = metadata_of(job).get("uid")
    return [
        group
        for group in store.in_namespace(POD_GROUPS, namespace)
        if any(
            owner.get("uid") == uid and owner.get("controller") is True
            for owner in mappings(metadata_of(group).get("ownerReferences"))
        )
    ]
