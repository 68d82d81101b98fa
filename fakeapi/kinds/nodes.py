"""Nodes."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, NONE, UNKNOWN, Column, find, or_else, or_if_empty, wide
from fakeapi.types.kind import NAME_FIELDS, Kind, flag_at
from fakeapi.types.objects import Json, labels_of, mapping, text

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"


def _node_status(node: Json, _now_seconds: float) -> str:
    ready = find(node, '.status.conditions[?(@.type=="Ready")].status')
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    unschedulable = find(node, ".spec.unschedulable") is True
    return f"{status},SchedulingDisabled" if unschedulable else status


def _node_roles(node: Json, _now_seconds: float) -> str:
    labels = labels_of(node)
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(text(labels.get(_ROLE_LABEL)))
    return ",".join(sorted(roles - {""})) or NONE


def _address(kind: str) -> str:
    """Return the path of the node's first address of one kind."""
    return f'.status.addresses[?(@.type=="{kind}")].address'


def _kernel(info: object) -> str:
    architecture = mapping(info).get("architecture")
    kernel = text(mapping(info).get("kernelVersion")) or UNKNOWN
    return f"{kernel} ({architecture})" if architecture else kernel


_or_unknown: Final = or_if_empty(UNKNOWN)

KINDS: Final = (
    Kind(
        "", "v1", "nodes", "Node", namespaced=False, schema="core/v1.Node", short_names=("no",),
        subresources=("status",), keeps_status_on_create=True,
        fields={**NAME_FIELDS, "spec.unschedulable": flag_at("spec", "unschedulable")},
        columns=(
            NAME, Column("Status", _node_status), Column("Roles", _node_roles), AGE,
            Column("Version", ".status.nodeInfo.kubeletVersion"),
            wide("Internal-IP", _address("InternalIP"), or_else(NONE)),
            wide("External-IP", _address("ExternalIP"), or_else(NONE)),
            wide("OS-Image", ".status.nodeInfo.osImage", _or_unknown),
            wide("Kernel-Version", ".status.nodeInfo", _kernel),
            wide("Container-Runtime", ".status.nodeInfo.containerRuntimeVersion", _or_unknown),
        ),
    ),
)  # fmt: skip
