"""Objects that kube-apiserver creates when it starts: four namespaces and two priority classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.validation.cluster import SYSTEM_PRIORITIES
from fakeapi.writes import pipeline

if TYPE_CHECKING:
    from fakeapi.store.registry import Registry
    from fakeapi.types.objects import Json

_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_CLASS_DESCRIPTIONS: Final = {
    "system-node-critical": (
        "Used for system critical pods that must not be moved from their current node."
    ),
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another "
        "node if necessary."
    ),
}
#: The field manager of these objects.
_MANAGER: Final = "kube-apiserver"


def create_system_objects(registry: Registry) -> None:
    """Create the system's namespaces and priority classes, except those that exist."""
    for name in _NAMESPACES:
        _ensure(registry, "", "namespaces", {"metadata": {"name": name}})
    for name, description in _CLASS_DESCRIPTIONS.items():
        value: Json = {
            "metadata": {"name": name},
            "value": SYSTEM_PRIORITIES[name],
            "description": description,
        }
        _ensure(registry, "scheduling.k8s.io", "priorityclasses", value)


def _ensure(registry: Registry, group: str, plural: str, value: Json) -> None:
    kind = registry.kinds.find(group, "v1", plural)
    assert kind is not None
    pipeline.ensure(registry, kind, value, manager=_MANAGER)
