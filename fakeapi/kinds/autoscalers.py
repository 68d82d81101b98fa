"""HorizontalPodAutoscalers.

Source: pkg/apis/autoscaling/v2/defaults.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Column,
    find,
    find_mappings,
    find_text,
    kind_and_name,
    number,
    or_else,
)
from fakeapi.types.kind import Kind, KindRules
from fakeapi.types.objects import Json, child, mapping, set_defaults, text

_CPU_UTILIZATION_PERCENT: Final = 80
_METRICS_SHOWN: Final = 2


def _set_defaults(autoscaler: Json) -> None:
    spec = child(autoscaler, "spec")
    set_defaults(spec, minReplicas=1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": _CPU_UTILIZATION_PERCENT}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _metric(metric: Json, current: Json) -> str:
    """Return the current and the target value of one metric of an autoscaler."""
    kind = text(metric.get("type"))
    source = kind[:1].lower() + kind[1:]
    if kind not in ("External", "Pods", "Object", "Resource", "ContainerResource"):
        return "<unknown type>"
    target = mapping(find(metric, f".{source}.target"))
    now = mapping(find(current, f".{source}.current"))
    name = f"{find_text(metric, f'.{source}.name')}: " if kind.endswith("Resource") else ""
    if "averageValue" in target:
        mark = " (avg)" if kind in ("External", "Object") else ""
        return f"{name}{now.get('averageValue', UNKNOWN)}/{target['averageValue']}{mark}"
    if not name:
        return f"{now.get('value', UNKNOWN)}/{target.get('value', '0')}"
    shares = now.get("averageUtilization"), target.get("averageUtilization")
    shown, wanted = ("" if share is None else f"{share}%" for share in shares)
    return f"{name}{shown or UNKNOWN}/{wanted or '<auto>'}"


def _metrics(autoscaler: Json, _now_seconds: float) -> str:
    current = find_mappings(autoscaler, ".status.currentMetrics")
    lines = [
        _metric(metric, current[index] if index < len(current) else {})
        for index, metric in enumerate(find_mappings(autoscaler, ".spec.metrics"))
    ]
    line = ", ".join(lines[:_METRICS_SHOWN])
    more = len(lines) - _METRICS_SHOWN
    return f"{line} + {more} more..." if more > 0 else line or NONE


KINDS: Final = (
    Kind(
        "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler",
        schema="autoscaling/v2.HorizontalPodAutoscaler", short_names=("hpa",), categories=("all",),
        subresources=("status",),
        columns=(
            NAME, Column("Reference", ".spec.scaleTargetRef", kind_and_name),
            Column("Targets", _metrics), Column("MinPods", ".spec.minReplicas", or_else(UNSET)),
            Column("MaxPods", ".spec.maxReplicas", number),
            Column("Replicas", ".status.currentReplicas", number), AGE,
        ),
        rules=KindRules(set_defaults=_set_defaults),
    ),
)  # fmt: skip
