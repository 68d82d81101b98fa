"""Leases.

Source: pkg/apis/coordination/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, Column
from fakeapi.types.errors import FieldError, forbidden, invalid
from fakeapi.types.kind import Kind, KindRules
from fakeapi.types.objects import Json, mapping
from fakeapi.validation.numbers import NOT_NEGATIVE


def _validate(lease: Json) -> list[FieldError]:
    spec = mapping(lease.get("spec"))
    errors = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if isinstance(duration, int) and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if isinstance(transitions, int) and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, NOT_NEGATIVE))
    if spec.get("preferredHolder") and not spec.get("strategy"):
        why = "may only be specified if `strategy` is defined"
        errors.append(forbidden("spec.preferredHolder", why))
    return errors


KINDS: Final = (
    Kind(
        "coordination.k8s.io", "v1", "leases", "Lease", schema="coordination/v1.Lease",
        create_on_update=True, unconditional_update=False,
        columns=(NAME, Column("Holder", ".spec.holderIdentity"), AGE),
        rules=KindRules(validate=_validate),
    ),
)  # fmt: skip
