"""One extender over HTTP: its requests and answers as JSON, and the nodes and victims they name.

Go's decoder ignores the case of the fields of answers, and so does this one: some extenders answer
`nodenames`, others `NodeNames`.
Source: `pkg/scheduler/extender.go`, `k8s.io/kube-scheduler/extender/v1`.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from scheduler.client import NODES, DecodeError
from scheduler.client.decoding import JsonKeepingDecoder
from scheduler.clock import Turns
from scheduler.extenders.http_client import HTTPClient
from scheduler.framework.extender import ExtenderError, ExtenderFilterResult, Victims
from scheduler.snapshot import NodeNotFoundError
from scheduler.snapshot.what_if import nodes_without_pods

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from scheduler.api.core import Node
    from scheduler.clock import Clock
    from scheduler.config import Extender
    from scheduler.snapshot import Nodes, PodInfo, Snapshot

#: The fields of a JSON object, by name in lower case.
_Fields = dict[str, msgspec.Raw]

_INTEGER: Final = re.compile(rb"-?[0-9]{1,19}").fullmatch
_NOTHING: Final = msgspec.Raw(b"null")


class HTTPExtender:
    """An extender of the configuration; it satisfies `scheduler.framework.extender.Extender`.

    Raises `ConfigError` for a TLS configuration that cannot work.
    """

    def __init__(self, config: Extender, *, clock: Clock, environ: Mapping[str, str]) -> None:
        self._config: Final = config
        self._turns: Final = Turns(clock)
        self._managed_resources: Final = frozenset(r.name for r in config.managed_resources)
        self.client: Final = HTTPClient(config, clock=clock, environ=environ)
        self.name: Final = config.url_prefix
        self.weight: Final = config.weight
        self.is_ignorable: Final = config.ignorable
        self.is_filter: Final = bool(config.filter_verb)
        self.is_prioritizer: Final = bool(config.prioritize_verb)
        self.is_binder: Final = bool(config.bind_verb)
        self.supports_preemption: Final = bool(config.preempt_verb)

    def is_interested(self, pod: PodInfo) -> bool:
        """Return True if a container names a resource that the extender manages.

        An extender that manages no resources is interested in all pods.
        """
        managed = self._managed_resources
        return not managed or any(
            not managed.isdisjoint(container.resources.requests)
            or not managed.isdisjoint(container.resources.limits)
            for container in (*pod.spec.containers, *pod.spec.init_containers)
        )

    async def filter(self, pod: PodInfo, nodes: Nodes) -> ExtenderFilterResult:
        """Return the nodes that the extender accepts.

        Nodes that the extender returns as objects are scored as if they had no pods, as upstream.
        """
        body = await self._post_nodes(self._config.filter_verb, pod, nodes)
        result = _fields_of(body, "ExtenderFilterResult")
        await self._turns.let_others_run()
        if error := _value(result, "error", str, ""):
            raise ExtenderError(error)
        names = _value(result, "nodenames", list[str] | None, None)
        objects = result.get("nodes", _NOTHING)
        accepted = nodes.slice(0, 0)
        if names is not None and self._config.node_cache_capable:
            positions = self._positions(nodes, names)
            accepted = nodes.take(np.array([positions[n] for n in names], dtype=np.int64))
        elif objects != _NOTHING:
            decoder = _AnsweredNodes({info.node.json: info.node for info in nodes})
            items = await self._node_objects(objects, decoder)
            self._positions(nodes, [node.metadata.name for node in items])
            accepted = nodes_without_pods(nodes, items)
        return ExtenderFilterResult(
            accepted,
            _value(result, "failednodes", dict[str, str], {}),
            _value(result, "failedandunresolvablenodes", dict[str, str], {}),
        )

    async def prioritize(self, pod: PodInfo, nodes: Nodes) -> dict[str, int]:
        """Return the extender's scores, without the weight; the scores of one node are added up."""
        body = await self._post_nodes(self._config.prioritize_verb, pod, nodes)
        listed = _decoded(body)
        scores: dict[str, int] = {}
        for entry in _converted(listed, list[msgspec.Raw] | None, "HostPriorityList") or ():
            fields = _fields(entry, "HostPriority")
            host = _value(fields, "host", str, "")
            scores[host] = scores.get(host, 0) + _integer(fields, "score")
        return scores

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        args = {
            "PodName": pod.name,
            "PodNamespace": pod.namespace,
            "PodUID": pod.uid,
            "Node": node_name,
        }
        body = await self.client.post(self._config.bind_verb, msgspec.json.encode(args))
        result = _fields_of(body, "ExtenderBindingResult")
        if error := _value(result, "error", str, ""):
            raise ExtenderError(error)

    async def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, Victims], snapshot: Snapshot
    ) -> dict[str, Victims]:
        """Return the candidate nodes that the extender leaves, with the victims that it chooses.

        Raises `ExtenderError` for a node or a victim that the snapshot does not have.
        """
        args = await self._preemption_args(pod, victims)
        body = await self.client.post(self._config.preempt_verb, args)
        result = _fields_of(body, "ExtenderPreemptionResult")
        of_nodes = _value(result, "nodenametometavictims", dict[str, msgspec.Raw], {})
        return {name: self._victims(name, raw, snapshot) for name, raw in of_nodes.items()}

    def _victims(self, node_name: str, raw: msgspec.Raw, snapshot: Snapshot) -> Victims:
        try:
            on_node = {pod.uid: pod for pod in snapshot.get(node_name).pods}
        except NodeNotFoundError as error:
            raise ExtenderError(str(error)) from error
        fields = _fields(raw, "MetaVictims")
        pods = []
        for entry in _value(fields, "pods", list[msgspec.Raw], []):
            uid = _value(_fields(entry, "MetaPod"), "uid", str, "")
            if uid not in on_node:
                raise ExtenderError(
                    f"extender: {self.name} claims to preempt pod (UID: &{{{uid}}}) on node: "
                    f"{node_name}, but the pod is not found on that node"
                )
            pods.append(on_node[uid])
        return Victims(pods, _integer(fields, "numpdbviolations"))

    async def _post_nodes(self, verb: str, pod: PodInfo, nodes: Nodes) -> bytes:
        """Send the `ExtenderArgs`: the pod, and the nodes by name or as objects."""
        await self._turns.let_others_run()
        if self._config.node_cache_capable:
            parts = [b"null", b',"NodeNames":', msgspec.json.encode(nodes.names)]
        else:
            parts = [b'{"metadata":{},"items":[']
            for info in nodes:
                parts += (_json_of(info.node), b",")
            if len(nodes):
                parts.pop()
            parts.append(b']},"NodeNames":null')
        # Joined once: whole nodes are tens of megabytes.
        body = b"".join((b'{"Pod":', _json_of(pod.pod), b',"Nodes":', *parts, b"}"))
        await self._turns.let_others_run()
        return await self.client.post(verb, body)

    async def _preemption_args(self, pod: PodInfo, victims: Mapping[str, Victims]) -> bytes:
        """Return the `ExtenderPreemptionArgs`: the victims of each node by uid or as objects."""
        whole, meta = b"null", b"null"
        if self._config.node_cache_capable:
            meta = msgspec.json.encode(
                {
                    name: {
                        "Pods": [{"UID": victim.uid} for victim in of_node.pods],
                        "NumPDBViolations": of_node.num_pdb_violations,
                    }
                    for name, of_node in victims.items()
                }
            )
        else:
            of_nodes = []
            for name, of_node in victims.items():
                of_nodes.append(_json_of_victims(name, of_node))
                await self._turns.let_others_run()
            whole = b"{%s}" % b",".join(of_nodes)
        args = b'{"Pod":%s,"NodeNameToVictims":%s,"NodeNameToMetaVictims":%s}'
        return args % (_json_of(pod.pod), whole, meta)

    def _positions(self, nodes: Nodes, names: Collection[str]) -> dict[str, int]:
        positions = nodes.positions(names)
        for name in names:
            if name not in positions:
                raise ExtenderError(
                    f'extender "{self.name}" claims a filtered node "{name}" '
                    "which is not found in the input node list"
                )
        return positions

    async def _node_objects(self, node_list: msgspec.Raw, decoder: _AnsweredNodes) -> list[Node]:
        body, turns = bytes(node_list), self._turns
        try:
            return (await decoder.page_in_turns(body, url=self.name, turns=turns)).items
        except DecodeError as error:
            raise ExtenderError(str(error)) from error


