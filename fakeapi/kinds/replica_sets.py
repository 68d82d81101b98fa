"""ReplicaSets and ReplicationControllers; the selector and template of all workloads.

Source: pkg/apis/{apps,core}/{v1,validation} of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.decoding.selectors import SelectorError, label_selector_of
from fakeapi.kinds.pod_templates import set_template_defaults, template_errors
from fakeapi.types.columns import (
    AGE,
    NAME,
    Column,
    containers_columns,
    labels_text,
    selector_or_none,
    wide,
)
from fakeapi.types.errors import FieldError, invalid, required
from fakeapi.types.kind import (
    NAMESPACED_FIELDS,
    REPLICAS,
    GarbagePolicy,
    Generation,
    Kind,
    KindRules,
    number_at,
)
from fakeapi.types.objects import Json, child, labels_of, mapping, set_defaults
from fakeapi.validation.checks import fixed, number_errors
from fakeapi.validation.metadata import validate_label_selector

STATEFUL_SET: Final = "statefulset"
DAEMON_SET: Final = "daemonset"
_SELECTOR: Final = wide("Selector", ".spec.selector", selector_or_none)
_REPLICAS: Final = (
    NAME,
    Column("Desired", ".spec.replicas", type="integer"),
    Column("Current", ".status.replicas", type="integer"),
    Column("Ready", ".status.readyReplicas", type="integer"),
    AGE,
    *containers_columns(),
)


def _set_controller_defaults(controller: Json) -> None:
    spec = child(controller, "spec")
    template_labels = labels_of(mapping(spec.get("template")))
    if template_labels:
        if not spec.get("selector"):
            spec["selector"] = dict(template_labels)
        if not labels_of(controller):
            child(controller, "metadata")["labels"] = dict(template_labels)
    set_template_defaults(spec)


def _set_defaults(replica_set: Json) -> None:
    spec = child(replica_set, "spec")
    set_defaults(spec, replicas=1)
    set_template_defaults(spec)


def _validate_controller(controller: Json) -> list[FieldError]:
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
    return errors + template_errors(template)


def validate_workload(workload: Json, *, called: str = "deployment") -> list[FieldError]:
    """Return the errors of the selector and the template; `called` is the kind in error texts.

    Upstream calls ReplicaSets deployments too.
    """
    spec = mapping(workload.get("spec"))
    template = mapping(spec.get("template"))
    errors = _replica_errors(spec) + _selector_errors(spec.get("selector"), template, called)
    return errors + template_errors(template)


def _selector_errors(selector: object, template: Json, called: str) -> list[FieldError]:
    field, labels = "spec.selector", labels_of(template)
    errors = []
    if isinstance(selector, dict):
        errors += validate_label_selector(selector, field)
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            why = f"empty selector is invalid for {called}"
            errors.append(invalid(field, selector, why))
    elif called != DAEMON_SET:
        errors.append(required(field))
    try:  # a missing selector matches no pod
        matches = isinstance(selector, dict) and label_selector_of(selector).matches(labels)
    except SelectorError:
        if called != DAEMON_SET:
            why = "" if called == STATEFUL_SET else "invalid label selector"
            errors.append(invalid(field, selector, why))
        return errors
    if not matches:
        why = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels or None, why))
    return errors


def _replica_errors(spec: Json) -> list[FieldError]:
    return number_errors(spec, "spec", ("replicas", "minReadySeconds"))


KINDS: Final = (
    Kind(
        "", "v1", "replicationcontrollers", "ReplicationController", categories=("all",),
        schema="core/v1.ReplicationController", short_names=("rc",),
        subresources=("scale", "status"), scale=REPLICAS, generation=Generation.SPEC,
        garbage_policy=GarbagePolicy.ORPHAN,
        fields={**NAMESPACED_FIELDS, "status.replicas": number_at("status", "replicas")},
        columns=(*_REPLICAS, wide("Selector", ".spec.selector", labels_text)),
        rules=KindRules(set_defaults=_set_controller_defaults, validate=_validate_controller),
    ),
    Kind(
        "apps", "v1", "replicasets", "ReplicaSet", schema="apps/v1.ReplicaSet",
        short_names=("rs",), categories=("all",), subresources=("scale", "status"), scale=REPLICAS,
        generation=Generation.SPEC,
        columns=(*_REPLICAS, _SELECTOR),
        rules=KindRules(
            set_defaults=_set_defaults, validate=validate_workload,
            validate_update=fixed("spec.selector"),
        ),
    ),
)  # fmt: skip
