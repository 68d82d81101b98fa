"""Rows of nodes, events, services and the small kinds around them.

Source: pkg/printers/internalversion/printers.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.printing.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    age_of,
    count_at,
    integers,
    labels_text,
    length_at,
    limited,
    mappings_at,
    name_and_age,
    selector_text,
    text_at,
    texts_at,
    texts_columns,
    value_at,
    wide,
)
from fakeapi.printing.durations import age
from fakeapi.types.objects import labels_of, mapping, mappings, metadata_of, name_of, text, texts
from fakeapi.types.printer import Column, Printer

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.types.objects import Json

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"
_ADDRESSES_SHOWN: Final = 3


def _node_status(node: Json) -> str:
    conditions = {c.get("type"): c.get("status") for c in mappings_at(node, "status", "conditions")}
    ready = conditions.get("Ready")
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    if value_at(node, "spec", "unschedulable") is True:
        status += ",SchedulingDisabled"
    return status


def _node_roles(node: Json) -> str:
    roles = set()
    for key, value in labels_of(node).items():
        if key.startswith(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == _ROLE_LABEL:
            roles.add(text(value))
    return ",".join(sorted(roles - {""})) or NONE


def _node_address(node: Json, kind: str) -> str:
    for address in mappings_at(node, "status", "addresses"):
        if address.get("type") == kind:
            return text(address.get("address"))
    return NONE


def _node(node: Json, now: float) -> list[object]:
    info = mapping(value_at(node, "status", "nodeInfo"))
    kernel = text(info.get("kernelVersion")) or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name_of(node),
        _node_status(node),
        _node_roles(node),
        age_of(node, now),
        text(info.get("kubeletVersion")),
        _node_address(node, "InternalIP"),
        _node_address(node, "ExternalIP"),
        text(info.get("osImage")) or UNKNOWN,
        kernel,
        text(info.get("containerRuntimeVersion")) or UNKNOWN,
    ]


def _event(event: Json, now: float) -> list[object]:
    """Events of both APIs are shown alike, from the stored form."""
    first = age(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = age(event["lastTimestamp"], now) if event.get("lastTimestamp") else first
    count = count_at(event, "count") or 1
    if (series := event.get("series")) is not None:
        last = age(mapping(series).get("lastObservedTime"), now)
        count = count_at(mapping(series), "count")
    kind, name = (text_at(event, "involvedObject", part) for part in ("kind", "name"))
    source = (
        text_at(event, "source", "component") or text(event.get("reportingComponent")),
        text_at(event, "source", "host") or text(event.get("reportingInstance")),
    )
    return [
        last,
        text(event.get("type")),
        text(event.get("reason")),
        f"{kind.lower()}/{name}" if name else kind.lower(),
        text_at(event, "involvedObject", "fieldPath"),
        ", ".join(source) if source[1] else source[0],
        text(event.get("message")).strip(),
        first,
        count,
        name_of(event),
    ]


def _namespace(obj: Json, now: float) -> list[object]:
    return [name_of(obj), text_at(obj, "status", "phase"), age_of(obj, now)]


def _config_map(obj: Json, now: float) -> list[object]:
    return [name_of(obj), length_at(obj, "data") + length_at(obj, "binaryData"), age_of(obj, now)]


def _secret(obj: Json, now: float) -> list[object]:
    return [name_of(obj), text(obj.get("type")), length_at(obj, "data"), age_of(obj, now)]


def _load_balancers(service: Json) -> list[str]:
    ingress = mappings_at(service, "status", "loadBalancer", "ingress")
    found = {text(entry.get("ip")) or text(entry.get("hostname")) for entry in ingress}
    return sorted(found - {""})


def _external_ip(service: Json) -> str:
    kind, own = text_at(service, "spec", "type"), texts_at(service, "spec", "externalIPs")
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(own) or NONE
    if kind == "LoadBalancer":
        return ",".join([*_load_balancers(service), *own]) or "<pending>"
    if kind == "ExternalName":
        return text_at(service, "spec", "externalName")
    return UNKNOWN


def _service_port(port: Json) -> str:
    outside = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{outside}/{text(port.get('protocol'))}"


def _service(obj: Json, now: float) -> list[object]:
    addresses = texts_at(obj, "spec", "clusterIPs")
    return [
        name_of(obj),
        text_at(obj, "spec", "type"),
        addresses[0] if addresses else NONE,
        _external_ip(obj),
        ",".join(_service_port(port) for port in mappings_at(obj, "spec", "ports")) or NONE,
        age_of(obj, now),
        labels_text(value_at(obj, "spec", "selector")),
    ]


def _joined(address: str, port: object) -> str:
    """Host and port; an IPv6 address stands in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _endpoints(obj: Json, now: float) -> list[object]:
    found = []
    for subset in mappings(obj.get("subsets")):
        addresses = [text(a.get("ip")) for a in mappings(subset.get("addresses"))]
        ports = mappings(subset.get("ports"))
        found += addresses if not ports else []
        found += [_joined(ip, port.get("port")) for port in ports for ip in addresses]
    nothing = "" if obj.get("subsets") else NONE
    line = limited(found, len(found), _ADDRESSES_SHOWN, nothing=nothing)
    return [name_of(obj), line, age_of(obj, now)]


