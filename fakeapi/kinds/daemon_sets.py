"""DaemonSets.

Source: pkg/apis/apps/{v1,validation} and pkg/registry/apps/daemonset of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.kinds.pod_templates import set_template_defaults
from fakeapi.kinds.replica_sets import DAEMON_SET, validate_workload
from fakeapi.types.client_text import parse_int
from fakeapi.types.columns import (
    AGE,
    NAME,
    Column,
    containers_columns,
    labels_text,
    selector_or_none,
    wide,
)
from fakeapi.types.kind import Generation, Kind, KindRules
from fakeapi.types.objects import Json, child, mapping, metadata_of, set_defaults, text
from fakeapi.validation.checks import fixed

if TYPE_CHECKING:
    from fakeapi.types.errors import FieldError

_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
_SELECTOR: Final = wide("Selector", ".spec.selector", selector_or_none)


def _set_defaults(daemon_set: Json) -> None:
    spec = child(daemon_set, "spec")
    strategy = child(spec, "updateStrategy")
    set_defaults(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = child(strategy, "rollingUpdate")
        set_defaults(rolling, maxUnavailable=1, maxSurge=0)
    set_defaults(spec, revisionHistoryLimit=10)
    set_template_defaults(spec)
    annotations = child(child(daemon_set, "metadata"), "annotations")
    annotations.setdefault(_TEMPLATE_GENERATION, "0")


def _prepare(daemon_set: Json, now: str) -> None:
    _set_template_generation(daemon_set, 1)


def _prepare_update(new: Json, old: Json, now: str) -> None:
    """Count the generation of the template; clients cannot set it."""
    annotations = mapping(metadata_of(old).get("annotations"))
    before = text(annotations.get(_TEMPLATE_GENERATION))
    templates = [mapping(obj.get("spec")).get("template") for obj in (new, old)]
    moved = templates[0] != templates[1]
    _set_template_generation(new, _generation(before) + moved)


def _generation(annotation: str) -> int:
    try:
        return parse_int(annotation, bits=63, signed=False) or 0
    except ValueError:
        return 0


def _set_template_generation(daemon_set: Json, generation: int) -> None:
    annotations = child(child(daemon_set, "metadata"), "annotations")
    annotations[_TEMPLATE_GENERATION] = str(generation)


def _validate(daemon_set: Json) -> list[FieldError]:
    return validate_workload(daemon_set, called=DAEMON_SET)


KINDS: Final = (
    Kind(
        "apps", "v1", "daemonsets", "DaemonSet", schema="apps/v1.DaemonSet",
        short_names=("ds",), categories=("all",), subresources=("status",),
        generation=Generation.SPEC,
        columns=(
            NAME, Column("Desired", ".status.desiredNumberScheduled", type="integer"),
            Column("Current", ".status.currentNumberScheduled", type="integer"),
            Column("Ready", ".status.numberReady", type="integer"),
            Column("Up-to-date", ".status.updatedNumberScheduled", type="integer"),
            Column("Available", ".status.numberAvailable", type="integer"),
            Column("Node Selector", ".spec.template.spec.nodeSelector", labels_text), AGE,
            *containers_columns(), _SELECTOR,
        ),
        rules=KindRules(
            set_defaults=_set_defaults, prepare=_prepare, prepare_update=_prepare_update,
            validate=_validate, validate_update=fixed("spec.selector"),
        ),
    ),
)  # fmt: skip
