"""Ingresses and NetworkPolicies."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import cluster
from fakeapi.types.kind import Generation, Kind

KINDS: Final = (
    Kind(
        "networking.k8s.io", "v1", "ingresses", "Ingress", schema="networking/v1.Ingress",
        short_names=("ing",), subresources=("status",), generation=Generation.SPEC,
        printer=cluster.PRINTERS["networking.k8s.io", "ingresses"],
    ),
    Kind(
        "networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False,
        schema="networking/v1.IngressClass", generation=Generation.SPEC,
        printer=cluster.PRINTERS["networking.k8s.io", "ingressclasses"],
    ),
    Kind(
        "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",),
        schema="networking/v1.NetworkPolicy", generation=Generation.SPEC,
        printer=cluster.PRINTERS["networking.k8s.io", "networkpolicies"],
    ),
)  # fmt: skip
