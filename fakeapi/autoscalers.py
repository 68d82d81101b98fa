"""HorizontalPodAutoscalers in two versions: autoscaling/v2, the stored form, and autoscaling/v1.

v1 has a field for one metric, the use of CPU; everything else is in annotations there, as JSON.

Source: pkg/apis/autoscaling/v1/conversion.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from . import schema
from .apply.paths import json_text
from .objects import Json, mapping, mappings, metadata_of, string_map
from .schema import DecodeError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = f"{_PREFIX}metrics"
_BEHAVIOR: Final = f"{_PREFIX}behavior"
_CURRENT_METRICS: Final = f"{_PREFIX}current-metrics"
_CONDITIONS: Final = f"{_PREFIX}conditions"
_ANNOTATIONS: Final = frozenset(
    (
        _METRICS,
        _BEHAVIOR,
        _CURRENT_METRICS,
        _CONDITIONS,
        f"{_PREFIX}scale-down-tolerance",
        f"{_PREFIX}scale-up-tolerance",
    )
)
_V2: Final = "autoscaling/v2."
_DEFAULT_CPU_PERCENT: Final = 80


class _Flat(NamedTuple):
    """What v1 calls the parts of a metric's target or of its current value, and of its name."""

    value: str = ""
    average_value: str = ""
    average_utilization: str = ""
    selector: str = ""
    #: Quantities that v1 shows even if there is none, as 0.
    always: tuple[str, ...] = ()


_USE: Final = _Flat("", "targetAverageValue", "targetAverageUtilization")
_CURRENT_USE: Final = _Flat(
    "", "currentAverageValue", "currentAverageUtilization", always=("currentAverageValue",)
)
_WANTED: Final[Mapping[str, _Flat]] = {
    "object": _Flat("targetValue", "averageValue", "", "selector", ("targetValue",)),
    "pods": _Flat("", "targetAverageValue", "", "selector", ("targetAverageValue",)),
    "resource": _USE,
    "containerResource": _USE,
    "external": _Flat("targetValue", "targetAverageValue", "", "metricSelector"),
}
_CURRENT: Final[Mapping[str, _Flat]] = {
    "object": _Flat("currentValue", "averageValue", "", "selector", ("currentValue",)),
    "pods": _Flat("", "currentAverageValue", "", "selector", ("currentAverageValue",)),
    "resource": _CURRENT_USE,
    "containerResource": _CURRENT_USE,
    "external": _Flat(
        "currentValue", "currentAverageValue", "", "metricSelector", ("currentValue",)
    ),
}
#: The order of v1's fields, of all sources at once.
_ORDER: Final = (
    "target", "name", "metricName", "metricSelector", "targetAverageUtilization",
    "currentAverageUtilization", "targetValue", "currentValue", "targetAverageValue",
    "currentAverageValue", "selector", "averageValue", "container",
)  # fmt: skip
_PARTS: Final = ("value", "averageValue", "averageUtilization")


def to_stored(autoscaler: Json) -> Json:
    """The stored form of an autoscaling/v1 autoscaler."""
    spec, status = mapping(autoscaler.get("spec")), mapping(autoscaler.get("status"))
    hidden = string_map(metadata_of(autoscaler).get("annotations"))
    metrics: list[Json] = []
    percent = spec.get("targetCPUUtilizationPercentage")
    if percent is not None:
        metrics = [_cpu("target", {"type": "Utilization", "averageUtilization": percent})]
    metrics = [*_metrics(hidden, _METRICS, "MetricSpec"), *metrics]
    if not metrics:
        target: Json = {"type": "Utilization", "averageUtilization": _DEFAULT_CPU_PERCENT}
        metrics = [_cpu("target", target)]
    wanted = {"metrics": metrics, "behavior": _behavior(hidden)}
    known: Json = {}
    if status.get("currentCPUUtilizationPercentage") is not None:
        now = {"averageUtilization": status["currentCPUUtilizationPercentage"]}
        known["currentMetrics"] = [_cpu("current", now)]
    for name, values in (
        ("currentMetrics", _metrics(hidden, _CURRENT_METRICS, "MetricStatus")),
        ("conditions", _listed(hidden, _CONDITIONS, "HorizontalPodAutoscalerCondition")),
    ):
        if values:
            known[name] = values
    if not status.get("currentReplicas"):  # v1 shows it even so
        status = {name: value for name, value in status.items() if name != "currentReplicas"}
    return _with(autoscaler, "v2", {**spec, **wanted}, {**status, **known}, {})


