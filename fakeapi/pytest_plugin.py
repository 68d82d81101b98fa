"""The pytest fixture `fake_api`: an API server for a test, with a namespace of its own.

    def test_it_creates_a_pod(fake_api):
        my_program("--kubeconfig", fake_api.kubeconfig)
        assert ("POST", 201) in [(r.method, r.status) for r in fake_api.requests]

One server serves all tests of a session, that is, of an xdist worker. Each test gets a new
namespace, and all objects that it leaves are removed. The marker gives a test a server of its own,
and takes the keywords of `FakeApiServer`:

    @pytest.mark.fake_api(load=["cluster.yaml"], seed=1)

`fake_api_scope = function` in pytest's configuration gives every test a server of its own. The
fixture works for synchronous and asynchronous tests, because the server has its own thread. The
server is imported when a test first uses it.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from fakeapi.background import BackgroundServer
    from fakeapi.server import FakeApiServer
    from fakeapi.store.journal import HandledRequest
    from fakeapi.types.objects import Json

_SCOPES = ("session", "function")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting `fake_api_scope`: one server for all tests, or a server for each test."""
    parser.addini(
        "fake_api_scope",
        "how long a fake API server lives: session (the default) or function",
        default="session",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and check the setting."""
    config.addinivalue_line(
        "markers",
        "fake_api(**keywords): give the test its own fakeapi.FakeApiServer with these keywords",
    )
    scope = config.getini("fake_api_scope")
    if scope not in _SCOPES:
        raise pytest.UsageError(
            f"fake_api_scope: expected one of {', '.join(_SCOPES)}, got {scope!r}"
        )


class FakeApi:
    """The server of one test; `kubeconfig` is the path of a file with the test's namespace."""

    def __init__(self, server: BackgroundServer, namespace: str, directory: Path) -> None:
        self.server = server
        self.namespace = namespace
        self.kubeconfig = directory / "kubeconfig"
        self._requests: list[HandledRequest] = []
        self._stop_listening = server.call(self._listen)
        server.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
        self.kubeconfig.write_text(_kubeconfig(server.kubeconfig, namespace), encoding="utf-8")

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def requests(self) -> tuple[HandledRequest, ...]:
        """The requests since the test began, oldest first."""
        return tuple(self._requests)

    def load(self, objects: Iterable[Json | str | Path]) -> int:
        """Store objects, from files and directories too; return their number."""
        return self.server.load(objects)

    def close(self) -> None:
        """Stop recording requests."""
        self.server.call(lambda _: self._stop_listening.close())

    def _listen(self, server: FakeApiServer) -> contextlib.ExitStack:
        stack = contextlib.ExitStack()
        stack.enter_context(server.listening(on_request=self._requests.append))
        return stack


@pytest.fixture(scope="session")
def fake_api_server() -> Iterator[BackgroundServer]:
    """The server of all tests of this session, or of this xdist worker."""
    from fakeapi.background import BackgroundServer

    with BackgroundServer() as server:
        yield server


_numbers = itertools.count(1)


@pytest.fixture
def fake_api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeApi]:
    """A server with a namespace of the test."""
    from fakeapi.background import BackgroundServer

    marker = request.node.get_closest_marker("fake_api")
    namespace = f"test-{next(_numbers)}"
    if marker is None and request.config.getini("fake_api_scope") == "session":
        server = request.getfixturevalue("fake_api_server")
        before = server.call(lambda running: running.object_keys())
        with contextlib.closing(FakeApi(server, namespace, tmp_path)) as api:
            yield api
        server.call(lambda running: running.remove_all_but(before))
        return
    options: dict[str, Any] = {} if marker is None else marker.kwargs
    with (
        BackgroundServer(**options) as server,
        contextlib.closing(FakeApi(server, namespace, tmp_path)) as api,
    ):
        yield api


def _kubeconfig(text: str, namespace: str) -> str:
    import yaml

    config = yaml.safe_load(text)
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    return yaml.safe_dump(config, sort_keys=False)
