"""Growth of the cost of a creation with the objects that are there.

A kind whose creation reads all objects of a kind has a factor far above 1. Writes are made without
HTTP. `python -m tests.bench.creations [KIND...]` prints the table.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any, Final

from fakeapi import FakeApiServer, ServerOptions
from fakeapi.writes import pipeline
from tests.fuzz.texts import SEEDS

__all__ = ["creation_milliseconds"]

#: Objects of the kind at the end.
STORED: Final = 10_000
#: So many creations are compared: of the first, and of the last.
COMPARED: Final = 500
_CRD: Final = "apiextensions.k8s.io/v1"
_ROLE: Final = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
_RULES: Final = {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
_REQUESTS: Final = {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}
#: What kinds have besides their metadata, for those without a seed or with a special one.
BODIES: Final[dict[str, dict[str, Any]]] = {
    **{
        kind: SEEDS[kind]
        for kind in (
            "ConfigMap", "CronJob", "CSIDriver", "CSINode", "DaemonSet", "Deployment", "Event",
            "Job", "Lease", "LimitRange", "Namespace", "Node", "PersistentVolume",
            "PersistentVolumeClaim", "Pod", "PodDisruptionBudget", "PodTemplate", "PriorityClass",
            "ReplicaSet", "ReplicationController", "ResourceQuota", "RuntimeClass", "Secret",
            "Service", "StatefulSet", "StorageClass",
        )
    },
    "ClusterRole": _RULES,
    "ClusterRoleBinding": {"roleRef": _ROLE},
    "DeviceClass": {},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": []},
    "Endpoints": {},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
    "IngressClass": {"spec": {"controller": "example.com/c"}},
    "NetworkPolicy": {"spec": {"podSelector": {}}},
    "ResourceClaim": {"spec": {"devices": _REQUESTS}},
    "ResourceClaimTemplate": {"spec": {"spec": {"devices": _REQUESTS}}},
    "Role": _RULES,
    "RoleBinding": {"roleRef": _ROLE},
    "ServiceAccount": {},
}  # fmt: skip


#: Kinds whose creation reads objects of another kind, and that kind.
AMONG: Final = {
    "Ingress": "IngressClass",
    "PersistentVolumeClaim": "StorageClass",
    "Pod": "PriorityClass",
    "Secret": "ResourceQuota",
}


def creation_milliseconds(kind: str, among: str) -> tuple[float, float]:
    """Return the median CPU time of a creation before and after so many objects are `among` it."""
    registry = FakeApiServer(options=ServerOptions(event_log_size=1000))._registry
    kinds = {each.kind: each for each in reversed([*registry.kinds])}  # Event of core/v1

    def created(kind: str, names: range) -> float:
        namespace = {"namespace": "default"} if kinds[kind].namespaced else {}
        costs = []
        for number in names:
            value = {**BODIES[kind], "metadata": {"name": f"n-{number}", **namespace}}
            started = time.process_time()
            pipeline.ensure(registry, kinds[kind], value, manager="bench")
            costs.append(time.process_time() - started)
        return statistics.median(costs) * 1000

    first = created(kind, range(COMPARED))
    created(among, range(COMPARED, STORED))
    return first, created(kind, range(STORED, STORED + COMPARED))


def main() -> None:
    wanted = sys.argv[1:] or BODIES
    print(f"{'kind':<24}{'among':<24}{'first, ms':>10}{f'after {STORED}':>14}{'factor':>8}")
    for kind, among in [*((kind, kind) for kind in BODIES), *AMONG.items()]:
        if kind in wanted:
            first, last = creation_milliseconds(kind, among)
            print(
                f"{kind:<24}{among:<24}{first:>10.3f}{last:>14.3f}{last / first:>8.1f}", flush=True
            )


if __name__ == "__main__":
    main()