def from_stored(autoscaler: Json) -> Json:
    """The autoscaling/v1 form of a stored autoscaler."""
    spec, status = mapping(autoscaler.get("spec")), mapping(autoscaler.get("status"))
    uses = [_cpu_percent(metric, "target") for metric in mappings(spec.get("metrics"))]
    nows = [_cpu_percent(metric, "current") for metric in mappings(status.get("currentMetrics"))]
    others = [
        _flat(metric, "target", _WANTED)
        for metric, use in zip(mappings(spec.get("metrics")), uses, strict=True)
        if use is None
    ]
    behavior = spec.get("behavior")
    hidden = {
        _METRICS: others,
        _CURRENT_METRICS: [
            _flat(metric, "current", _CURRENT) for metric in mappings(status.get("currentMetrics"))
        ],
        _BEHAVIOR: _internal_behavior(behavior) if isinstance(behavior, dict) else None,
        _CONDITIONS: status.get("conditions"),
    }
    wanted = {"targetCPUUtilizationPercentage": _first(uses)}
    known = {"currentCPUUtilizationPercentage": _first(nows[::-1])}
    texts = {name: json_text(value) for name, value in hidden.items() if value}
    return _with(autoscaler, "v1", {**spec, **wanted}, {**status, **known}, texts)


def _first(found: list[object]) -> object:
    """The first number there is."""
    return next((number for number in found if number is not None), None)


def _with(
    autoscaler: Json, version: str, spec: Json, status: Json, annotations: Mapping[str, str]
) -> Json:
    """The object in that version: fields of the other one fall away, and so do its annotations."""
    metadata = dict(metadata_of(autoscaler))
    shown = string_map(metadata.get("annotations"))
    visible = {name: value for name, value in shown.items() if name not in _ANNOTATIONS}
    metadata["annotations"] = {**visible, **annotations}
    if not metadata["annotations"]:
        del metadata["annotations"]
    of_type = f"autoscaling/{version}.HorizontalPodAutoscaler"
    return {
        **autoscaler,
        "metadata": metadata,
        "spec": schema.decode(f"{of_type}Spec", spec),
        "status": schema.decode(f"{of_type}Status", status),
    }


def _cpu(part: str, value: Json) -> Json:
    return {"type": "Resource", "resource": {"name": "cpu", part: value}}


def _cpu_percent(metric: Json, part: str) -> object:
    """The share of its CPU that a metric is about, None if it is about something else."""
    source = mapping(metric.get("resource"))
    if metric.get("type") != "Resource" or source.get("name") != "cpu":
        return None
    return mapping(source.get(part)).get("averageUtilization")


def _flat(metric: Json, part: str, names: Mapping[str, _Flat]) -> Json:
    """A metric, or what one is at, as v1 writes it down."""
    flat: Json = {"type": metric.get("type")}
    for kind, renamed in names.items():
        source = metric.get(kind)
        if not isinstance(source, dict):
            continue
        value, name = mapping(source.get(part)), mapping(source.get("metric"))
        fields: Json = dict.fromkeys(renamed.always, "0")
        for shown, new in zip(_PARTS, renamed[:3], strict=True):
            if new and value.get(shown) is not None:
                fields[new] = value[shown]
        if name:
            fields["metricName"] = name.get("name", "")
            if name.get("selector") is not None:
                fields[renamed.selector] = name["selector"]
        for known, new in (("describedObject", "target"), ("name", "name")):
            if known in source:
                fields[new] = source[known]
        if kind == "containerResource":
            fields["container"] = source.get("container", "")
        flat[kind] = {field: fields[field] for field in _ORDER if field in fields}
    return flat


