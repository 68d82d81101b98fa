"""Objects that kube-apiserver creates: namespaces, priority classes, Service `kubernetes`.

Source: pkg/controlplane/controller/kubernetesservice and pkg/controlplane/reconcilers of
Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from typing import TYPE_CHECKING, Final

from fakeapi.admission import AdmissionChain
from fakeapi.decoding.options import WriteOptions
from fakeapi.kinds.priority_classes import SYSTEM_PRIORITIES
from fakeapi.kinds.service_addresses import NETWORK
from fakeapi.store.registry import Target
from fakeapi.types.objects import metadata_of
from fakeapi.writes import pipeline
from fakeapi.writes.completion import complete

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
_METADATA: Final = {"name": "kubernetes", "namespace": "default"}


def create_system_objects(registry: Registry) -> None:
    """Create the system's namespaces and priority classes that do not exist."""
    for name in _NAMESPACES:
        _ensure(registry, "", "namespaces", {"metadata": {"name": name}})
    for name, description in _CLASS_DESCRIPTIONS.items():
        value: Json = {
            "metadata": {"name": name},
            "value": SYSTEM_PRIORITIES[name],
            "description": description,
        }
        _ensure(registry, "scheduling.k8s.io", "priorityclasses", value)


def publish_server(registry: Registry, address: str, port: int) -> None:
    """Create the Service unless it exists, and point its endpoints at `address` and `port`.

    An address for all interfaces is written as loopback: clients cannot be sent to `0.0.0.0`.
    """
    # Quotas and a Service from a dump that has the same address do not stop the server.
    registry = dataclasses.replace(
        registry, admission=AdmissionChain(()), keeps_service_addresses=True
    )
    ip = ipaddress.ip_address(address.partition("%")[0])
    if ip.is_unspecified:
        ip = ipaddress.ip_address("::1" if ip.version == 6 else "127.0.0.1")
    service: Json = {
        "metadata": {**_METADATA, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": str(NETWORK[1]),
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
    }
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    endpoints: Json = {
        "metadata": {**_METADATA, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": str(ip)}], "ports": ports}],
    }
    endpoint_slice: Json = {
        "metadata": {**_METADATA, "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": f"IPv{ip.version}",
        "endpoints": [{"addresses": [str(ip)], "conditions": {"ready": True}}],
        "ports": ports,
    }
    _ensure(registry, "", "services", service)
    _put(registry, "", "endpoints", endpoints)
    _put(registry, "discovery.k8s.io", "endpointslices", endpoint_slice)


def _ensure(registry: Registry, group: str, plural: str, value: Json) -> None:
    kind = registry.kinds.find(group, "v1", plural)
    assert kind is not None
    pipeline.ensure(registry, kind, value, manager=_MANAGER)


def _put(registry: Registry, group: str, plural: str, value: Json) -> None:
    """Create an object, or update it if it differs."""
    kind = registry.kinds.find(group, "v1", plural)
    assert kind is not None
    existing = registry.store.get(kind.storage_key, "default", "kubernetes")
    if existing is None:
        _ensure(registry, group, plural, value)
        return
    target = Target(kind, "default", "kubernetes", WriteOptions(), manager=_MANAGER)
    metadata = {**metadata_of(existing.object), **metadata_of(value)}
    obj = complete(kind, {**value, "metadata": metadata})
    pipeline.update(registry, target, existing, obj)
