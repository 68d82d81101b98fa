"""Validation of workloads and of the budgets that protect their pods.

Source: pkg/apis/{apps,policy,resource}/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

import re
from typing import Final

from fakeapi.decoding.selectors import SelectorError, label_selector_of
from fakeapi.types.errors import FieldError, forbidden, invalid, not_supported, required
from fakeapi.types.objects import Json, labels_of, mapping, mappings, name_of, text
from fakeapi.validation.metadata import IMMUTABLE, validate_label_selector, validate_labels
from fakeapi.validation.numbers import NOT_NEGATIVE, number_errors
from fakeapi.validation.pods import validate_spec

_PERCENT = re.compile(r"[0-9]+%", re.ASCII).fullmatch
_STATEFUL_SET: Final = "statefulset"
_DAEMON_SET: Final = "daemonset"
_EVICTION_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_BUDGET_NUMBERS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def validate_replication_controller(controller: Json) -> list[FieldError]:
    """Selector and template of a ReplicationController, whose selector is a plain map."""
    spec = mapping(controller.get("spec"))
    selector = mapping(spec.get("selector"))
    errors = _replica_errors(spec)
    if not selector:
        errors.append(required("spec.selector"))
    template = spec.get("template")
    if not isinstance(template, dict):
        return [*errors, required("spec.template")]
    labels = labels_of(template)
    if any(labels.get(key) != value for key, value in selector.items()):
        why = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels, why))
    return errors + _template_errors(template)


def validate_stateful_set(stateful_set: Json) -> list[FieldError]:
    """Selector and template of a StatefulSet, as its pods will have them: with their claims."""
    spec = mapping(stateful_set.get("spec"))
    template = mapping(spec.get("template"))
    # Its controller sets these: whatever the template has in their place is not looked at.
    given = mapping(template.get("spec"))
    pod_spec = {name: given[name] for name in given if name not in ("hostname", "subdomain")}
    names = [name_of(claim) for claim in mappings(spec.get("volumeClaimTemplates"))]
    pod_spec["volumes"] = [
        *({"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names),
        *(one for one in mappings(given.get("volumes")) if one.get("name") not in names),
    ]
    spec = {**spec, "template": {**template, "spec": pod_spec}}
    return validate_workload({"spec": spec}, called=_STATEFUL_SET)


def validate_daemon_set(daemon_set: Json) -> list[FieldError]:
    """Selector and template of a DaemonSet."""
    return validate_workload(daemon_set, called=_DAEMON_SET)


def validate_workload(workload: Json, *, called: str = "deployment") -> list[FieldError]:
    """Selector and template of a ReplicaSet or Deployment, or of what is called otherwise.

    Upstream calls ReplicaSets deployments too.
    """
    spec = mapping(workload.get("spec"))
    template = mapping(spec.get("template"))
    errors = _replica_errors(spec) + _selector_errors(spec.get("selector"), template, called)
    return errors + _template_errors(template)


def _selector_errors(selector: object, template: Json, called: str) -> list[FieldError]:
    """What is wrong with a selector, each kind of workload in the words that it has for it."""
    field, labels = "spec.selector", labels_of(template)
    errors = []
    if isinstance(selector, dict):
        errors += validate_label_selector(selector, field)
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            why = f"empty selector is invalid for {called}"
            errors.append(invalid(field, selector, why))
    elif called != _DAEMON_SET:
        errors.append(required(field))
    try:  # one that is missing matches nothing
        matches = isinstance(selector, dict) and label_selector_of(selector).matches(labels)
    except SelectorError:
        if called != _DAEMON_SET:
            why = "" if called == _STATEFUL_SET else "invalid label selector"
            errors.append(invalid(field, selector, why))
        return errors
    if not matches:
        why = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels or None, why))
    return errors


def _replica_errors(spec: Json) -> list[FieldError]:
    return number_errors(spec, "spec", ("replicas", "minReadySeconds"))


def _template_errors(template: Json) -> list[FieldError]:
    spec = mapping(template.get("spec"))
    field = "spec.template"
    errors = validate_labels(labels_of(template), f"{field}.metadata.labels")
    errors += validate_spec(spec, f"{field}.spec", is_pod=False)
    policy = text(spec.get("restartPolicy"))
    if policy != "Always":
        errors.append(not_supported(f"{field}.spec.restartPolicy", policy, ("Always",)))
    return errors


def validate_workload_update(new: Json, old: Json) -> list[FieldError]:
    """The selector is fixed."""
    selector = mapping(new.get("spec")).get("selector")
    if selector == mapping(old.get("spec")).get("selector"):
        return []
    return [invalid("spec.selector", selector, IMMUTABLE)]


def validate_disruption_budget(budget: Json) -> list[FieldError]:
    """A PodDisruptionBudget has one bound, a sound selector and a known policy."""
    spec = mapping(budget.get("spec"))
    errors: list[FieldError] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        why = "minAvailable and maxUnavailable cannot be both set"
        errors.append(invalid("spec", spec, why))
    for name in ("minAvailable", "maxUnavailable"):
        if name in spec:
            errors += share_errors(spec[name], f"spec.{name}")
    errors += validate_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION_POLICIES:
        field = "spec.unhealthyPodEvictionPolicy"
        errors.append(not_supported(field, policy, _EVICTION_POLICIES))
    return errors


def share_errors(value: object, field: str, *, most: bool = True) -> list[FieldError]:
    """A number of pods or a percentage of them, which may be bounded by 100."""
    if isinstance(value, int):
        return [invalid(field, value, NOT_NEGATIVE)] if value < 0 else []
    share = text(value)
    if not _PERCENT(share):
        why = (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        return [invalid(field, share, why)]
    if most and int(share[:-1]) > 100:
        return [invalid(field, share, "must not be greater than 100%")]
    return []


def validate_disruption_budget_status(budget: Json) -> list[FieldError]:
    """The counts in a budget's status are not negative."""
    return number_errors(mapping(budget.get("status")), "status", _BUDGET_NUMBERS)


def validate_resource_claim_update(new: Json, old: Json) -> list[FieldError]:
    """The spec of a ResourceClaim is fixed."""
    if new.get("spec") == old.get("spec"):
        return []
    return [forbidden("spec", IMMUTABLE)]
