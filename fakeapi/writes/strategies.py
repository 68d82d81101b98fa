"""What the server itself decides about an object on a write, kind by kind.

Before validation, create drops what clients may not set, and each update takes back the half that
belongs to the other endpoint: the object keeps its status, the status subresource keeps the spec.

Source: PrepareForCreate and PrepareForUpdate in pkg/registry/*/strategy.go of Kubernetes v1.36.3.
All functions change the new object in place and leave the old one alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types import pod_resources, schema
from fakeapi.types.kind import PODS, Generation
from fakeapi.types.objects import (
    Json,
    child,
    integer,
    labels_of,
    mapping,
    mappings,
    metadata_of,
    sequence,
    text,
    texts,
)
from fakeapi.validation.pod_resizes import resized_spec
from fakeapi.validation.warnings import warnings_of_pod
from fakeapi.writes import conversions, defaults
from fakeapi.writes.job_selectors import generate_selector

if TYPE_CHECKING:
    from fakeapi.types.kind import Kind

_GATED: Final[Json] = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_DAEMON_SETS: Final = ("apps", "daemonsets")
_NAMESPACE_FINALIZER: Final = "kubernetes"
#: Kinds whose status endpoint resets labels, annotations, owners and finalizers.
_STATUS_RESETS_METADATA: Final = {
    ("storage.k8s.io", "volumeattachments"),
    ("resource.k8s.io", "resourceclaims"),
    ("scheduling.k8s.io", "podgroups"),
}
_TOKENS_IN_SECRETS: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to "
    "prevent possible logging of tokens in volume attributes"
)
_CLIENT_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")


def prepare_for_create(kind: Kind, obj: Json, now: str) -> None:
    """Set generation and the first status, and do what the kind asks for."""
    metadata = child(obj, "metadata")
    if kind.generation not in (Generation.NEVER, Generation.SPEC_LATER):
        metadata["generation"] = 1
    key = kind.resource_key
    if key == PODS:
        _prepare_pod(obj, now)
    elif key == ("", "namespaces"):
        obj["status"] = {"phase": "Active"}
        finalizers = texts(child(obj, "spec").get("finalizers"))
        if _NAMESPACE_FINALIZER not in finalizers:
            child(obj, "spec")["finalizers"] = [*finalizers, _NAMESPACE_FINALIZER]
    elif key == ("", "persistentvolumes"):
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}
    elif key == ("", "persistentvolumeclaims"):
        obj["status"] = {"phase": "Pending"}
    elif key == ("resource.k8s.io", "resourceslices"):
        defaults.with_taint_times(obj, now)
    elif key == _DAEMON_SETS:
        _set_template_generation(obj, 1)
        _reset_status(kind, obj)
    elif kind.has_status and not kind.keeps_status_on_create:
        _reset_status(kind, obj)
    kind.rules.prepare(obj)
    if key == ("batch", "jobs"):
        generate_selector(obj)


def _reset_status(kind: Kind, obj: Json) -> None:
    """Whatever status the client sent gives way to the zero value of its type."""
    zero = schema.decode(kind.schema, {}) if kind.schema else {}
    if kind.to_stored is not None:
        zero = kind.to_stored(zero)
    if "status" in zero:
        obj["status"] = zero["status"]
    else:
        obj.pop("status", None)


def _prepare_pod(pod: Json, now: str) -> None:
    spec = child(pod, "spec")
    if integer(spec.get("terminationGracePeriodSeconds")) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    _merge_all_label_keys(spec, labels_of(pod))
    status: Json = {"phase": "Pending", "qosClass": pod_resources.qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [{**_GATED, "lastTransitionTime": now}]
    pod["status"] = status


def _merge_all_label_keys(spec: Json, labels: Json) -> None:
    affinity = mapping(spec.get("affinity"))
    for name in ("podAffinity", "podAntiAffinity"):
        terms = mapping(affinity.get(name))
        for preferred in mappings(terms.get("preferredDuringSchedulingIgnoredDuringExecution")):
            _merge_label_keys(mapping(preferred.get("podAffinityTerm")), labels)
        for required in mappings(terms.get("requiredDuringSchedulingIgnoredDuringExecution")):
            _merge_label_keys(required, labels)
    for constraint in mappings(spec.get("topologySpreadConstraints")):
        _merge_label_keys(constraint, labels)


def _merge_label_keys(term: Json, labels: Json) -> None:
    """KEP-3633, KEP-3243: the pod's own values of matchLabelKeys become part of the selector."""
    selector = term.get("labelSelector")
    if not isinstance(selector, dict):
        return
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in texts(term.get(field))
        if key in labels
    ]
    if added:
        selector["matchExpressions"] = [*sequence(selector.get("matchExpressions")), *added]