def _endpoint_slice(obj: Json, now: float) -> list[object]:
    ports = [
        str(port["port"]) if port.get("port") is not None else text(port.get("name", "*"))
        for port in mappings(obj.get("ports"))
    ]
    found = [a for e in mappings(obj.get("endpoints")) for a in texts(e.get("addresses"))]
    return [
        name_of(obj),
        text(obj.get("addressType")),
        limited(ports, len(ports), _ADDRESSES_SHOWN, nothing=UNSET),
        limited(found, len(found), _ADDRESSES_SHOWN, nothing=UNSET),
        age_of(obj, now),
    ]


def _quota(obj: Json, now: float) -> list[object]:
    requests: list[str] = []
    limits: list[str] = []
    for resource, hard in sorted(mapping(value_at(obj, "status", "hard")).items()):
        used = mapping(value_at(obj, "status", "used")).get(resource, "0")
        cell = limits if resource.startswith("limits.") else requests
        cell.append(f"{resource}: {used}/{hard}")
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age_of(obj, now)]


def _priority_class(obj: Json, now: float) -> list[object]:
    return [
        name_of(obj),
        count_at(obj, "value"),
        obj.get("globalDefault") is True,
        age_of(obj, now),
        text(obj.get("preemptionPolicy")),
    ]


def _text_and_age(*path: str) -> Callable[[Json, float], list[object]]:
    """Cells of kinds with one string between name and age."""

    def cells(obj: Json, now: float) -> list[object]:
        return [name_of(obj), text_at(obj, *path), age_of(obj, now)]

    return cells


def _role_binding(obj: Json, now: float) -> list[object]:
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in mappings(obj.get("subjects")):
        name = text(subject.get("name"))
        if subject.get("kind") == "ServiceAccount":
            name = f"{text(subject.get('namespace'))}/{name}"
        subjects.setdefault(text(subject.get("kind")), []).append(name)
    role = f"{text_at(obj, 'roleRef', 'kind')}/{text_at(obj, 'roleRef', 'name')}"
    lists = (", ".join(subjects[kind]) for kind in ("User", "Group", "ServiceAccount"))
    return [name_of(obj), role, age_of(obj, now), *lists]


def _ingress(obj: Json, now: float) -> list[object]:
    rules = mappings_at(obj, "spec", "rules")
    hosts = [text(r.get("host")) for r in rules[:_ADDRESSES_SHOWN] if r.get("host")]
    line = ",".join(hosts) or "*"
    if hosts and len(rules) > _ADDRESSES_SHOWN and len(hosts) == _ADDRESSES_SHOWN:
        line += f" + {len(rules) - _ADDRESSES_SHOWN} more..."
    return [
        name_of(obj),
        text_at(obj, "spec", "ingressClassName") or NONE,
        line,
        ",".join(_load_balancers(obj)),
        "80, 443" if mappings_at(obj, "spec", "tls") else "80",
        age_of(obj, now),
    ]