def _metrics(hidden: Mapping[str, str], annotation: str, of_type: str) -> list[Json]:
    """The metrics of an annotation in v2's form."""
    is_wish = of_type == "MetricSpec"
    names, part = (_WANTED, "target") if is_wish else (_CURRENT, "current")
    found = [_deep(flat, part, names) for flat in _parsed(hidden, annotation)]
    return _decoded(found, of_type)


def _listed(hidden: Mapping[str, str], annotation: str, of_type: str) -> list[Json]:
    return _decoded(_parsed(hidden, annotation), of_type)


def _decoded(values: list[Json], of_type: str) -> list[Json]:
    """The values, or none if one of them is not what it should be: upstream ignores them, too."""
    try:
        return [schema.decode(f"{_V2}{of_type}", value) for value in values]
    except DecodeError:
        return []


def _parsed(hidden: Mapping[str, str], annotation: str) -> list[Json]:
    try:
        return mappings(msgspec.json.decode(hidden.get(annotation, "[]")))
    except msgspec.DecodeError:
        return []


def _deep(flat: Json, part: str, names: Mapping[str, _Flat]) -> Json:
    """A metric, or what one is at, as v2 writes it down."""
    metric: Json = {"type": flat.get("type")}
    for kind, renamed in names.items():
        source = flat.get(kind)
        if not isinstance(source, dict):
            continue
        values: Json = {
            name: source[old]
            for name, old in zip(_PARTS, renamed[:3], strict=True)
            if old and source.get(old) is not None
        }
        if part == "target":
            values = _target(kind, values)
        deep: Json = {part: values}
        if renamed.selector:
            selector = source.get(renamed.selector)
            named = {} if selector is None else {"selector": selector}
            deep["metric"] = {"name": source.get("metricName"), **named}
        if kind == "object":
            deep["describedObject"] = source.get("target")
        deep.update({name: source[name] for name in ("name", "container") if name in source})
        metric[kind] = deep
    return metric


def _target(kind: str, values: Json) -> Json:
    """A target says of which kind it is; what v1 cannot leave out is no wish beside an average."""
    if kind == "object" and "averageValue" in values and values.get("value") == "0":
        values = {"averageValue": values["averageValue"]}
    if "averageUtilization" in values:
        return {"type": "Utilization", **values}
    has_value = "value" in values and not (kind == "object" and "averageValue" in values)
    return {"type": "Value" if has_value else "AverageValue", **values}


def _behavior(hidden: Mapping[str, str]) -> Json | None:
    """The behavior of its annotation, None if there is none that can be read."""
    try:
        written = msgspec.json.decode(hidden.get(_BEHAVIOR, "{}"))
    except msgspec.DecodeError:
        return None
    found = _decoded([_renamed(mapping(written), upper=False)], "HorizontalPodAutoscalerBehavior")
    return found[0] if found and found[0] else None


_RULES: Final = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")


def _internal_behavior(behavior: Json) -> Json:
    """The behavior as upstream's internal type is written: nothing is left out, names are Go's."""
    whole: Json = {}
    for direction in ("scaleUp", "scaleDown"):
        rules = behavior.get(direction)
        is_there = isinstance(rules, dict)
        whole[direction] = {n: mapping(rules).get(n) for n in _RULES} if is_there else None
    return _renamed(whole, upper=True)


def _renamed(value: Json, *, upper: bool) -> Json:
    """The same with field names that begin in upper or in lower case."""
    renamed: Json = {}
    for name, inner in value.items():
        if isinstance(inner, dict):
            inner = _renamed(inner, upper=upper)
        elif isinstance(inner, list):
            inner = [_renamed(item, upper=upper) for item in mappings(inner)]
        first = name[:1].upper() if upper else name[:1].lower()
        renamed[first + name[1:]] = inner
    return renamed