def prepare_for_update(kind: Kind, new: Json, old: Json, now: str) -> None:
    """The object's own endpoint: the status stays, a changed spec moves the generation."""
    if kind.has_status:
        _take_back(new, old, "status")
    kind.rules.prepare(new)
    if kind.resource_key == ("", "namespaces"):
        finalizers = mapping(old.get("spec")).get("finalizers")
        spec = child(new, "spec")
        spec["finalizers"] = finalizers
        if finalizers is None:
            del spec["finalizers"]
    elif kind.resource_key == ("resource.k8s.io", "resourceslices"):
        defaults.with_taint_times(new, now)
    elif kind.resource_key == _DAEMON_SETS:
        _count_template(new, old)
    elif kind.resource_key == ("", "services"):
        _clear_load_balancer(new)
    move_generation(kind, new, old)


def _clear_load_balancer(service: Json) -> None:
    """Empty status.loadBalancer of a Service that is of another type now."""
    status = mapping(service.get("status"))
    if mapping(service.get("spec")).get("type") != "LoadBalancer" and "loadBalancer" in status:
        service["status"] = {**status, "loadBalancer": {}}


def move_generation(kind: Kind, new: Json, old: Json) -> None:
    """Count one more generation if the kind says that this change is one."""
    if _moves_generation(kind, new, old):
        generation = metadata_of(old).get("generation")
        child(new, "metadata")["generation"] = (
            generation if isinstance(generation, int) else 0
        ) + 1


def _count_template(new: Json, old: Json) -> None:
    """The generation of the template moves with the template; clients cannot set it."""
    annotations = mapping(metadata_of(old).get("annotations"))
    before = text(annotations.get(conversions.TEMPLATE_GENERATION))
    templates = [mapping(obj.get("spec")).get("template") for obj in (new, old)]
    moved = templates[0] != templates[1]
    _set_template_generation(new, (int(before) if before.isdecimal() else 0) + moved)


def _set_template_generation(daemon_set: Json, generation: int) -> None:
    annotations = child(child(daemon_set, "metadata"), "annotations")
    annotations[conversions.TEMPLATE_GENERATION] = str(generation)


def _moves_generation(kind: Kind, new: Json, old: Json) -> bool:
    if kind.generation in (Generation.NEVER, Generation.ON_CREATE):
        return False
    if kind.generation in (Generation.CONTENT, Generation.CONTENT_OR_LABELS):
        differs = any(new.get(part) != old.get(part) for part in _content(new) | _content(old))
        return differs or (
            kind.generation is Generation.CONTENT_OR_LABELS and labels_of(new) != labels_of(old)
        )
    if new.get("spec") != old.get("spec"):
        return True
    annotations = metadata_of(new).get("annotations"), metadata_of(old).get("annotations")
    return kind.generation is Generation.SPEC_OR_ANNOTATIONS and annotations[0] != annotations[1]


def warnings(kind: Kind, new: Json, old: Json | None = None) -> list[str]:
    """What the writer of a valid object is told, even if the write is refused later."""
    if kind.resource_key == PODS:
        return warnings_of_pod(new) if old is None else []  # of updates upstream says nothing
    if kind.resource_key == ("storage.k8s.io", "csidrivers"):
        return _token_warnings(new, old or {})
    if kind.structure is not None:
        return kind.structure.warnings(new, old)
    return kind.rules.warnings(new, old)