def _ingress_class(obj: Json, now: float) -> list[object]:
    annotations = mapping(metadata_of(obj).get("annotations"))
    name = name_of(obj)
    if annotations.get("ingressclass.kubernetes.io/is-default-class") == "true":
        name += " (default)"
    parameters = NONE
    if (reference := mapping(value_at(obj, "spec", "parameters"))) != {}:
        group = f".{reference['apiGroup']}" if reference.get("apiGroup") else ""
        parameters = f"{text(reference.get('kind'))}{group}/{text(reference.get('name'))}"
    return [name, text_at(obj, "spec", "controller"), parameters, age_of(obj, now)]


def _network_policy(obj: Json, now: float) -> list[object]:
    selector = selector_text(value_at(obj, "spec", "podSelector"))
    return [name_of(obj), selector, age_of(obj, now)]


_BINDING: Final = Printer(
    (NAME, Column("Role"), AGE, *wide("Users", "Groups", "ServiceAccounts")), _role_binding
)
_NAME_AND_AGE: Final = Printer((NAME, AGE), name_and_age)
PRINTERS: Final = {
    ("", "nodes"): Printer(
        (
            NAME,
            *texts_columns("Status", "Roles"),
            AGE,
            Column("Version"),
            *wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        _node,
    ),
    ("", "events"): Printer(
        (
            *texts_columns("Last Seen", "Type", "Reason", "Object"),
            *wide("Subobject", "Source"),
            Column("Message"),
            *wide("First Seen", "Count"),
            Column("Name", format="name", priority=1),
        ),
        _event,
    ),
    ("", "namespaces"): Printer((NAME, Column("Status"), AGE), _namespace),
    ("", "configmaps"): Printer((NAME, Column("Data"), AGE), _config_map),
    ("", "secrets"): Printer((NAME, *texts_columns("Type", "Data"), AGE), _secret),
    ("", "serviceaccounts"): _NAME_AND_AGE,
    ("", "services"): Printer(
        (
            NAME,
            *texts_columns("Type", "Cluster-IP", "External-IP", "Port(s)"),
            AGE,
            *wide("Selector"),
        ),
        _service,
    ),
    ("", "endpoints"): Printer((NAME, Column("Endpoints"), AGE), _endpoints),
    ("discovery.k8s.io", "endpointslices"): Printer(
        (NAME, *texts_columns("AddressType", "Ports", "Endpoints"), AGE), _endpoint_slice
    ),
    ("", "resourcequotas"): Printer((NAME, *texts_columns("Request", "Limit"), AGE), _quota),
    ("scheduling.k8s.io", "priorityclasses"): Printer(
        (
            NAME,
            *integers("Value"),
            Column("Global-Default", "boolean"),
            AGE,
            Column("PreemptionPolicy"),
        ),
        _priority_class,
    ),
    ("scheduling.k8s.io", "workloads"): _NAME_AND_AGE,
    ("coordination.k8s.io", "leases"): Printer(
        (NAME, Column("Holder"), AGE), _text_and_age("spec", "holderIdentity")
    ),
    ("node.k8s.io", "runtimeclasses"): Printer(
        (NAME, Column("Handler"), AGE), _text_and_age("handler")
    ),
    ("rbac.authorization.k8s.io", "rolebindings"): _BINDING,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _BINDING,
    ("networking.k8s.io", "ingresses"): Printer(
        (NAME, *texts_columns("Class", "Hosts", "Address", "Ports"), AGE), _ingress
    ),
    ("networking.k8s.io", "ingressclasses"): Printer(
        (NAME, *texts_columns("Controller", "Parameters"), AGE), _ingress_class
    ),
    ("networking.k8s.io", "networkpolicies"): Printer(
        (NAME, Column("Pod-Selector"), AGE), _network_policy
    ),
}