class _AnsweredNodes(JsonKeepingDecoder["Node"]):
    """Decodes the nodes of an answer. A node that comes back as it was sent is the node sent."""

    def __init__(self, sent: Mapping[bytes, Node]) -> None:
        super().__init__(NODES)
        self._sent: Final = sent

    def object(self, body: bytes, *, url: str) -> Node:
        return self._sent.get(body) or super().object(body, url=url)


class HTTPExtenders(contextlib.AsyncExitStack):
    """The extenders of a configuration, in the order of their calls; an async context manager.

    Ignorable extenders go last. Source: `buildExtenders` in `pkg/scheduler/scheduler.go`.
    """

    def __init__(
        self, configs: Iterable[Extender], *, clock: Clock, environ: Mapping[str, str]
    ) -> None:
        super().__init__()
        self.in_order: Final = tuple(
            HTTPExtender(config, clock=clock, environ=environ)
            for config in sorted(configs, key=lambda config: config.ignorable)
        )

    async def __aenter__(self) -> HTTPExtenders:
        await super().__aenter__()
        for extender in self.in_order:
            await self.enter_async_context(extender.client)
        return self


def _json_of(obj: Any) -> bytes:
    """Return the whole object as it came, or as much of it as its type has."""
    return obj.json or msgspec.json.encode(obj)


