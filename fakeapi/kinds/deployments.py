"""Deployments.

Source: pkg/apis/apps/{v1,validation} of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.kinds.pod_templates import set_template_defaults
from fakeapi.kinds.replica_sets import validate_workload
from fakeapi.types.columns import (
    AGE,
    NAME,
    Column,
    containers_columns,
    number,
    ready_replicas,
    selector_text,
    wide,
)
from fakeapi.types.errors import FieldError, forbidden, invalid, not_supported
from fakeapi.types.kind import REPLICAS, Generation, Kind, KindRules
from fakeapi.types.objects import Json, child, integer, mapping, set_defaults, text
from fakeapi.validation.checks import fixed, number_errors, share_errors

_STRATEGIES: Final = ("Recreate", "RollingUpdate")


def _set_defaults(deployment: Json) -> None:
    spec = child(deployment, "spec")
    set_defaults(spec, replicas=1)
    strategy = child(spec, "strategy")
    set_defaults(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = child(strategy, "rollingUpdate")
        set_defaults(rolling, maxUnavailable="25%", maxSurge="25%")
    set_defaults(spec, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    set_template_defaults(spec)


def _validate(deployment: Json) -> list[FieldError]:
    spec = mapping(deployment.get("spec"))
    errors = validate_workload(deployment)
    errors += _strategy_errors(mapping(spec.get("strategy")))
    errors += number_errors(spec, "spec", ("revisionHistoryLimit", "progressDeadlineSeconds"))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and integer(deadline) <= integer(spec.get("minReadySeconds")):
        why = "must be greater than minReadySeconds"
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, why))
    return errors


def _strategy_errors(strategy: Json) -> list[FieldError]:
    field, rolling = "spec.strategy", strategy.get("rollingUpdate")
    kind = text(strategy.get("type"))
    if kind not in _STRATEGIES:
        return [not_supported(field, strategy, _STRATEGIES)]
    if kind == "Recreate":
        why = "may not be specified when strategy `type` is 'Recreate'"
        return [] if rolling is None else [forbidden(f"{field}.rollingUpdate", why)]
    field = f"{field}.rollingUpdate"
    shares = {name: mapping(rolling).get(name, 0) for name in ("maxUnavailable", "maxSurge")}
    errors = share_errors(shares["maxUnavailable"], f"{field}.maxUnavailable")
    errors += share_errors(shares["maxSurge"], f"{field}.maxSurge", most=False)
    if all(share in (0, "0%") for share in shares.values()):
        why = "may not be 0 when `maxSurge` is 0"
        errors.append(invalid(f"{field}.maxUnavailable", shares["maxUnavailable"], why))
    return errors


KINDS: Final = (
    Kind(
        "apps", "v1", "deployments", "Deployment", schema="apps/v1.Deployment",
        short_names=("deploy",), categories=("all",), subresources=("scale", "status"),
        scale=REPLICAS, generation=Generation.SPEC_OR_ANNOTATIONS,
        columns=(
            NAME, Column("Ready", ready_replicas),
            Column("Up-to-date", ".status.updatedReplicas", number),
            Column("Available", ".status.availableReplicas", number), AGE, *containers_columns(),
            wide("Selector", ".spec.selector", selector_text),
        ),
        status_keeps=("labels",),
        rules=KindRules(
            set_defaults=_set_defaults, validate=_validate,
            validate_update=fixed("spec.selector"),
        ),
    ),
)  # fmt: skip
