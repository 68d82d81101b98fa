"""The versions of resource.k8s.io: one stored form, shown as each version has it."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from fakeapi import FakeApiServer, ServerOptions
from fakeapi.types.objects import Json, mapping, mappings

from ..api_client import ApiClient

GROUP = "/apis/resource.k8s.io"
CLAIMS = "namespaces/default/resourceclaims"
TEMPLATES = "namespaces/default/resourceclaimtemplates"
SELECTORS = [{"cel": {"expression": "true"}}]


@pytest.fixture
async def betas(session: aiohttp.ClientSession) -> AsyncIterator[ApiClient]:
    async with FakeApiServer(options=ServerOptions(runtime_config=["api/beta=true"])) as server:
        yield ApiClient(session, server.url)


def claim(request: Json, name: str = "c") -> Json:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }


def request_of(obj: Json) -> Json:
    spec = mapping(obj["spec"])
    (request,) = mappings(mapping(mapping(spec.get("spec", spec))["devices"])["requests"])
    return request


async def test_beta_versions_are_served_only_when_asked_for(api: ApiClient) -> None:
    for version in ("v1beta1", "v1beta2"):
        assert (await api.get(f"{GROUP}/{version}/{CLAIMS}")).code == 404


async def test_v1_is_preferred(betas: ApiClient) -> None:
    group = (await betas.get(GROUP)).body
    assert [each["version"] for each in group["versions"]] == ["v1", "v1beta2", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v1"


async def test_a_request_of_v1beta1_has_its_fields_in_exactly_in_v1(betas: ApiClient) -> None:
    sent = claim({"name": "r", "deviceClassName": "gpu", "selectors": SELECTORS})
    shown = request_of(await betas.create(f"{GROUP}/v1beta1/{CLAIMS}", sent))
    exactly = {
        "deviceClassName": "gpu",
        "selectors": SELECTORS,
        "allocationMode": "ExactCount",
        "count": 1,
    }
    assert shown == {"name": "r", **exactly}
    for version in ("v1", "v1beta2"):
        body = (await betas.get(f"{GROUP}/{version}/{CLAIMS}/c")).body
        assert body["apiVersion"] == f"resource.k8s.io/{version}"
        assert request_of(body) == {"name": "r", "exactly": exactly}


async def test_alternatives_are_the_same_in_all_versions(betas: ApiClient) -> None:
    choice = {"name": "first", "deviceClassName": "gpu"}
    template = {
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"spec": claim({"name": "r", "firstAvailable": [choice]})["spec"]},
    }
    await betas.create(f"{GROUP}/v1beta2/{TEMPLATES}", template)
    complete = {**choice, "allocationMode": "ExactCount", "count": 1}
    new = (await betas.get(f"{GROUP}/v1/{TEMPLATES}/t")).body
    assert request_of(new) == {"name": "r", "firstAvailable": [complete]}
    old = (await betas.get(f"{GROUP}/v1beta1/{TEMPLATES}/t")).body
    assert request_of(old) == {"name": "r", "deviceClassName": "", "firstAvailable": [complete]}


async def test_a_device_of_v1beta1_has_basic(betas: ApiClient) -> None:
    basic = {"attributes": {"model": {"string": "a100"}}, "capacity": {"memory": {"value": "80Gi"}}}
    spec: Json = {
        "driver": "gpu.example.com",
        "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "basic": basic}],
    }
    path = f"{GROUP}/v1beta1/resourceslices"
    made = await betas.create(path, {"metadata": {"name": "a"}, "spec": spec})
    assert made["spec"] == spec
    new = (await betas.get(f"{GROUP}/v1/resourceslices/a")).body
    assert new["spec"]["devices"] == [{"name": "gpu-0", **basic}]
    await betas.patch(f"{path}/a", {"metadata": {"labels": {"a": "b"}}})
    assert (await betas.get(f"{path}/a")).body["spec"] == spec


async def test_beta_versions_warn(betas: ApiClient) -> None:
    reply = await betas.get(f"{GROUP}/v1beta1/{CLAIMS}")
    assert reply.headers["Warning"] == (
        '299 - "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, '
        'unavailable in v1.38+"'
    )
