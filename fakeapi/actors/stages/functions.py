"""KWOK's functions of templates.

Source: pkg/utils/gotpl/funcs.go and pkg/kwok/controllers of KWOK.
"""

from __future__ import annotations

import collections
import datetime
import functools
import importlib.metadata
import ipaddress
from typing import TYPE_CHECKING, Final

import yaml

from fakeapi.actors.resources import NODES, PODS
from fakeapi.actors.templates import Function, FunctionError, function, to_json, unnumbered
from fakeapi.types.gotext import quoted
from fakeapi.types.objects import Json, mapping, mappings, metadata_of, name_of, text, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.actors.controller import Context
    from fakeapi.clock import Clock

_DEFAULT_CIDR: Final = "10.0.0.1/24"
_NODE_CONDITIONS: Final = (
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory",
     "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
)  # fmt: skip


def function_names(kind: str) -> frozenset[str]:
    """Return the names of KWOK's functions for templates of Stages for a kind."""
    ours = {"Pod": _POD_FUNCTIONS, "Node": _NODE_FUNCTIONS}.get(kind, ())
    return frozenset([*_FUNCTIONS, *ours])


_FUNCTIONS: Final = ("Quote", "Now", "StartTime", "YAML", "Version", "NodeConditions")
_NODE_FUNCTIONS: Final = ("NodeIP", "NodeName", "NodePort")
_POD_FUNCTIONS: Final = (
    "NodeIP", "NodeIPWith", "NodeIPsWith", "PodIP", "PodIPWith", "PodIPsWith",
)  # fmt: skip


class Environment:
    """KWOK's functions for the templates of one kind."""

    def __init__(self, context: Context, kind: str) -> None:
        self._clock = context.clock
        self._start_time = _nano(context.clock)
        self._current: Json = {}
        calls: dict[str, Callable[..., object]] = {
            "Quote": _quote,
            "Now": lambda: _nano(self._clock),
            "StartTime": lambda: self._start_time,
            "YAML": _yaml,
            "Version": _version,
            "NodeConditions": _node_conditions,
        }
        if kind == "Node":
            addresses = _NodeAddresses(context)
            calls |= {
                "NodeIP": lambda: addresses.of(name_of(self._current))[0],
                "NodeName": lambda: name_of(self._current),
                "NodePort": lambda: 0,
            }
        elif kind == "Pod":
            calls |= _pod_calls(context, lambda: self._current)
        self._functions = {name: function(name, call) for name, call in calls.items()}

    def functions_for(self, obj: Json) -> dict[str, Function]:
        """Return the functions, which use that object until the next call."""
        self._current = obj
        return self._functions


def _quote(value: object) -> str:
    """Return JSON in quotes: a string as it is, any other value as a string."""
    encoded = to_json(value)
    return encoded if encoded.startswith('"') else quoted(encoded)


def _nano(clock: Clock) -> str:
    moment = datetime.datetime.fromtimestamp(clock.now(), datetime.UTC)
    fraction = f".{moment.microsecond:06}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _yaml(value: object, *indent: int) -> str:
    """Return YAML; with `indent`, on lines of its own and indented by twice as many spaces."""
    dumped = yaml.safe_dump(unnumbered(value), sort_keys=True, allow_unicode=True)
    dumped = dumped.removesuffix("...\n")
    if len(indent) == 1 and indent[0] > 0:
        return f"\n{dumped}".replace("\n", "\n" + " " * (2 * indent[0]))
    return dumped


@functools.cache
def _version() -> str:
    try:
        return f"v{importlib.metadata.version('kubesched')}"
    except importlib.metadata.PackageNotFoundError:
        return "v0.0.0"


def _node_conditions() -> object:
    names = ("type", "status", "reason", "message")
    stamps = {"lastHeartbeatTime": None, "lastTransitionTime": None}
    return [{**dict(zip(names, one, strict=True)), **stamps} for one in _NODE_CONDITIONS]


