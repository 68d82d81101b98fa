"""Pods, their templates and bindings."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import pods as printing
from fakeapi.types.columns import AGE, NAME, NONE, Column, or_if_empty, wide
from fakeapi.types.kind import NAMESPACED_FIELDS, Generation, Kind, flag_at, value_at
from fakeapi.types.objects import Json, mapping, mappings, text


def _pod_ip(pod: Json) -> str:
    addresses = mappings(mapping(pod.get("status")).get("podIPs"))
    return text(addresses[0].get("ip")) if addresses else ""


_FIELDS: Final = {
    **NAMESPACED_FIELDS,
    "spec.nodeName": value_at("spec", "nodeName"),
    "spec.host": value_at("spec", "nodeName"),
    "spec.restartPolicy": value_at("spec", "restartPolicy"),
    "spec.schedulerName": value_at("spec", "schedulerName"),
    "spec.serviceAccountName": value_at("spec", "serviceAccountName"),
    "spec.hostNetwork": flag_at("spec", "hostNetwork"),
    "status.phase": value_at("status", "phase"),
    "status.podIP": _pod_ip,
    "status.podIPs": _pod_ip,
    "status.nominatedNodeName": value_at("status", "nominatedNodeName"),
}
_or_none: Final = or_if_empty(NONE)

KINDS: Final = (
    Kind(
        "", "v1", "pods", "Pod", schema="core/v1.Pod", short_names=("po",), categories=("all",),
        subresources=(
            "attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward",
            "resize", "status",
        ),
        generation=Generation.SPEC, fields=_FIELDS,
        deletes_gracefully=True, returns_deleted=True,
        columns=(
            NAME, Column("Ready", printing.ready), Column("Status", printing.reason),
            Column("Restarts", printing.restarts), AGE,
            wide("IP", ".status.podIPs[0].ip", _or_none),
            wide("Node", ".spec.nodeName", _or_none),
            wide("Nominated Node", ".status.nominatedNodeName", _or_none),
            wide("Readiness Gates", printing.readiness_gates),
        ),
        row_conditions=printing.row_conditions,
    ),
    Kind("", "v1", "bindings", "Binding", schema="core/v1.Binding", verbs=("create",)),
    Kind(
        "", "v1", "podtemplates", "PodTemplate", schema="core/v1.PodTemplate",
        generation=Generation.CONTENT, returns_deleted=True,
    ),
)  # fmt: skip
