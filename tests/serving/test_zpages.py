"""/flagz, /statusz and profiling answer as kube-scheduler; texts recorded from its versions."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
import yaml

from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    DEFAULT_SCHEDULER_VERSION,
    EffectiveVersion,
    SchedulerVersion,
)
from scheduler.serving.http_server import SchedulerServer, create_listener
from tests.serving.served import Served

STRUCTURED = "application/json;v=v1beta1;g=config.k8s.io;as="
WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility "
    "guarantees and is for debugging purposes only.\n"
)


@pytest.fixture
def version() -> SchedulerVersion:
    return DEFAULT_SCHEDULER_VERSION


@pytest.fixture
def scheduler(version: SchedulerVersion) -> Served:
    return Served(effective_version=EffectiveVersion.of(version))


@pytest.fixture
async def session(scheduler: Served) -> AsyncIterator[aiohttp.ClientSession]:
    server = SchedulerServer(scheduler.endpoints(), create_listener("127.0.0.1", None))
    async with server, aiohttp.ClientSession(server.url) as session:
        yield session


@pytest.fixture
def levels() -> Iterator[None]:
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


async def _get(
    session: aiohttp.ClientSession, path: str, accept: str = "*/*"
) -> tuple[int, str, str]:
    async with session.get(path, headers={"Accept": accept}) as response:
        return response.status, response.headers["Content-Type"], await response.text()


@pytest.mark.parametrize("accept", ["", "*/*", "text/plain;q=0", "text/html, */*;q=0.1", "text/*"])
async def test_flags_are_plain_text(session: aiohttp.ClientSession, accept: str) -> None:
    assert await _get(session, "/flagz", accept) == (
        200,
        "text/plain; charset=utf-8",
        f"\nkube-scheduler flagz\n{WARNING}config \nv 0\n",
    )


async def test_flags_are_an_object_for_those_who_accept_its_kind(
    session: aiohttp.ClientSession,
) -> None:
    status, content_type, text = await _get(session, "/flagz", f"{STRUCTURED}Flagz")
    assert (status, content_type) == (
        200,
        "application/json;g=config.k8s.io;v=v1beta1;as=Flagz",
    )
    assert json.loads(text) == {
        "kind": "Flagz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "kube-scheduler"},
        "flags": {"config": "", "v": "0"},
    }


async def test_flags_may_be_yaml(session: aiohttp.ClientSession) -> None:
    accept = "application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz"
    status, content_type, text = await _get(session, "/flagz", accept)
    assert (status, content_type) == (200, "application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz")
    assert text == (
        "apiVersion: config.k8s.io/v1beta1\n"
        'flags:\n  config: ""\n  v: "0"\n'
        "kind: Flagz\n"
        "metadata:\n  name: kube-scheduler\n"
    )


async def test_an_old_version_of_a_kind_has_a_warning(session: aiohttp.ClientSession) -> None:
    accept = "application/json;v=v1alpha1;g=config.k8s.io;as=Flagz"
    async with session.get("/flagz", headers={"Accept": accept}) as response:
        assert response.headers["Warning"] == (
            '299 - "This version of the flagz endpoint is deprecated. Please use a newer version."'
        )
        assert (await response.json(content_type=None))["apiVersion"] == "config.k8s.io/v1alpha1"


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "text/html",
        f"{STRUCTURED}Statusz",
        "application/json;v=v1;g=config.k8s.io;as=Flagz",
        "application/cbor;v=v1beta1;g=config.k8s.io;as=Flagz",
        "text/plain;as=Flagz",
    ],
)
async def test_other_types_are_not_acceptable(session: aiohttp.ClientSession, accept: str) -> None:
    status, content_type, text = await _get(session, "/flagz", accept)
    assert (status, content_type) == (406, "application/json")
    assert json.loads(text) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "only the following media types are accepted: application/json, "
        "application/yaml, text/plain",
        "reason": "NotAcceptable",
        "code": 406,
    }


@pytest.mark.parametrize(
    ("accept", "content_type", "start"),
    [
        ("application/json", "application/json", '{"kind":"Status",'),
        ("application/json;pretty=1", "application/json", '{\n  "kind": "Status",'),
        ("text/html", "application/json", '{\n  "kind": "Status",'),
        (
            "application/yaml",
            "application/yaml",
            "apiVersion: v1\ncode: 406\nkind: Status\nmessage: 'only the following media types are "
            "accepted: application/json, application/yaml,\n  text/plain'\n",
        ),
    ],
)
async def test_a_refusal_has_a_form_that_is_accepted_if_there_is_one(
    session: aiohttp.ClientSession, accept: str, content_type: str, start: str
) -> None:
    status, found_type, text = await _get(session, "/statusz", accept)
    assert (status, found_type) == (406, content_type)
    assert text.startswith(start)


async def test_a_wildcard_may_name_a_kind(session: aiohttp.ClientSession) -> None:
    accept = "application/*;v=v1beta1;g=config.k8s.io;as=Flagz;pretty=1"
    status, content_type, text = await _get(session, "/flagz", accept)
    assert (status, content_type) == (200, "application/json;g=config.k8s.io;v=v1beta1;as=Flagz")
    assert text.startswith('{\n  "kind": "Flagz",')


async def test_the_status_has_age_and_versions(
    session: aiohttp.ClientSession, scheduler: Served
) -> None:
    await scheduler.clock.advance(3661)
    status, _, text = await _get(session, "/statusz")
    assert status == 200
    heading, body = text.split(WARNING)
    assert heading == "\nkube-scheduler statusz\n"
    lines = body.splitlines()
    assert lines[1:3] == ["Started: Sun Nov 22 22:44:10 UTC 2026", "Up: 1 hr 01 min 01 sec"]
    assert lines[4:] == [
        "Binary version: 1.36.3",
        "Emulation version: 1.36",
        "Paths: /configz /flagz /healthz /livez /metrics /readyz",
    ]
    status, _, text = await _get(session, "/statusz", f"{STRUCTURED}Statusz")
    found = json.loads(text)
    assert found["startTime"] == "2026-11-22T22:44:10Z"
    assert found["uptimeSeconds"] == 3661
    assert found["paths"] == ["/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz"]
    assert list(found) == [
        *("kind", "apiVersion", "metadata", "startTime", "uptimeSeconds", "goVersion"),
        *("binaryVersion", "emulationVersion", "paths"),
    ]


@pytest.mark.parametrize("version", [SchedulerVersion.V1_34])
@pytest.mark.parametrize(
    ("accept", "is_accepted"),
    [
        ("*/*", True),
        ("*/plain", True),
        ("text/html, text/plain;charset=UTF-8;q=0", True),
        ("text/plain;charset=utf-16", False),
        ("text/plain;pretty=1", False),
        (f"{STRUCTURED}Flagz", False),
        ("", False),
    ],
)
async def test_pages_of_1_34_are_text(
    session: aiohttp.ClientSession, accept: str, is_accepted: bool
) -> None:
    refusal = "media type not acceptable, must be: text/plain\n"
    page = f"\nkube-scheduler flags\n{WARNING}\nconfig \nv 0\n"
    assert await _get(session, "/flagz", accept) == (
        200 if is_accepted else 406,
        "text/plain; charset=utf-8",
        page if is_accepted else refusal,
    )
    if is_accepted:
        _, _, text = await _get(session, "/statusz", accept)
        assert text.endswith("\nBinary version: 1.34.4\nEmulation version: 1.34\n\n")


@pytest.mark.parametrize("version", [SchedulerVersion.V1_35])
async def test_pages_of_1_35_are_text_or_json_of_v1alpha1(session: aiohttp.ClientSession) -> None:
    kind = "v=v1alpha1;g=config.k8s.io;as=Flagz"
    async with session.get("/flagz", headers={"Accept": f"application/json;{kind}"}) as response:
        assert "Warning" not in response.headers
        assert (await response.json(content_type=None))["apiVersion"] == "config.k8s.io/v1alpha1"
    status, _, text = await _get(session, "/flagz", f"{STRUCTURED}Flagz")
    assert status == 406
    assert json.loads(text)["message"].endswith(
        ": application/json, application/yaml, application/vnd.kubernetes.protobuf, text/plain"
    )
    status, _, text = await _get(session, "/flagz", f"application/yaml;{kind}")
    assert (status, json.loads(text)) == (
        500,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "content negotiation failed: unsupported media type 'application/yaml'",
            "code": 500,
        },
    )
    assert (await _get(session, "/statusz", "*/*"))[1] == "text/plain"
    assert (await _get(session, "/statusz", ""))[1] == "text/plain; charset=utf-8"


async def test_the_pages_are_behind_their_gates() -> None:
    scheduler = Served(gates=DEFAULT_FEATURE_GATES - {"ComponentFlagz", "ComponentStatusz"})
    server = SchedulerServer(scheduler.endpoints(), create_listener("127.0.0.1", None))
    async with server, aiohttp.ClientSession(server.url) as session:
        assert (await _get(session, "/flagz"))[0] == 404
        assert (await _get(session, "/statusz"))[0] == 404


async def test_a_profile_shows_pythons_functions(
    session: aiohttp.ClientSession, scheduler: Served
) -> None:
    status, content_type, text = await _get(session, "/debug/pprof/")
    assert (status, content_type) == (200, "text/html; charset=utf-8")
    assert "profile" in text
    status, content_type, text = await _get(session, "/debug/pprof/goroutine")
    assert (status, content_type) == (200, "text/plain; charset=utf-8")
    assert "tasks: total" in text
    assert await _get(session, "/debug/pprof/heap") == (
        404,
        "text/plain; charset=utf-8",
        "Unknown profile\n",
    )
    profile = asyncio.ensure_future(_get(session, "/debug/pprof/profile?seconds=2"))
    while scheduler.clock.next_wake_up is None:  # noqa: ASYNC110  (the request is on its way)
        await asyncio.sleep(0.01)
    assert await _get(session, "/debug/pprof/profile?seconds=1") == (
        500,
        "text/plain; charset=utf-8",
        "Could not enable CPU profiling: cpu profiling already in use\n",
    )
    await scheduler.clock.advance(2)
    status, content_type, text = await profile
    assert (status, content_type) == (200, "text/plain; charset=utf-8")
    assert "Ordered by: cumulative time" in text


async def test_pages_lead_to_the_profiles_and_flags(session: aiohttp.ClientSession) -> None:
    async with session.get("/debug/pprof", allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (302, "/debug/pprof/")
    status, content_type, text = await _get(session, "/debug/flags")
    assert (status, content_type) == (200, "text/html; charset=utf-8")
    assert "<tr>v<br>" in text


async def test_without_profiling_there_are_no_profiles() -> None:
    server = SchedulerServer(
        Served(is_profiled=False).endpoints(), create_listener("127.0.0.1", None)
    )
    async with server, aiohttp.ClientSession(server.url) as session:
        for path in ("/debug/pprof/", "/debug/pprof/profile?seconds=1", "/debug/flags/v"):
            assert (await _get(session, path))[0] == 404


@pytest.mark.usefixtures("levels")
async def test_the_level_of_the_log_is_set_by_a_request(session: aiohttp.ClientSession) -> None:
    async with session.put("/debug/flags/v", data="5") as response:
        assert response.status == 200
        assert await response.text() == "successfully set klog.logging.verbosity to 5\n"
    assert logging.getLogger().level == logging.INFO - 5
    async with session.put("/debug/flags/v", data="x") as response:
        assert response.status == 400
        assert await response.text() == 'strconv.ParseUint: parsing "x": invalid syntax\n'
    async with session.get("/debug/flags/v") as response:
        assert response.status == 406
        assert await response.text() == "unsupported http method\n"


async def test_yaml_reads_back(session: aiohttp.ClientSession) -> None:
    accept = "application/yaml;v=v1beta1;g=config.k8s.io;as=Statusz"
    assert yaml.safe_load((await _get(session, "/statusz", accept))[2])["kind"] == "Statusz"