class _NodeAddresses:
    """The addresses of nodes; a node without one gets one."""

    def __init__(self, context: Context) -> None:
        self._nodes = context.informer(NODES)
        self._made: dict[str, str] = {}

    def of(self, name: str) -> list[str]:
        """Return the node's addresses, internal ones first."""
        status = mapping((self._nodes.get("", name) or {}).get("status"))
        given = mappings(status.get("addresses"))
        found = [
            text(one.get("address"))
            for kind in ("InternalIP", "ExternalIP")
            for one in given
            if one.get("type") == kind
        ]
        if found:
            return found
        number = len(self._made) + 1
        made = f"172.{16 + number // 65536}.{number // 256 % 256}.{number % 256}"
        return [self._made.setdefault(name, made)]

    def cidr_of(self, name: str) -> str:
        """Return the node's CIDR for pods."""
        spec = mapping((self._nodes.get("", name) or {}).get("spec"))
        ranges = texts(spec.get("podCIDRs")) or [text(spec.get("podCIDR"))]
        return ranges[0] or _DEFAULT_CIDR


class _PodAddresses:
    """The addresses of pods: each is used once, and a pod keeps its own."""

    def __init__(self, context: Context) -> None:
        self._pods = context.informer(PODS)
        self._pods.subscribe(self._changed)
        self._used: collections.Counter[str] = collections.Counter()
        self._given: dict[str, tuple[str, str]] = {}  # CIDR and address, by uid
        self._held: set[str] = set()
        self._next: collections.Counter[str] = collections.Counter()
        self._free: collections.defaultdict[str, collections.deque[str]]
        self._free = collections.defaultdict(collections.deque)

    def of(self, uid: str, namespace: str, name: str, cidr: str) -> str:
        """Return the pod's address in the CIDR. Raises FunctionError for an invalid CIDR."""
        present = self._pods.get(namespace, name) or {}
        address = text(mapping(present.get("status")).get("podIP"))
        if address:
            return address
        if uid not in self._given:
            address = self._new(cidr)
            self._given[uid] = (cidr, address)
            self._held.add(address)
        return self._given[uid][1]

    def _new(self, cidr: str) -> str:
        free = self._free[cidr]
        while free:
            address = free.popleft()
            if not self._used[address] and address not in self._held:
                return address
        try:
            first = ipaddress.ip_interface(cidr).ip
        except ValueError as error:
            raise FunctionError(f"invalid CIDR address: {cidr}") from error
        while True:
            self._next[cidr] += 1
            address = str(first + self._next[cidr])
            if not self._used[address] and address not in self._held:
                return address

    def _changed(self, old: Json | None, new: Json | None) -> None:
        for pod, change in ((new, 1), (old, -1)):
            if pod is not None and not mapping(pod.get("spec")).get("hostNetwork"):
                address = text(mapping(pod.get("status")).get("podIP"))
                if address:
                    self._used[address] += change
        if new is None and old is not None:
            cidr, address = self._given.pop(text(metadata_of(old).get("uid")), ("", ""))
            if address:
                self._held.discard(address)
                self._free[cidr].append(address)


def _pod_calls(context: Context, current: Callable[[], Json]) -> dict[str, Callable[..., object]]:
    nodes, pods = _NodeAddresses(context), _PodAddresses(context)

    def node_of_pod() -> str:
        return text(mapping(current().get("spec")).get("nodeName"))

    def node_ip() -> str:
        return nodes.of(node_of_pod())[0]

    def node_ip_with(name: str) -> str:
        return nodes.of(name)[0]

    def node_ips_with(name: str) -> list[str]:
        return nodes.of(name)

    def pod_ip() -> str:
        metadata = metadata_of(current())
        of = [text(metadata.get(field)) for field in ("uid", "namespace", "name")]
        return pods.of(of[0], of[1], of[2], _DEFAULT_CIDR)

    def pod_ip_with(node: str, host: bool, uid: str, name: str, namespace: str) -> str:  # noqa: FBT001 - KWOK's signature
        return nodes.of(node)[0] if host else pods.of(uid, namespace, name, nodes.cidr_of(node))

    def pod_ips_with(node: str, host: bool, uid: str, name: str, namespace: str) -> list[str]:  # noqa: FBT001 - KWOK's signature
        if host:
            return nodes.of(node)
        return [pods.of(uid, namespace, name, nodes.cidr_of(node))]

    return {
        "NodeIP": node_ip,
        "NodeIPWith": node_ip_with,
        "NodeIPsWith": node_ips_with,
        "PodIP": pod_ip,
        "PodIPWith": pod_ip_with,
        "PodIPsWith": pod_ips_with,
    }
