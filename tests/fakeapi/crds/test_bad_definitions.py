"""Definitions that cannot be followed: they stop neither a write nor a start of the server."""

import random
from pathlib import Path
from typing import Any

import pytest

from fakeapi import FakeApiServer
from fakeapi.crds import definitions
from fakeapi.crds.controller import DefinitionController

from ..api_client import ApiClient
from ..custom_resources import DEFINITIONS, SPEC, WIDGETS, definition, version, widget
from ..state_files import serving

BAD_PATH = ".x[?(@.a"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
ODD = (None, True, -1, "", "[?(", [], {}, [[1]], {"": {}}, 10**30)


def column(path: str, name: str = "c") -> dict[str, Any]:
    return {"name": name, "type": "string", "jsonPath": path}


async def test_a_table_ends_before_a_column_that_cannot_be_read(tmp_path: Path) -> None:
    columns = [column(".spec.color", "color"), column(BAD_PATH), column(".spec.size")]
    data = tmp_path / "state.db"
    async with serving(data=data) as (_, api):
        made = await api.post(DEFINITIONS, definition(version(additionalPrinterColumns=columns)))
        assert made.code == 201
        assert f'not shown from jsonPath "{BAD_PATH}" on' in made.headers["Warning"].replace(
            "\\", ""
        )
        await api.create(WIDGETS, widget())
    async with serving(data=data) as (_, api):
        table = (await api.get(WIDGETS, headers=TABLE)).body
        assert [found["name"] for found in table["columnDefinitions"]] == ["Name", "color"]
        assert (await api.delete(f"{DEFINITIONS}/widgets.example.com")).code == 200


async def test_a_definition_that_cannot_be_served_does_not_stop_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "state.db"
    async with serving(data=data) as (_, api):
        await api.create(DEFINITIONS, definition())
        await api.create(WIDGETS, widget())
    with monkeypatch.context() as broken:
        broken.setattr(definitions, "kinds_of", lambda *_: 1 // 0)
        async with serving(data=data) as (_, api):
            assert (await api.get(WIDGETS)).code == 404
            assert (await api.get(f"{DEFINITIONS}/widgets.example.com")).code == 200
    assert DefinitionController.__name__ in caplog.text
    async with serving(data=data) as (_, api):
        assert [found["metadata"]["name"] for found in (await api.get(WIDGETS)).body["items"]] == [
            "w"
        ]


async def test_a_listener_that_fails_stops_neither_the_write_nor_the_others(
    server: FakeApiServer, api: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []
    with (
        server.listening(on_change=lambda _: 1 // 0, on_request=lambda _: 1 // 0),
        server.listening(on_change=lambda change: seen.append(change.name)),
    ):
        assert (await api.post(DEFINITIONS, definition())).code == 201
    assert "widgets.example.com" in seen
    assert "ZeroDivisionError" in caplog.text


def changed_somewhere(chance: random.Random, value: Any) -> Any:
    """Return the value with something odd in one place."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.2:
        return chance.choice(ODD)
    if isinstance(value, list):
        return [changed_somewhere(chance, value[0]), *value[1:]]
    key = chance.choice(sorted(value))
    return {**value, key: changed_somewhere(chance, value[key])}


async def test_a_server_starts_again_with_every_definition_that_it_accepted(tmp_path: Path) -> None:
    chance, data = random.Random(1), tmp_path / "state.db"
    columns, fields = [column(".spec.color")], [{"jsonPath": ".spec.color"}]
    whole = version(additionalPrinterColumns=columns, selectableFields=fields)
    whole["schema"]["openAPIV3Schema"]["properties"]["spec"] = {**SPEC, "pattern": "a"}
    accepted = 0
    async with serving(data=data) as (_, api):
        for number in range(120):
            made = definition(changed_somewhere(chance, whole), group=f"g{number}.example.com")
            made["metadata"]["name"] = f"widgets.g{number}.example.com"
            code = (await api.post(DEFINITIONS, made)).code
            assert code in (201, 400, 422)
            accepted += code == 201
    async with serving(data=data) as (_, api):
        assert len((await api.get(DEFINITIONS)).body["items"]) == accepted > 10