def _token_warnings(driver: Json, old: Json) -> list[str]:
    """Of new token requests, which are to come as secrets; CSIDrivers, their strategy.go."""
    spec, requests = mapping(driver.get("spec")), mapping(old.get("spec")).get("tokenRequests")
    given = spec.get("tokenRequests")
    says_how = spec.get("serviceAccountTokenInSecrets") is not None
    return [_TOKENS_IN_SECRETS] if given and given != requests and not says_how else []


def _content(obj: Json) -> set[str]:
    return obj.keys() - {"metadata"}


def prepare_for_status_update(kind: Kind, new: Json, old: Json, now: str) -> None:
    """The status endpoint: everything but the status stays, and most of the metadata may change."""
    for part in old.keys() | new.keys():
        if part not in ("metadata", "status"):
            _take_back(new, old, part)
    key = kind.resource_key
    if key == PODS:
        _prepare_pod_status(new, old)
    elif key == ("", "persistentvolumes"):
        _prepare_volume_status(new, old, now)
    elif key == ("apps", "deployments"):
        _take_back(child(new, "metadata"), metadata_of(old), "labels")
    if key in _STATUS_RESETS_METADATA or not kind.schema:
        for field in _CLIENT_METADATA:
            _take_back(child(new, "metadata"), metadata_of(old), field)


def prepare_for_resize(new: Json, old: Json) -> None:
    """The resize endpoint of pods: only resources and resize policies may change."""
    new["spec"] = resized_spec(mapping(new.get("spec")), mapping(old.get("spec")))
    _take_back_all_but_spec(new, old)


def _take_back_all_but_spec(new: Json, old: Json) -> None:
    _take_back(new, old, "status")
    metadata = child(new, "metadata")
    for field in ("deletionTimestamp", *_CLIENT_METADATA):
        _take_back(metadata, metadata_of(old), field)


def prepare_for_ephemeral_containers(new: Json, old: Json) -> None:
    """The ephemeralcontainers endpoint of pods: nothing else of the spec may change."""
    field = "ephemeralContainers"
    spec = {name: value for name, value in mapping(old.get("spec")).items() if name != field}
    containers = mapping(new.get("spec")).get(field)
    new["spec"] = {**spec, field: containers} if containers else spec
    _take_back_all_but_spec(new, old)


def prepare_for_finalize(new: Json, old: Json) -> None:
    """The finalize endpoint of namespaces: only spec.finalizers may change."""
    _take_back(new, old, "status")


def _prepare_pod_status(new: Json, old: Json) -> None:
    metadata, status = child(new, "metadata"), child(new, "status")
    metadata.pop("deletionTimestamp", None)
    _take_back(metadata, metadata_of(old), "ownerReferences")
    old_status = mapping(old.get("status"))
    if not status.get("qosClass") and "qosClass" in old_status:
        status["qosClass"] = old_status["qosClass"]
    if not status.get("observedGeneration") and "observedGeneration" in old_status:
        status["observedGeneration"] = old_status["observedGeneration"]
    observed: dict[str, list[object]] = {}
    for condition in mappings(old_status.get("conditions")):
        generations = observed.setdefault(text(condition.get("type")), [])
        generations.append(condition.get("observedGeneration"))
    for condition in mappings(status.get("conditions")):
        generations = observed.get(text(condition.get("type")), [])
        before = generations.pop(0) if generations else None
        if not condition.get("observedGeneration") and before:
            condition["observedGeneration"] = before


def _prepare_volume_status(new: Json, old: Json, now: str) -> None:
    status, old_status = child(new, "status"), mapping(old.get("status"))
    given, before = status.get("lastPhaseTransitionTime"), old_status.get("lastPhaseTransitionTime")
    if status.get("phase") == old_status.get("phase"):
        if given is None and before is not None:
            status["lastPhaseTransitionTime"] = before
    elif given is None or given == before:
        status["lastPhaseTransitionTime"] = now


def _take_back(new: Json, old: Json, part: str) -> None:
    """Undo any change of one part of the object."""
    if part in old:
        new[part] = old[part]
    else:
        new.pop(part, None)
