"""Validation of HorizontalPodAutoscalers: their bounds and whom they scale, not their metrics.

Source: pkg/apis/autoscaling/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

from .. import names
from ..errors import FieldError, forbidden, invalid, required
from ..objects import Json, integer, mapping, mappings, text
from .numbers import number_errors


def validate_autoscaler(autoscaler: Json) -> list[FieldError]:
    """A new autoscaler."""
    return [*_bound_errors(autoscaler), *_target_errors(autoscaler), *_metric_errors(autoscaler)]


def validate_autoscaler_update(new: Json, old: Json) -> list[FieldError]:
    """A new state of one; whom it scaled before it may go on to scale."""
    errors = _target_errors(new)
    if _target(new) == _target(old):
        errors = [error for error in errors if not error.field.endswith(".apiVersion")]
    return [*_bound_errors(new, was_zero=_minimum(old) == 0), *errors, *_metric_errors(new)]


def validate_autoscaler_status(autoscaler: Json) -> list[FieldError]:
    """The counts in its status are not negative."""
    counts = ("currentReplicas", "desiredReplicas")
    return number_errors(mapping(autoscaler.get("status")), "status", counts)


def _minimum(autoscaler: Json) -> object:
    return mapping(autoscaler.get("spec")).get("minReplicas")


def _bound_errors(autoscaler: Json, *, was_zero: bool = False) -> list[FieldError]:
    minimum = _minimum(autoscaler)
    maximum = integer(mapping(autoscaler.get("spec")).get("maxReplicas"))
    lowest = 0 if was_zero else 1
    errors: list[FieldError] = []
    if minimum is not None and integer(minimum) < lowest:
        why = f"must be greater than or equal to {lowest}"
        errors.append(invalid("spec.minReplicas", minimum, why))
    if maximum == 0:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif maximum < 0:
        errors.append(invalid("spec.maxReplicas", maximum, "must be greater than or equal to 1"))
    if minimum is not None and maximum < integer(minimum):
        why = "must be greater than or equal to `minReplicas`"
        errors.append(invalid("spec.maxReplicas", maximum, why))
    return errors


def _target(autoscaler: Json) -> tuple[str, str]:
    target = mapping(mapping(autoscaler.get("spec")).get("scaleTargetRef"))
    return text(target.get("apiVersion")), text(target.get("kind"))


def _target_errors(autoscaler: Json) -> list[FieldError]:
    target = mapping(mapping(autoscaler.get("spec")).get("scaleTargetRef"))
    field = "spec.scaleTargetRef"
    errors: list[FieldError] = []
    for part in ("kind", "name"):
        value = text(target.get(part))
        if not value:
            errors.append(required(f"{field}.{part}"))
        errors += [invalid(f"{field}.{part}", value, why) for why in names.path_segment(value)]
    version, kind = _target(autoscaler)
    group, slash, _ = version.rpartition("/")
    if "/" in group:
        why = f"unexpected GroupVersion string: {version}"
        errors.append(invalid(f"{field}.apiVersion", version, why))
    elif not (slash and group) and kind != "ReplicationController":
        why = "apiVersion must specify API group"
        errors.append(invalid(f"{field}.apiVersion", version, why))
    return errors


def _metric_errors(autoscaler: Json) -> list[FieldError]:
    """Without any pod there is nothing to measure but what is elsewhere."""
    metrics = mappings(mapping(autoscaler.get("spec")).get("metrics"))
    elsewhere = any(metric.get("type") in ("Object", "External") for metric in metrics)
    if _minimum(autoscaler) != 0 or elsewhere:
        return []
    why = "must specify at least one Object or External metric to support scaling to zero replicas"
    return [forbidden("spec.metrics", why)]
