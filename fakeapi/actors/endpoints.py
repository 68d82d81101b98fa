"""Endpoints and EndpointSlices of Services that have a selector.

Source: pkg/controller/{endpoint,endpointslice} and k8s.io/endpointslice of Kubernetes v1.36.3.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.objects import Object, owner_reference
from fakeapi.actors.resources import ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES
from fakeapi.types.objects import Json, integer, mapping, mappings, string_map, text

if TYPE_CHECKING:
    from collections.abc import Iterable

_SERVICE_NAME: Final = "kubernetes.io/service-name"
_SLICE_MANAGER: Final = {
    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"
}
_ENDPOINTS_MANAGER: Final = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
_HEADLESS: Final = {"service.kubernetes.io/headless": ""}
_ENDPOINTS_PER_SLICE: Final = 100

#: The pods of a Service by the ports they have: a named target port may differ between pods.
_Groups = list[tuple[list[Json], list[Object]]]


class EndpointsController(Controller):
    """Writes one Endpoints object and at least one EndpointSlice per Service."""

    name = "endpoint-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._services = self.follow(SERVICES)
        # Their keys are those of the Services: deleted or changed Endpoints are written again.
        self._endpoints = self.follow(ENDPOINTS)
        self._slices = self.informer(ENDPOINT_SLICES)
        self._pods = self.informer(PODS, self._pod_changed)

    async def sync(self, key: str) -> None:
        """Write the endpoints of one Service. Raises ActorApiError."""
        service = self._services.objects.get(key)
        if service is None or not _selects(service):
            return
        pods = [
            pod
            for pod in self._pods.of_namespace(service.namespace)
            if _matches(service, pod) and pod.status.get("podIP") and not pod.has_ended
        ]
        pods.sort(key=lambda pod: pod.name)
        await self._write_endpoints(service, pods)
        await self._write_slices(service, pods)

    async def _write_endpoints(self, service: Object, pods: list[Object]) -> None:
        publishes = _publishes_not_ready(service)
        pods = [pod for pod in pods if publishes or not pod.is_deleting]
        subsets: list[Json] = []
        for ports, members in _by_ports(service, pods):
            addresses = {
                "addresses": [_address(pod) for pod in members if publishes or pod.is_ready],
                "notReadyAddresses": [
                    _address(pod) for pod in members if not (publishes or pod.is_ready)
                ],
            }
            subset: Json = {name: value for name, value in addresses.items() if value}
            subsets.append({**subset, "ports": ports} if ports else subset)
        labels = _labels(service, _ENDPOINTS_MANAGER)
        old = self._endpoints.objects.get(service.key)
        content: Json = {"subsets": subsets} if subsets else {}
        if old is None:
            metadata: Json = {
                "name": service.name,
                "namespace": service.namespace,
                "labels": labels,
            }
            await self.create(ENDPOINTS, {"metadata": metadata, **content})
        elif mappings(old.get("subsets")) != subsets or old.labels != labels:
            metadata = {**old.metadata, "labels": labels}
            await self.update(ENDPOINTS, {"metadata": metadata, **content})

    async def _write_slices(self, service: Object, pods: list[Object]) -> None:
        """Write the slices, at most 100 endpoints each; an empty one if there is no pod."""
        wanted: list[Json] = []
        for ports, members in _by_ports(service, pods) or [([], [])]:
            for start in range(0, max(len(members), 1), _ENDPOINTS_PER_SLICE):
                part = members[start : start + _ENDPOINTS_PER_SLICE]
                endpoints = [_endpoint(service, pod) for pod in part]
                slice_ports = [{"name": "", **port} for port in ports]
                wanted.append({"endpoints": endpoints, "ports": slice_ports})
        labels = _labels(service, {_SERVICE_NAME: service.name, **_SLICE_MANAGER})
        present = [
            slice_
            for slice_ in self._slices.of_namespace(service.namespace)
            if _SLICE_MANAGER.items() <= slice_.labels.items()
            and slice_.labels.get(_SERVICE_NAME) == service.name
        ]
        present.sort(key=lambda pod: pod.name)
        for content, old in zip(wanted, present, strict=False):
            same = all(mappings(old.get(field)) == content[field] for field in content)
            if not same or old.labels != labels:
                metadata = {**old.metadata, "labels": labels}
                await self.update(ENDPOINT_SLICES, {**old, **content, "metadata": metadata})
        for content in wanted[len(present) :]:
            metadata = {
                "generateName": f"{service.name}-",
                "namespace": service.namespace,
                "labels": labels,
                "ownerReferences": [owner_reference(SERVICES, service)],
            }
            slice_ = {"metadata": metadata, "addressType": "IPv4", **content}
            await self.create(ENDPOINT_SLICES, slice_)
        for old in present[len(wanted) :]:
            await self.delete(ENDPOINT_SLICES, old)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pods = [pod for pod in (old, new) if pod is not None]
        for service in self._services.of_namespace(pods[0].namespace):
            if _selects(service) and any(_matches(service, pod) for pod in pods):
                self.queue.add(service.key)


def _selects(service: Object) -> bool:
    """True if this controller writes the endpoints, not the author of the Service."""
    spec = service.spec
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def _matches(service: Object, pod: Object) -> bool:
    return mapping(service.spec.get("selector")).items() <= pod.labels.items()


def _publishes_not_ready(service: Object) -> bool:
    return service.spec.get("publishNotReadyAddresses") is True


def _labels(service: Object, manager: dict[str, str]) -> dict[str, str]:
    headless = _HEADLESS if service.spec.get("clusterIP") == "None" else {}
    return {**string_map(service.labels), **headless, **manager}


def _by_ports(service: Object, pods: Iterable[Object]) -> _Groups:
    """Group the pods by the numbers of their ports; pods without any of the ports are left out."""
    ports = mappings(service.spec.get("ports"))
    groups: dict[tuple[int, ...], list[Object]] = defaultdict(list)
    for pod in pods:
        numbers = tuple(_port_of(pod, port) for port in ports)
        if any(numbers) or (not ports and service.spec.get("clusterIP") == "None"):
            groups[numbers].append(pod)
    return [
        ([_endpoint_port(port, n) for port, n in zip(ports, numbers, strict=True) if n], members)
        for numbers, members in groups.items()
    ]


def _port_of(pod: Object, port: Json) -> int:
    """Return the target port in a pod, 0 if no container has a port of that name."""
    target = port.get("targetPort")
    if not isinstance(target, str):
        return integer(target)
    for container in mappings(pod.spec.get("containers")):
        for offered in mappings(container.get("ports")):
            if (offered.get("name"), offered.get("protocol")) == (target, port.get("protocol")):
                return integer(offered.get("containerPort"))
    return 0


def _endpoint_port(port: Json, number: int) -> Json:
    kept = {name: port[name] for name in ("name", "protocol", "appProtocol") if port.get(name)}
    return {**kept, "port": number}


def _address(pod: Object) -> Json:
    """Return the pod as an address of Endpoints."""
    address: Json = {"ip": pod.status["podIP"], "targetRef": _reference(pod)}
    return {**address, "nodeName": pod.node} if pod.node else address


def _endpoint(service: Object, pod: Object) -> Json:
    """Return the pod as an endpoint of an EndpointSlice."""
    serving, terminating = pod.is_ready, pod.is_deleting
    endpoint: Json = {
        "addresses": [text(pod.status.get("podIP"))],
        "conditions": {
            "ready": _publishes_not_ready(service) or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": _reference(pod),
    }
    return {**endpoint, "nodeName": pod.node} if pod.node else endpoint


def _reference(pod: Object) -> Json:
    return {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
