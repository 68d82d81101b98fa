"""Validation of what only Deployments and StatefulSets have.

Source: pkg/apis/apps/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.errors import FieldError, forbidden, invalid, not_supported
from fakeapi.types.objects import Json, integer, mapping, text
from fakeapi.validation import workloads
from fakeapi.validation.numbers import NOT_NEGATIVE, number_errors
from fakeapi.validation.workloads import share_errors, validate_workload

_STRATEGIES: Final = ("Recreate", "RollingUpdate")
_SET_STRATEGIES: Final = ("RollingUpdate", "OnDelete")
_POD_MANAGEMENT: Final = ("OrderedReady", "Parallel")
_OF_STATEFUL_SETS: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_FIXED: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)


def validate_deployment(deployment: Json) -> list[FieldError]:
    """What all workloads have, and how pods are replaced."""
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


def validate_stateful_set(stateful_set: Json) -> list[FieldError]:
    """In what order its pods come, how they are replaced, and what all workloads have."""
    spec = mapping(stateful_set.get("spec"))
    errors = []
    policy = text(spec.get("podManagementPolicy"))
    if policy not in _POD_MANAGEMENT:
        why = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid("spec.podManagementPolicy", policy, why))
    errors += _set_strategy_errors(mapping(spec.get("updateStrategy")))
    return errors + workloads.validate_stateful_set(stateful_set)


def _set_strategy_errors(strategy: Json) -> list[FieldError]:
    """What is wrong with how pods are replaced; values are shown as Go has them, not as JSON."""
    field, kind = "spec.updateStrategy", text(strategy.get("type"))
    given = strategy.get("rollingUpdate")
    partition = integer(mapping(given).get("partition"))
    # Behind a gate that is off: MaxUnavailableStatefulSet.
    shown = {"Partition": partition, "MaxUnavailable": None} if given is not None else None
    if kind not in _SET_STRATEGIES:
        why = "must be 'RollingUpdate' or 'OnDelete'"
        return [invalid(field, {"Type": kind, "RollingUpdate": shown}, why)]
    field = f"{field}.rollingUpdate"
    if kind == "OnDelete":
        why = "only allowed for updateStrategy 'RollingUpdate'"
        return [] if shown is None else [invalid(field, shown, why)]
    return [invalid(f"{field}.partition", partition, NOT_NEGATIVE)] if partition < 0 else []


def validate_stateful_set_update(new: Json, old: Json) -> list[FieldError]:
    """All but a few fields of the spec are fixed."""
    specs = [mapping(obj.get("spec")) for obj in (new, old)]
    rest = [{k: v for k, v in spec.items() if k not in _OF_STATEFUL_SETS} for spec in specs]
    return [] if rest[0] == rest[1] else [forbidden("spec", _FIXED)]
