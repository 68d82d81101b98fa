"""Fields that say the same thing twice, kept alike; and fields that only exist on the way in.

Upstream converts every object to an internal type, which has one of two such fields, and back.
Runs on decoded objects with defaults, on every write, and changes them in place.

Source: pkg/apis/{core,apps}/v1/conversion.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from fakeapi.types.objects import Json, child, mapping, mappings, string_map, text, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.types.kind import ResourceKey

TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def convert(resource: ResourceKey, obj: Json) -> None:
    """Bring the fields of the object's kind into line."""
    settle = _BY_RESOURCE.get(resource)
    if settle is not None:
        settle(obj)


def _pod(pod: Json) -> None:
    """The one address is the first of all; if they differ, it is the one that counts."""
    status = pod.get("status")
    if not isinstance(status, dict):
        return
    addresses, address = mappings(status.get("podIPs")), text(status.get("podIP"))
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and addresses[0].get("ip"):
        status["podIP"] = addresses[0]["ip"]


def _node(node: Json) -> None:
    spec = node.get("spec")
    if not isinstance(spec, dict):
        return
    ranges, first = texts(spec.get("podCIDRs")), text(spec.get("podCIDR"))
    if first and (not ranges or ranges[0] != first):
        spec["podCIDRs"] = [first]
    elif ranges and ranges[0]:
        spec["podCIDR"] = ranges[0]


def _secret(secret: Json) -> None:
    """Strings join the data and are never seen again."""
    strings = string_map(secret.pop("stringData", None))
    for name, value in strings.items():
        child(secret, "data")[name] = base64.b64encode(value.encode()).decode()


def _stateful_set(stateful_set: Json) -> None:
    templates = mapping(stateful_set.get("spec")).get("volumeClaimTemplates")
    for template in mappings(templates):
        template["kind"] = "PersistentVolumeClaim"
        template["apiVersion"] = "v1"


def _daemon_set(daemon_set: Json) -> None:
    """The generation of the template is an annotation; the strategy counts it."""
    annotations = child(child(daemon_set, "metadata"), "annotations")
    annotations.setdefault(TEMPLATE_GENERATION, "0")


_BY_RESOURCE: Final[dict[ResourceKey, Callable[[Json], None]]] = {
    ("", "pods"): _pod,
    ("", "nodes"): _node,
    ("", "secrets"): _secret,
    ("apps", "daemonsets"): _daemon_set,
    ("apps", "statefulsets"): _stateful_set,
}
