"""Extenders of the scheduler under test: HTTP servers with the answers of the case.

Without an answer of the case an extender accepts all nodes and all victims, gives no scores, and
binds the pod. Its answers have the form of the request: names of nodes, or whole nodes.
Source: `k8s.io/kube-scheduler/extender/v1`.
"""

from __future__ import annotations

import base64
import collections
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from .api import Json, Ref
from .clock import parse_duration

if TYPE_CHECKING:
    from .api import ApiClient
    from .clock import Clock

#: A certificate for 127.0.0.1 that signs itself, and its key; valid until 2126.
_CERTIFICATE: Final = Path(__file__).with_name("extender.pem")
_CERTIFICATE_END: Final = "-----END CERTIFICATE-----\n"


class ExtenderAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer of an extender to one verb. `json` and `body` replace everything else.

    `accepts` are the nodes that pass, by default all that are not rejected; `victims` are pods by
    node.
    """

    accepts: list[str] | None = None
    rejects: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    scores: dict[str, int] = {}
    victims: dict[str, list[str]] | None = None
    error: str = ""
    status: int = 200
    json: Json | list[object] | None = None
    body: str | None = None
    delay: str = "0s"

    def leaves(self, node: str) -> bool:
        """True if a node passes."""
        if node in self.rejects or node in self.unresolvable:
            return False
        return self.accepts is None or node in self.accepts


class Extender(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An extender of a case. `config` is its entry in the KubeSchedulerConfiguration.

    With `tls` it serves HTTPS: `trusted` adds its certificate to `config`, `untrusted` does not.
    """

    name: str
    config: Json
    tls: str = ""
    answers: dict[str, ExtenderAnswer] = {}


class RunningExtender:
    """A running extender; an async context manager."""

    def __init__(self, extender: Extender, *, api: ApiClient, clock: Clock) -> None:
        self._extender: Final = extender
        self._api: Final = api
        self._clock: Final = clock
        self._url = ""
        #: The answers by verb, to be changed at any time.
        self.answers: Final[dict[str, ExtenderAnswer]] = dict(extender.answers)
        #: The number of requests by verb.
        self.calls: Final[collections.Counter[str]] = collections.Counter()
        #: The last request of each verb.
        self.received: Final[dict[str, Json]] = {}

    async def __aenter__(self) -> RunningExtender:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/{verb}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.0
        )
        await self._runner.setup()
        context = None
        if self._extender.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(_CERTIFICATE)
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        scheme = "https" if self._extender.tls else "http"
        self._url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def config(self) -> Json:
        """The entry in the KubeSchedulerConfiguration, with its URL unless the case has a URL."""
        entry: Json = {"urlPrefix": self._url, **self._extender.config}
        if self._extender.tls == "trusted":
            pem = _CERTIFICATE.read_text(encoding="ascii")
            certificate = pem[: pem.index(_CERTIFICATE_END) + len(_CERTIFICATE_END)]
            tls = entry.get("tlsConfig")
            entry["tlsConfig"] = {
                **(tls if isinstance(tls, dict) else {}),
                "caData": base64.b64encode(certificate.encode()).decode(),
            }
        return entry

    async def _handle(self, request: web.Request) -> web.Response:
        verb = request.match_info["verb"]
        args = msgspec.json.decode(await request.read(), type=dict[str, Any])
        self.calls[verb] += 1
        self.received[verb] = args
        answer = self.answers.get(verb, ExtenderAnswer())
        if answer.body is not None:
            body = answer.body.encode()
        elif answer.json is not None:
            body = msgspec.json.encode(answer.json)
        else:
            body = msgspec.json.encode(await self._answer(verb, args, answer))
        await self._clock.sleep(parse_duration(answer.delay))
        return web.Response(status=answer.status, body=body, content_type="application/json")

    async def _answer(self, verb: str, args: Json, answer: ExtenderAnswer) -> object:
        if verb == "filter":
            return _filtered(args, answer)
        if verb == "prioritize":
            return [{"Host": host, "Score": score} for host, score in answer.scores.items()]
        if verb == "preempt":
            return {"NodeNameToMetaVictims": await self._victims(args, answer)}
        if not answer.error and answer.status == 200:
            await self._api.bind(
                Ref("Pod", str(args["PodName"]), str(args["PodNamespace"])), str(args["Node"])
            )
        return {"Error": answer.error}

    async def _victims(self, args: Json, answer: ExtenderAnswer) -> Json:
        given: Any = args.get("NodeNameToMetaVictims")
        if given is None:
            whole: Any = args.get("NodeNameToVictims") or {}
            given = {
                node: {
                    "Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]],
                    "NumPDBViolations": victims["NumPDBViolations"],
                }
                for node, victims in whole.items()
            }
        if answer.victims is None:
            return {node: victims for node, victims in given.items() if answer.leaves(node)}
        return {
            node: {"Pods": [{"UID": await self._uid_of(pod)} for pod in pods]}
            for node, pods in answer.victims.items()
        }

    async def _uid_of(self, pod: str) -> str:
        obj: Any = await self._api.find(Ref("Pod", pod)) or {"metadata": {"uid": pod}}
        return str(obj["metadata"]["uid"])


def _filtered(args: Json, answer: ExtenderAnswer) -> Json:
    result: Json = {
        "FailedNodes": answer.rejects,
        "FailedAndUnresolvableNodes": answer.unresolvable,
        "Error": answer.error,
    }
    names: Any = args.get("NodeNames")
    if names is not None:
        return {**result, "NodeNames": [name for name in names if answer.leaves(name)]}
    nodes: Any = args.get("Nodes")
    items = [node for node in nodes["items"] if answer.leaves(node["metadata"]["name"])]
    return {**result, "Nodes": {**nodes, "items": items}}


def matches(expected: object, actual: object) -> bool:
    """True if an actual JSON value has all expected fields and values.

    A mapping may have further fields. A list has the same number of items, in any order.
    """
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(
            matches(value, actual.get(name)) for name, value in expected.items()
        )
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(expected) != len(actual):
            return False
        left = list(actual)
        for item in expected:
            position = next((at for at, other in enumerate(left) if matches(item, other)), None)
            if position is None:
                return False
            del left[position]
        return True
    return expected == actual
