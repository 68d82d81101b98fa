"""The server carries out the verb that the authorizer allowed, for any method and form of path."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest
import yarl
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeapi import FakeApiServer, ManualClock, ObjectChange, Security, User
from fakeapi.access.access import AlwaysAllow, Decision
from fakeapi.access.attributes import Attributes
from fakeapi.decoding.routes import Route
from fakeapi.requests import dispatch
from fakeapi.requests.call import understood
from fakeapi.types.errors import MethodNotAllowed

from ..api_client import MERGE, ApiClient, eventually
from ..custom_resources import definition, version
from ..objects import CONFIG_MAPS, NODES, PODS, config_map, pod

Json = dict[str, Any]

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
#: What may stand below a version, each with and without watch/ and proxy/ in front.
BELOW = (
    "configmaps",
    "configmaps/c",
    "namespaces/default/configmaps",
    "namespaces/default/configmaps/",
    "namespaces/default/configmaps/c",
    "namespaces/default/configmaps/c//",
    "namespaces/default/configmaps/%63",
    "namespaces/default%2Fconfigmaps/c",
    "namespaces/default/configmaps%2Fc",
    "namespaces/default/configmaps/c/status",
    "namespaces/default/configmaps/c/scale",
    "namespaces//configmaps",
    "namespaces//configmaps/c",
    "namespaces/default/pods/p",
    "namespaces/default/pods/p/status",
    "namespaces/default/pods/p/binding",
    "namespaces/default/pods/p/eviction",
    "namespaces/default/pods/p/log",
    "namespaces/default/pods/p/exec",
    "namespaces/default/pods/p/proxy",
    "namespaces/default/pods/p/proxy/more",
    "namespaces/default/pods/p/status/more",
    "namespaces/default/bindings",
    "namespaces/default/serviceaccounts/default/token",
    "namespaces",
    "namespaces/default",
    "namespaces/default/status",
    "namespaces/default/finalize",
    "namespaces/default/status/c",
    "nodes",
    "nodes/n",
    "nodes/n/status",
    "nodes/n/proxy",
    "namespaces/default/nodes/n",
    "widgets",
    "namespaces/default/widgets",
    "namespaces/default/widgets/w",
    "namespaces/default/deployments/d",
    "watch",
    "proxy",
    "nonsense/x",
)
ROOTS = ("/api/v1/", "/apis/example.com/v1/")
ODD_ROOTS = (
    "/api/v9/",
    "/api//",
    "//api/v1/",
    "/%61pi/v1/",
    "/api/v1//",
    "/x/../api/v1/",
    "/apis/apps/v1/",
    "/apis//v1/",
)
OTHERS = ("/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/version", "/healthz")
PATHS = [
    *(root + verb + rest for root in ROOTS for verb in ("", "watch/") for rest in BELOW),
    *(f"/api/v1/proxy/{rest}" for rest in BELOW[::4]),
    *(root + rest for root in ODD_ROOTS for rest in BELOW[::8]),
    *OTHERS,
]
WIDGETS = definition(version())
READING = ("get", "list", "watch")
#: Changes, and the verbs that may make them.
CAUSES = {
    "ADDED": {"create"},
    "MODIFIED": {"update", "patch", "create"},
    "DELETED": {"delete", "deletecollection", "create"},
}


class Asked(AlwaysAllow):
    """Allows everything, and keeps the newest attributes."""

    last: Attributes

    def decide(self, user: User, attributes: Attributes) -> Decision:
        self.last = attributes
        return super().decide(user, attributes)


def body_of(method: str, path: str) -> Json:
    if method == "PATCH":
        return {"metadata": {"labels": {"x": "y"}}}
    if "binding" in path:
        return {"metadata": {"name": "p"}, "target": {"name": "n"}}
    if "eviction" in path:
        return {"metadata": {"name": "p"}}
    if "token" in path:
        return {"spec": {}}
    if method == "DELETE":
        return {}
    made = {"configmaps": config_map("c", {"a": method}), "pods": pod("p")}
    by_kind = [made[plural] for plural in made if plural in path]
    name = {"POST": "new"}.get(method, path.strip("/").rsplit("/", 1)[-1])
    return by_kind[0] if by_kind and method == "PUT" else {"metadata": {"name": name}}


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
async def server(asked: Asked) -> AsyncIterator[FakeApiServer]:
    security = Security(token="secret")
    async with FakeApiServer(clock=ManualClock(), seed=1, security=security) as running:
        running._guard.access.authorizer = asked
        yield running


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": "Bearer secret"}
    async with aiohttp.ClientSession(headers=headers) as opened:
        yield opened


async def _restore(api: ApiClient) -> None:
    """Create the objects that a request may have removed."""
    for path, value in (
        (CONFIG_MAPS, config_map("c")),
        (PODS, pod("p")),
        (NODES, {"metadata": {"name": "n"}}),
    ):
        await api.post(path, value)


async def _sent(
    server: FakeApiServer, session: aiohttp.ClientSession, method: str, path: str
) -> tuple[int, Any, bool]:
    """Return code and body of the answer to a request, and if it is a watch."""
    target = yarl.URL(server.url + path, encoded=True)
    kind = MERGE if method == "PATCH" else "application/json"
    sent = None if method in ("GET", "HEAD") else body_of(method, path)
    async with session.request(
        method, target, json=sent, headers={"Content-Type": kind}, allow_redirects=False
    ) as response:
        if server.statistics().watchers:
            return response.status, {}, True
        text = await response.read()
        is_json = text and response.content_type == "application/json"
        return response.status, await response.json() if is_json else {}, False


def _differences(
    asked: Attributes, code: int, body: Any, changes: list[ObjectChange], *, is_watch: bool
) -> Iterator[str]:
    if is_watch:
        if asked.verb != "watch":
            yield "a watch"
    elif code < 300 and not changes and asked.about_resource and asked.verb in READING:
        verb = "list" if str(body.get("kind")).endswith("List") else "get"
        if asked.verb != verb:
            yield f"a {verb}"
        shown = body.get("metadata", {}).get("name", "")
        if asked.verb == "get" and shown and asked.name != shown:
            yield f"object {shown}"
    for change in changes:
        kind = (change.group, change.resource)
        if asked.verb not in CAUSES[change.type] or (asked.group, asked.resource) != kind:
            yield f"{change.type} of {kind}"
        if change.namespace not in (asked.namespace, "") and asked.resource != "namespaces":
            yield f"{change.type} in {change.namespace}"
        is_one = asked.verb not in ("create", "deletecollection") or asked.subresource
        if is_one and change.name != asked.name:
            yield f"{change.type} {change.name}"


async def test_every_request_does_what_the_authorizer_allowed(
    server: FakeApiServer, session: aiohttp.ClientSession, asked: Asked
) -> None:
    api, changes, wrong, refused = ApiClient(session, server.url), [], [], 0
    await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)
    await _restore(api)
    for method, path in itertools.product(METHODS, PATHS):
        with server.listening(on_change=changes.append):
            code, body, is_watch = await _sent(server, session, method, path)
            await eventually(lambda: not server.statistics().watchers)
        made = [c for c in changes if c.resource not in ("events", "customresourcedefinitions")]
        found = list(_differences(asked.last, code, body, made, is_watch=is_watch))
        if found:
            wrong.append((method, path, code, asked.last.verb, found))
        refused += code in (404, 405)
        if any(change.type == "DELETED" for change in changes) or "namespaces/default" in path:
            await _restore(api)
        changes.clear()
    assert not wrong
    assert refused > len(PATHS)


@pytest.mark.parametrize("method", [m for m in METHODS if m != "GET"])
@pytest.mark.parametrize("path", ["configmaps", "namespaces/default/configmaps/c"])
async def test_a_path_below_watch_takes_only_get(api: ApiClient, method: str, path: str) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    code = (await api.request(method, f"/api/v1/watch/{path}", config_map("c"))).code
    assert code == 405
    assert (await api.get(CONFIG_MAPS)).names == ["c"]


async def test_watch_alone_is_no_resource(api: ApiClient) -> None:
    assert (await api.get("/api/v1/watch")).code == 404
    assert (await api.get("/apis/apps/v1/watch/")).code == 404


PARTS = st.sampled_from(
    ["", "api", "apis", "v1", "apps", "watch", "proxy", "namespaces", "default", "pods", "status"]
)
SERVER = FakeApiServer(clock=ManualClock(), seed=1)


@settings(max_examples=400, deadline=None)
@given(method=st.sampled_from(METHODS), parts=st.lists(PARTS, max_size=9), watch=st.booleans())
def test_any_path_is_understood_in_one_way(method: str, parts: list[str], *, watch: bool) -> None:
    target = "/" + "/".join(parts) + ("?watch=1" if watch else "")
    call = understood(SERVER._registry, method, target, {})
    attributes = call.attributes
    if not isinstance(call.found, Route):
        assert not call.verb
        return
    route = call.found
    assert attributes.verb == call.verb
    assert (attributes.group, attributes.resource) == route.kind.resource_key
    assert (attributes.subresource, attributes.name) == (route.subresource, route.name)
    assert attributes.namespace == (
        route.name if route.kind.plural == "namespaces" else route.namespace
    )
    try:
        waits = dispatch.verb_of(call) is None
    except MethodNotAllowed:
        return
    assert waits is (attributes.verb in ("list", "watch"))


async def test_a_request_that_a_fault_held_is_not_carried_out_as_another(
    session: aiohttp.ClientSession,
) -> None:
    """The kind goes while the create waits, and comes back for the whole cluster."""
    hold: Json = {"name": "hold", "match": {"verb": "create", "resource": "widgets"}, "delay": {}}
    security = Security(token="secret")
    async with FakeApiServer(clock=ManualClock(), security=security, faults=[hold]) as server:
        api, changes = ApiClient(session, server.url), []
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await api.post(path, WIDGETS)).code == 201
        widgets = "/apis/example.com/v1/namespaces/default/widgets"
        waiting = asyncio.ensure_future(api.post(widgets, {"metadata": {"name": "w"}}))
        await eventually(lambda: server.statistics().requests_held == 1)
        name = WIDGETS["metadata"]["name"]
        await api.request("DELETE", f"{path}/{name}")
        with server.listening(on_change=changes.append):
            server.faults.remove("hold")
            assert (await waiting).code == 404
        assert not [change for change in changes if change.resource == "widgets"]
