"""Custom resources with two served versions: each shows, and applies to, its own fields."""

from typing import Any, Final

import pytest

from ..api_client import ApiClient
from ..custom_resources import DEFINITIONS

NEW: Final = "/apis/example.com/v2/namespaces/default/gears"
STORED: Final = "/apis/example.com/v1/namespaces/default/gears"
APPLY: Final = "application/apply-patch+yaml"


def _version(name: str, *, storage: bool, **properties: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
    }


TEXT: Final = {"type": "string"}
DEFINITION: Final = {
    "metadata": {"name": "gears.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gears", "kind": "Gear"},
        "versions": [
            _version("v1", storage=True, s={**TEXT, "default": "d"}, a=TEXT),
            _version("v2", storage=False, a=TEXT),
        ],
    },
}


def _gear(version: str, name: str = "g", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Gear",
        "metadata": {"name": name, **metadata},
        "spec": {"a": "1"},
    }


@pytest.fixture
async def gears(api: ApiClient) -> ApiClient:
    await api.create(DEFINITIONS, DEFINITION)
    return api


async def test_each_version_shows_the_fields_of_its_own_schema(gears: ApiClient) -> None:
    created = await gears.create(NEW, _gear("v2"))
    assert created["spec"] == {"a": "1"}
    assert (await gears.get(f"{STORED}/g")).body["spec"] == {"a": "1", "s": "d"}
    (listed,) = (await gears.get(NEW)).body["items"]
    assert listed["spec"] == {"a": "1"}


@pytest.mark.parametrize("managers", [("m", "m"), ("m", "other")])
async def test_an_object_is_applied_in_one_version_after_another(
    gears: ApiClient, managers: tuple[str, str]
) -> None:
    for path, version in ((NEW, "v2"), (STORED, "v1"), (NEW, "v2")):
        for manager in managers:
            reply = await gears.patch(
                f"{path}/g?fieldManager={manager}&force=true", _gear(version), APPLY
            )
            assert reply.code in (200, 201), reply.body


async def test_an_applier_removes_a_field_in_another_version(
    gears: ApiClient,
) -> None:
    with_finalizer = _gear("v1", finalizers=["example.com/f"])
    made = await gears.patch(f"{STORED}/g?fieldManager=m", with_finalizer, APPLY)
    assert made.body["metadata"]["finalizers"] == ["example.com/f"]
    applied = await gears.patch(f"{NEW}/g?fieldManager=m", _gear("v2"), APPLY)
    assert applied.code == 200, applied.body
    assert "finalizers" not in applied.body["metadata"]