def _json_of_victims(node_name: str, victims: Victims) -> bytes:
    pods = b",".join(_json_of_victim(pod) for pod in victims.pods)
    name = msgspec.json.encode(node_name)
    return b'%s:{"Pods":[%s],"NumPDBViolations":%d}' % (name, pods, victims.num_pdb_violations)


def _json_of_victim(pod: PodInfo) -> bytes:
    """Return a pod with its node, which the object of an assumed pod does not have yet."""
    body = _json_of(pod.pod)
    if b'"nodeName"' in body:
        return body
    whole = msgspec.json.decode(body, type=dict[str, Any])
    whole.setdefault("spec", {})["nodeName"] = pod.spec.node_name
    return msgspec.json.encode(whole)


# Answers.


def _decoded(body: bytes) -> msgspec.Raw:
    """Return the first JSON value of a body. Raises `ExtenderError`, in the words of Go."""
    try:
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(body, type=msgspec.Raw)
        return _first_value(body)
    except RecursionError as error:
        raise ExtenderError("exceeded max depth") from error


def _first_value(body: bytes) -> msgspec.Raw:
    """Return the JSON value at the beginning of a body: Go reads one and leaves the rest."""
    text = body.decode("utf-8", "replace").lstrip(" \t\r\n")
    if not text:
        raise ExtenderError("EOF")
    try:
        # A number stays a text: Python reads none of more than 4300 digits.
        _, end = json.JSONDecoder(parse_int=str).raw_decode(text)
    except json.JSONDecodeError as error:
        at = error.pos
        if at >= len(text) or error.msg.startswith("Unterminated"):
            raise ExtenderError("unexpected EOF") from error
        problem = f"invalid character {text[at]!r}"
        where = "looking for beginning of value" if "Expecting value" in error.msg else error.msg
        raise ExtenderError(f"{problem} {where}") from error
    return msgspec.Raw(text[:end].encode())


def _fields_of(body: bytes, go_type: str) -> _Fields:
    """Return the fields of the object in a body, none of null. Raises `ExtenderError`."""
    try:
        # Most bodies are read once only: whole nodes are tens of megabytes.
        return _fields(msgspec.Raw(body), go_type)
    except (ExtenderError, RecursionError):
        return _fields(_decoded(body), go_type)


def _fields(raw: msgspec.Raw, go_type: str) -> _Fields:
    """Return the fields of an object, none of null. Raises `ExtenderError`."""
    fields = _converted(raw, dict[str, msgspec.Raw] | None, go_type) or {}
    return {name.lower(): value for name, value in fields.items()}


def _value(fields: _Fields, name: str, kind: Any, default: Any) -> Any:
    """Return a field, the default for a missing one or null. Raises `ExtenderError`."""
    raw = fields.get(name, _NOTHING)
    return default if bytes(raw) == b"null" else _converted(raw, kind, name)


def _integer(fields: _Fields, name: str) -> int:
    raw = bytes(fields.get(name, b"0"))
    if raw != b"null" and not _INTEGER(raw):
        kind = _shown(raw)
        shown = f"number {raw.decode()}" if kind == "number" else kind
        raise ExtenderError(f"json: cannot unmarshal {shown} into Go value of type int64")
    return 0 if raw == b"null" else int(raw)


def _converted(raw: msgspec.Raw, kind: Any, go_type: str) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError as error:
        shown = _shown(bytes(raw))
        text = f"json: cannot unmarshal {shown} into Go value of type v1.{go_type}"
        raise ExtenderError(text) from error


def _shown(raw: bytes) -> str:
    """Return the kind of a JSON value as Go's errors show it."""
    kinds = {b"{": "object", b"[": "array", b'"': "string", b"t": "bool", b"f": "bool"}
    return kinds.get(raw[:1], "number")
