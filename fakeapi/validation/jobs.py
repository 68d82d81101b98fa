"""Validation of Jobs: what their authors meet.

Numbers, the pods' restart policy, the selector that the server makes, and what is fixed.

Source: pkg/apis/batch/validation/validation.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.decoding.selectors import SelectorError, label_selector_of
from fakeapi.types.errors import FieldError, invalid, not_supported, required
from fakeapi.types.objects import Json, labels_of, mapping, metadata_of, name_of, text
from fakeapi.validation.metadata import IMMUTABLE, validate_label_selector
from fakeapi.validation.numbers import number_errors
from fakeapi.validation.pods import validate_spec

__all__ = ["job_template_errors", "validate_job", "validate_job_update"]

_NUMBERS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
)
_FIXED: Final = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_RESTART: Final = ("OnFailure", "Never")
_LABELS: Final = ("controller-uid", "job-name")
_PREFIX: Final = "batch.kubernetes.io/"


def validate_job(job: Json) -> list[FieldError]:
    """A new Job: the selector that was made for it, its numbers and its template."""
    return _generated_errors(job, prefixed=True) + _spec_errors(mapping(job.get("spec")))


def _generated_errors(job: Json, *, prefixed: bool) -> list[FieldError]:
    """What the server has not made of labels and selector itself, though it was to.

    With `prefixed` the template has the labels with a prefix too, as it has not in old Jobs.
    """
    spec = mapping(job.get("spec"))
    selector = spec.get("selector")
    if spec.get("manualSelector") is True or not isinstance(selector, dict):
        return []
    values: Json = dict(
        zip(_LABELS, (text(metadata_of(job).get("uid")), name_of(job)), strict=True)
    )
    if prefixed:
        values |= {f"{_PREFIX}{label}": value for label, value in values.items()}
    labels, field = _sorted_labels(spec), "spec.template.metadata.labels"
    errors = [] if values[_LABELS[0]] else [required("metadata.uid")]
    for label, value in values.items():
        if label not in labels:
            errors.append(required(f"{field}[{label}]", f"must be '{value}'"))
        elif labels[label] != value:
            errors.append(invalid(f"{field}[{label}]", labels, f"must be '{value}'"))
    if not _matches(selector, values):
        matched = dict(sorted(mapping(selector.get("matchLabels")).items()))
        shown = {**selector, "matchLabels": matched} if matched else selector
        errors.append(invalid("spec.selector", shown, "`selector` not auto-generated"))
    return errors


def _sorted_labels(spec: Json) -> Json:
    """The labels of the template as Go shows them."""
    return dict(sorted(labels_of(mapping(spec.get("template"))).items()))


def _matches(selector: object, labels: Json) -> bool:
    """Whether a selector matches, or is none; one that is missing matches nothing."""
    try:
        return isinstance(selector, dict) and label_selector_of(selector).matches(labels)
    except SelectorError:
        return True  # which others say


def _spec_errors(spec: Json) -> list[FieldError]:
    errors = job_template_errors(spec, "spec")
    selector, labels = spec.get("selector"), _sorted_labels(spec)
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += validate_label_selector(selector, "spec.selector")
    if not _matches(selector, labels):
        why = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels or None, why))
    return errors


def job_template_errors(spec: Json, field: str) -> list[FieldError]:
    """What is wrong with the spec of a Job that may be still to come, but for its selector."""
    errors = number_errors(spec, field, _NUMBERS)
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        errors.append(required(f"{field}.completions", "when completion mode is Indexed"))
    pod_spec = mapping(mapping(spec.get("template")).get("spec"))
    errors += validate_spec(pod_spec, f"{field}.template.spec", is_pod=False)
    policy = text(pod_spec.get("restartPolicy"))
    where = f"{field}.template.spec.restartPolicy"
    if policy in ("", "Always"):
        errors.append(required(where, 'valid values: "OnFailure", "Never"'))
    elif policy not in _RESTART:
        errors.append(not_supported(where, policy, _RESTART))
    elif "podFailurePolicy" in spec and policy != "Never":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        errors.append(invalid(where, policy, why))
    return errors


def validate_job_update(new: Json, old: Json) -> list[FieldError]:
    """The selector is fixed, the template unless the Job is suspended, completions nearly so.

    Upstream checks the spec of an update twice and reports both.
    """
    spec, old_spec = mapping(new.get("spec")), mapping(old.get("spec"))
    labels = labels_of(mapping(old_spec.get("template")))
    prefixed = all(f"{_PREFIX}{label}" in labels for label in _LABELS)
    wrong = _spec_errors(spec)
    errors = [*_generated_errors(new, prefixed=prefixed), *wrong, *wrong]
    if spec.get("completions") != old_spec.get("completions"):
        errors += _completions_errors(spec)
    fixed = _FIXED if old_spec.get("suspend") is True else ("template", *_FIXED)
    errors += [
        invalid(f"spec.{name}", spec.get(name), IMMUTABLE)
        for name in ("selector", *fixed)
        if spec.get(name) != old_spec.get(name)
    ]
    return errors


def _completions_errors(spec: Json) -> list[FieldError]:
    """Only of indexed Jobs they may change, and only as the parallelism does."""
    field, completions = "spec.completions", spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        return [invalid(field, completions, IMMUTABLE)]
    if completions not in (None, spec.get("parallelism")):
        why = "can only be modified in tandem with spec.parallelism"
        return [invalid(field, completions, why)]
    return []
