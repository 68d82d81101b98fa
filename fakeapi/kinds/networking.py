"""Ingresses and NetworkPolicies.

Source: pkg/apis/networking/v1/defaults.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import (
    AGE,
    ITEMS_SHOWN,
    NAME,
    NONE,
    Column,
    load_balancers,
    name_with_default,
    or_else,
    selector_or_none,
)
from fakeapi.types.kind import Generation, Kind, KindRules
from fakeapi.types.objects import Json, child, mapping, mappings, set_defaults, text


def _set_policy_defaults(policy: Json) -> None:
    spec = child(policy, "spec")
    if not spec.get("policyTypes"):
        egress = ["Egress"] if spec.get("egress") else []
        spec["policyTypes"] = ["Ingress", *egress]
    for rule in mappings(spec.get("ingress")) + mappings(spec.get("egress")):
        for port in mappings(rule.get("ports")):
            set_defaults(port, protocol="TCP")


def _set_class_defaults(ingress_class: Json) -> None:
    parameters = mapping(ingress_class.get("spec")).get("parameters")
    if isinstance(parameters, dict):
        set_defaults(parameters, scope="Cluster")


DEFAULT_INGRESS_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"


def _hosts(rules: object) -> str:
    first = mappings(rules)[:ITEMS_SHOWN]
    hosts = [text(rule.get("host")) for rule in first if rule.get("host")]
    more = len(mappings(rules)) - ITEMS_SHOWN
    line = ",".join(hosts) or "*"
    return f"{line} + {more} more..." if len(hosts) == ITEMS_SHOWN and more > 0 else line


def _parameters(reference: object) -> str:
    parameters = mapping(reference)
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    name = f"{text(parameters.get('kind'))}{group}/{text(parameters.get('name'))}"
    return name if parameters else NONE


KINDS: Final = (
    Kind(
        "networking.k8s.io", "v1", "ingresses", "Ingress", schema="networking/v1.Ingress",
        short_names=("ing",), subresources=("status",), generation=Generation.SPEC,
        columns=(
            NAME, Column("Class", ".spec.ingressClassName", or_else(NONE)),
            Column("Hosts", ".spec.rules", _hosts),
            Column("Address", ".status.loadBalancer.ingress", load_balancers),
            Column("Ports", ".spec.tls", lambda tls: "80, 443" if tls else "80"), AGE,
        ),
    ),
    Kind(
        "networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False,
        schema="networking/v1.IngressClass", generation=Generation.SPEC,
        columns=(
            Column("Name", name_with_default(DEFAULT_INGRESS_CLASS), format="name"),
            Column("Controller", ".spec.controller"),
            Column("Parameters", ".spec.parameters", _parameters), AGE,
        ),
        rules=KindRules(set_defaults=_set_class_defaults),
    ),
    Kind(
        "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",),
        schema="networking/v1.NetworkPolicy", generation=Generation.SPEC,
        columns=(NAME, Column("Pod-Selector", ".spec.podSelector", selector_or_none), AGE),
        rules=KindRules(set_defaults=_set_policy_defaults),
    ),
)  # fmt: skip
