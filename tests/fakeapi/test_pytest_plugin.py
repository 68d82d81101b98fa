"""The fixture `fake_api`, used as in other projects."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
import yaml

from fakeapi import ServerOptions
from fakeapi.pytest_plugin import FakeApi

pytest_plugins = ["pytester"]

#: Plugins of ours that have nothing to do with the tests inside the tests.
PLAIN = ("-p", "no:randomly", "-p", "no:asyncio")

SEEN: list[tuple[int, str]] = []


def send(api: FakeApi, method: str, path: str, obj: object = None) -> Any:
    """A request of a client without an event loop."""
    body = None if obj is None else json.dumps(obj).encode()
    request = urllib.request.Request(api.url + path, data=body, method=method)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def config_map(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": {"a": "b"}}


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_finds_a_namespace_of_its_own_and_nothing_in_it(
    fake_api: FakeApi, turn: int
) -> None:
    maps = f"/api/v1/namespaces/{fake_api.namespace}/configmaps"
    assert send(fake_api, "GET", maps)["items"] == []
    send(fake_api, "POST", maps, config_map("same"))
    send(fake_api, "POST", "/api/v1/nodes", {"metadata": {"name": "same"}})
    assert [node["metadata"]["name"] for node in send(fake_api, "GET", "/api/v1/nodes")["items"]]
    SEEN.append((turn, fake_api.namespace))
    assert len({namespace for _, namespace in SEEN}) == len(SEEN)


def test_it_records_the_requests_of_a_client(fake_api: FakeApi) -> None:
    maps = f"/api/v1/namespaces/{fake_api.namespace}/configmaps"
    send(fake_api, "POST", maps, config_map("one"))
    with pytest.raises(urllib.error.HTTPError):
        send(fake_api, "GET", f"{maps}/two")
    asked = [(request.method, request.path, request.status) for request in fake_api.requests]
    assert asked == [("POST", maps, 201), ("GET", f"{maps}/two", 404)]


def test_its_kubeconfig_points_to_the_namespace(fake_api: FakeApi) -> None:
    config = yaml.safe_load(fake_api.kubeconfig.read_text(encoding="utf-8"))
    assert config["clusters"][0]["cluster"]["server"] == fake_api.url
    assert config["contexts"][0]["context"]["namespace"] == fake_api.namespace


async def test_it_serves_asynchronous_tests_too(fake_api: FakeApi) -> None:
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(f"{fake_api.url}/version") as found:
        assert (await found.json())["minor"] == "36"


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "loaded"}}


@pytest.mark.fake_api(load=[NODE], options=ServerOptions(requests_kept=1))
def test_the_marker_gives_a_server_made_to_measure(fake_api: FakeApi) -> None:
    names = [n["metadata"]["name"] for n in send(fake_api, "GET", "/api/v1/nodes")["items"]]
    assert names == ["loaded"]
    assert len(fake_api.server.requests) == 1


def test_objects_can_be_loaded(fake_api: FakeApi) -> None:
    assert fake_api.load([{**NODE, "metadata": {"name": "later"}}]) == 1
    assert send(fake_api, "GET", "/api/v1/nodes/later")["metadata"]["name"] == "later"


def test_a_server_that_cannot_start_fails_the_test_with_its_words(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.fake_api(load=["nowhere.yaml"])
        def test_it(fake_api):
            pass
        """
    )
    pytester.runpytest(*PLAIN).stdout.fnmatch_lines(["*LoadError*nowhere.yaml*"])


def test_the_configuration_gives_every_test_its_own_server(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini("[pytest]\nfake_api_scope = function\n")
    pytester.makepyfile(
        """
        urls = set()

        def test_one(fake_api):
            urls.add(fake_api.url)

        def test_two(fake_api):
            urls.add(fake_api.url)
            assert len(urls) == 2
        """
    )
    pytester.runpytest(*PLAIN).assert_outcomes(passed=2)


def test_a_scope_that_is_none_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nfake_api_scope = forever\n")
    result = pytester.runpytest(*PLAIN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*fake_api_scope: expected one of session, function, got 'forever'"]
    )
