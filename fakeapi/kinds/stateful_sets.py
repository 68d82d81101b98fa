"""StatefulSets and the revisions of controllers.

Source: pkg/apis/apps/{v1,validation} of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.kinds.persistent_volumes import set_claim_defaults
from fakeapi.kinds.pod_templates import set_template_defaults
from fakeapi.kinds.replica_sets import STATEFUL_SET, validate_workload
from fakeapi.types.columns import (
    AGE,
    NAME,
    NONE,
    Column,
    containers_columns,
    number,
    ready_replicas,
)
from fakeapi.types.errors import FieldError, forbidden, invalid
from fakeapi.types.kind import REPLICAS, Generation, Kind, KindRules
from fakeapi.types.objects import (
    Json,
    child,
    integer,
    mapping,
    mappings,
    metadata_of,
    name_of,
    set_defaults,
    text,
)
from fakeapi.validation.checks import NOT_NEGATIVE

_STRATEGIES: Final = ("RollingUpdate", "OnDelete")
_POD_MANAGEMENT: Final = ("OrderedReady", "Parallel")
_CHANGEABLE: Final = (
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


def _set_defaults(stateful_set: Json) -> None:
    spec = child(stateful_set, "spec")
    set_defaults(spec, podManagementPolicy="OrderedReady")
    strategy = child(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        child(strategy, "rollingUpdate")
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate" and isinstance(rolling, dict):
        set_defaults(rolling, partition=0)
    retention = child(spec, "persistentVolumeClaimRetentionPolicy")
    set_defaults(retention, whenDeleted="Retain", whenScaled="Retain")
    set_defaults(spec, replicas=1, revisionHistoryLimit=10)
    set_template_defaults(spec)
    for claim in mappings(spec.get("volumeClaimTemplates")):
        set_claim_defaults(claim)
        claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"


def _validate(stateful_set: Json) -> list[FieldError]:
    spec = mapping(stateful_set.get("spec"))
    errors = []
    policy = text(spec.get("podManagementPolicy"))
    if policy not in _POD_MANAGEMENT:
        why = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid("spec.podManagementPolicy", policy, why))
    errors += _strategy_errors(mapping(spec.get("updateStrategy")))
    return errors + _workload_errors(stateful_set)


def _strategy_errors(strategy: Json) -> list[FieldError]:
    """Return the errors of the update strategy; values are printed as Go prints the structs."""
    field, kind = "spec.updateStrategy", text(strategy.get("type"))
    parameters = strategy.get("rollingUpdate")
    partition = integer(mapping(parameters).get("partition"))
    # Behind a gate that is off: MaxUnavailableStatefulSet.
    shown = {"Partition": partition, "MaxUnavailable": None} if parameters is not None else None
    if kind not in _STRATEGIES:
        why = "must be 'RollingUpdate' or 'OnDelete'"
        return [invalid(field, {"Type": kind, "RollingUpdate": shown}, why)]
    field = f"{field}.rollingUpdate"
    if kind == "OnDelete":
        why = "only allowed for updateStrategy 'RollingUpdate'"
        return [] if shown is None else [invalid(field, shown, why)]
    return [invalid(f"{field}.partition", partition, NOT_NEGATIVE)] if partition < 0 else []


def _validate_update(new: Json, old: Json) -> list[FieldError]:
    specs = [mapping(obj.get("spec")) for obj in (new, old)]
    rest = [{k: v for k, v in spec.items() if k not in _CHANGEABLE} for spec in specs]
    return [] if rest[0] == rest[1] else [forbidden("spec", _FIXED)]


def _workload_errors(stateful_set: Json) -> list[FieldError]:
    """Return the errors of selector and template, the template as the pods have it: with claims."""
    spec = mapping(stateful_set.get("spec"))
    template = mapping(spec.get("template"))
    # The controller sets these; the template's values are not checked.
    given = mapping(template.get("spec"))
    pod_spec = {name: given[name] for name in given if name not in ("hostname", "subdomain")}
    names = [name_of(claim) for claim in mappings(spec.get("volumeClaimTemplates"))]
    pod_spec["volumes"] = [
        *({"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names),
        *(one for one in mappings(given.get("volumes")) if one.get("name") not in names),
    ]
    spec = {**spec, "template": {**template, "spec": pod_spec}}
    return validate_workload({"spec": spec}, called=STATEFUL_SET)


def _controller(revision: Json, _now_seconds: float) -> str:
    for owner in mappings(metadata_of(revision).get("ownerReferences")):
        if owner.get("controller"):
            group = text(owner.get("apiVersion")).rpartition("/")[0]
            kind = text(owner.get("kind")) + (f".{group}" if group else "")
            return f"{kind.lower()}/{text(owner.get('name'))}"
    return NONE


KINDS: Final = (
    Kind(
        "apps", "v1", "statefulsets", "StatefulSet", schema="apps/v1.StatefulSet",
        short_names=("sts",), categories=("all",), subresources=("scale", "status"), scale=REPLICAS,
        generation=Generation.SPEC,
        columns=(NAME, Column("Ready", ready_replicas), AGE, *containers_columns()),
        rules=KindRules(
            set_defaults=_set_defaults, validate=_validate, validate_update=_validate_update,
        ),
    ),
    Kind(
        "apps", "v1", "controllerrevisions", "ControllerRevision",
        schema="apps/v1.ControllerRevision",
        columns=(
            NAME, Column("Controller", _controller), Column("Revision", ".revision", number), AGE,
        ),
    ),
)  # fmt: skip
