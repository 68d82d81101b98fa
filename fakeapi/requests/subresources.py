"""Binding and eviction of pods.

Source: pkg/registry/core/pod/storage/{storage,eviction}.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.apply import ownership
from fakeapi.decoding.options import WriteOptions, delete_options_of, write_options
from fakeapi.decoding.selectors import SelectorError, label_selector_of
from fakeapi.http import answers
from fakeapi.requests import verbs
from fakeapi.store.registry import Operation, Review, Target
from fakeapi.types.errors import (
    BadRequest,
    Conflict,
    FieldError,
    Forbidden,
    NotFound,
    TooManyRequests,
    UnreasonedFailure,
    aggregate,
    not_supported,
    required,
)
from fakeapi.types.objects import (
    Json,
    integer,
    is_deleting,
    labels_of,
    mapping,
    mappings,
    metadata_of,
    name_of,
    string_map,
    text,
    texts,
    with_condition,
    with_metadata,
)
from fakeapi.writes import deletion, pipeline

if TYPE_CHECKING:
    from fakeapi.decoding.options import DeleteOptions
    from fakeapi.http.answers import Answer
    from fakeapi.requests.call import Call
    from fakeapi.store.registry import Registry
    from fakeapi.store.store import Revision
    from fakeapi.types.kind import Kind

_BUDGETS: Final = ("policy", "poddisruptionbudgets")
_SERVER: Final = "kube-apiserver"
_BINDING_RESOURCE: Final = "pods/binding"
_DISRUPTED_PODS_MAX: Final = 2000
_BUDGET_SPENT: Final = "Cannot evict pod as it would violate the pod's disruption budget."


def bind(state: Registry, request: Call) -> Answer:
    """Bind a pod to a node: by pods/NAME/binding, or by the old bindings collection."""
    options = write_options(request.query, "CreateOptions")
    binding = verbs.side_object(state, request, options, "core/v1.Binding", ("v1",))
    pods = state.kinds.find("", "v1", "pods")
    assert pods is not None
    name = request.route.name if request.route.kind is pods else name_of(binding)
    target = request.target(options, name=name, of=pods, part="binding")
    state.admission.mutate(Review(state, target, Operation.CREATE, binding))
    if name_of(binding) != name:
        raise BadRequest("name in URL does not match name in Binding object")
    errors = _binding_errors(mapping(binding.get("target")))
    if errors:
        raise UnreasonedFailure(aggregate(errors, state.limits.max_errors_length))
    existing = state.find(pods, target.namespace, name)
    _check_binding_preconditions(target, existing, binding)
    _check_bindable(existing.object)
    if not options.dry_run:
        bound = _bound(existing.object, binding, state.now())
        state.store.put(pods.storage_key, existing.key, bound)
    return answers.success(201)


def _binding_errors(target: Json) -> list[FieldError]:
    errors = []
    kind = text(target.get("kind"))
    if kind not in ("", "Node"):
        errors.append(not_supported("target.kind", kind, ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required("target.name"))
    return errors


def _check_binding_preconditions(target: Target, existing: Revision, binding: Json) -> None:
    metadata = metadata_of(binding)
    actual, version = metadata_of(existing.object).get("uid"), str(existing.resource_version)
    for field, wanted, found in (
        ("UID", text(metadata.get("uid")), text(actual)),
        ("ResourceVersion", text(metadata.get("resourceVersion")), version),
    ):
        if wanted and wanted != found:
            raise pipeline.precondition_conflict(target, field, wanted, found)


def _check_bindable(pod: Json) -> None:
    """Refuse to bind a pod that is bound, gated or terminating. Raises Conflict."""
    name, spec = name_of(pod), mapping(pod.get("spec"))
    if is_deleting(pod):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    else:
        return
    raise Conflict(_BINDING_RESOURCE, "", name, why)


def _bound(pod: Json, binding: Json, now: str) -> Json:
    """Return the bound pod: with its node, condition, labels and annotations, not nominated."""
    metadata, given = dict(metadata_of(pod)), metadata_of(binding)
    for field in ("annotations", "labels"):
        added = string_map(given.get(field))
        if added:
            metadata[field] = {**mapping(metadata.get(field)), **added}
    node_name = mapping(binding.get("target")).get("name")
    status = {
        name: value
        for name, value in mapping(pod.get("status")).items()
        if name != "nominatedNodeName"
    }
    condition: Json = {
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "type": "PodScheduled",
        "status": "True",
    }
    return {
        **pod,
        "metadata": metadata,
        "spec": {**mapping(pod.get("spec")), "nodeName": node_name},
        "status": with_condition(status, condition),
    }


def evict(state: Registry, request: Call) -> Answer:
    """Delete a pod if its disruption budget allows it."""
    options = write_options(request.query, "CreateOptions")
    route = request.route
    versions = ("policy/v1", "policy/v1beta1")
    eviction = verbs.side_object(state, request, options, "policy/v1.Eviction", versions)
    target = request.target(options)
    review = Review(state, target, Operation.CREATE, eviction)
    state.admission.mutate(review)
    if name_of(eviction) != route.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    wishes = mapping(eviction.get("deleteOptions"))
    dry_run = options.dry_run or bool(texts(wishes.get("dryRun")))
    delete_options = delete_options_of(wishes, dry_run=dry_run)
    pod = state.find(route.kind, route.namespace, route.name)
    state.admission.validate(review)
    if not _escapes_budgets(pod.object):
        budget = _budget_of(state, route.namespace, pod.object)
        if budget is not None and not _is_harmless(pod.object, budget.object):
            _spend(state, budget, name_of(pod.object), dry_run=dry_run)
    _mark_and_delete(state, route.kind, pod, delete_options)
    return answers.success(201)


def _escapes_budgets(pod: Json) -> bool:
    """Return True for pods that no budget protects: finished, pending or terminating."""
    phase = mapping(pod.get("status")).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or is_deleting(pod)


def _budget_of(state: Registry, namespace: str, pod: Json) -> Revision | None:
    """Return the budget that selects the pod. Raises UnreasonedFailure if there are several."""
    budgets = []
    collection = state.store.collection(_BUDGETS)
    for key in collection.sorted_keys(f"{namespace}/"):
        budget = collection.revisions[key]
        selector = mapping(budget.object.get("spec")).get("selector")
        try:
            if label_selector_of(selector).matches(labels_of(pod)):
                budgets.append(budget)
        except SelectorError:
            continue
    if len(budgets) > 1:
        raise UnreasonedFailure(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource "
            "does not support."
        )
    return budgets[0] if budgets else None


def _is_harmless(pod: Json, budget: Json) -> bool:
    """Return True for a pod that is not ready, if the policy or enough healthy pods allow it.

    Source: KEP-3017.
    """
    conditions = mappings(mapping(pod.get("status")).get("conditions"))
    if any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return False
    if mapping(budget.get("spec")).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = mapping(budget.get("status"))
    desired = integer(status.get("desiredHealthy"))
    return integer(status.get("currentHealthy")) >= desired > 0


def _spend(state: Registry, budget: Revision, pod_name: str, *, dry_run: bool) -> None:
    """Take one disruption from the budget. Raises TooManyRequests if none is left."""
    status = mapping(budget.object.get("status"))
    name = name_of(budget.object)
    allowed = integer(status.get("disruptionsAllowed"))
    generation = integer(metadata_of(budget.object).get("generation"))
    if integer(status.get("observedGeneration")) < generation:
        why = f"The disruption budget {name} is still being processed by the server."
        raise _refusal(why, retry_after_seconds=10)
    if allowed < 0:
        why = "pdb disruptions allowed is negative"
        raise Forbidden("poddisruptionbudget", "policy", name, why)
    disrupted = mapping(status.get("disruptedPods"))
    if len(disrupted) > _DISRUPTED_PODS_MAX:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise Forbidden("poddisruptionbudget", "policy", name, why)
    if allowed == 0:
        raise _refusal(_why_spent(name, status))
    if dry_run:
        return
    now = state.now()
    spent: Json = {
        **status,
        "disruptionsAllowed": allowed - 1,
        "disruptedPods": {**disrupted, pod_name: now},
    }
    if allowed == 1:
        spent["conditions"] = _insufficient(spent, generation, now)
    spent_budget = with_metadata({**budget.object, "status": spent})
    kind = state.kinds.find("policy", "v1", "poddisruptionbudgets")
    if kind is not None:  # the server is the one that changes the budget
        namespace = text(metadata_of(budget.object).get("namespace"))
        target = Target(kind, namespace, name, WriteOptions(), "status", _SERVER)
        ownership.on_update(state.kinds, target, spent_budget, budget.object, now)
    state.store.put(_BUDGETS, budget.key, spent_budget)


def _refusal(why: str, *, retry_after_seconds: int = 0) -> TooManyRequests:
    causes = [{"reason": "DisruptionBudget", "message": why}]
    return TooManyRequests(
        _BUDGET_SPENT, details={"causes": causes}, retry_after_seconds=retry_after_seconds
    )


def _why_spent(name: str, status: Json) -> str:
    conditions = mappings(status.get("conditions"))
    condition = next((c for c in conditions if c.get("type") == "DisruptionAllowed"), {})
    message, reason = text(condition.get("message")), text(condition.get("reason"))
    tells = condition.get("status") == "False" and bool(message)
    healthy, desired = status.get("currentHealthy"), status.get("desiredHealthy")
    if tells and reason == "SyncFailed":
        return (
            f"The disruption budget {name} does not allow evicting pods currently because it "
            f"failed sync: {message}"
        )
    if integer(healthy) <= integer(desired):
        return (
            f"The disruption budget {name} needs {integer(desired)} healthy pods and has "
            f"{integer(healthy)} currently"
        )
    if tells:
        return (
            f"The disruption budget {name} does not allow evicting pods currently "
            f"({reason}): {message}"
        )
    return f"The disruption budget {name} does not allow evicting pods currently"


def _insufficient(status: Json, generation: int, now: str) -> list[Json]:
    """Return the conditions of a budget without allowed disruptions."""
    condition: Json = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": generation,
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    }
    conditions = mappings(status.get("conditions"))
    others = [present for present in conditions if present.get("type") != condition["type"]]
    for present in conditions:
        if present.get("type") == condition["type"] and present.get("status") == "False":
            condition["lastTransitionTime"] = present.get("lastTransitionTime")
    return [*others, condition]


def _mark_and_delete(state: Registry, pods: Kind, pod: Revision, options: DeleteOptions) -> None:
    """Set the condition DisruptionTarget, then delete the pod with its grace period."""
    deletion.check_preconditions(pods, pod, options)
    namespace, name = text(metadata_of(pod.object).get("namespace")), name_of(pod.object)
    if not options.dry_run:
        condition: Json = {
            "lastProbeTime": None,
            "lastTransitionTime": state.now(),
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        status = with_condition(mapping(pod.object.get("status")), condition)
        if status != pod.object.get("status"):
            pod = state.store.put(pods.storage_key, pod.key, {**pod.object, "status": status})
        if options.resource_version is not None:
            version = str(pod.resource_version)
            options = dataclasses.replace(options, resource_version=version)
    try:
        deletion.delete(state, pods, namespace, name, options)
    except NotFound:
        return
