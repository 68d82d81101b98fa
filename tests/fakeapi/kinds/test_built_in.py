"""The API versions that --runtime-config turns on."""

import aiohttp
import pytest

from fakeapi import FakeApiServer, ServerOptions
from fakeapi.kinds.built_in import RuntimeConfigError, served_kinds

ALPHA = "scheduling.k8s.io/v1alpha2"


@pytest.mark.parametrize(
    ("given", "is_on"),
    [
        ((), False),
        ("", False),
        ("api/alpha=true", True),
        ("api/alpha", True),
        (f"{ALPHA}=true", True),
        ("api/all=true", True),
        ("api/all=true,api/alpha=false", False),
        (["api/alpha=true", f"{ALPHA}=false"], False),
        ([f"{ALPHA}=true, apps/v1=true"], True),
        ("api/beta=true,v1=true", False),
    ],
)
def test_the_most_specific_part_counts(given: str | list[str], is_on: bool) -> None:
    versions = {kind.api_version for kind in served_kinds(given)}
    assert {"v1", "apps/v1"} <= versions
    assert (ALPHA in versions) == is_on


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("scheduling.k8s.io/v9=true", "unknown API version 'scheduling.k8s.io/v9'"),
        ("api/alpha=yes", "api/alpha=yes is neither true nor false"),
        ("v1=false", "v1 cannot be turned off"),
        ("api/all=false", "cannot be turned off"),
    ],
)
def test_a_bad_runtime_config_is_refused(given: str, error: str) -> None:
    with pytest.raises(RuntimeConfigError, match=error):
        served_kinds(given)


RULES_OF_1_35 = "resource.k8s.io/v1alpha3/devicetaintrules"
RULES_OF_1_37 = "resource.k8s.io/v1/devicetaintrules"
WORKLOADS_OF_1_35 = "scheduling.k8s.io/v1alpha1/workloads"


@pytest.mark.parametrize("name", [RULES_OF_1_35, RULES_OF_1_37, WORKLOADS_OF_1_35])
def test_a_kind_of_another_version_is_served_only_by_its_name(name: str) -> None:
    def served(runtime_config: str) -> set[str]:
        return {f"{kind.api_version}/{kind.plural}" for kind in served_kinds(runtime_config)}

    assert name in served(f"api/alpha=true,{name}=true")
    assert name not in served("api/all=true") | served("") | served(f"{name}=false")


async def test_a_workload_of_1_35_has_its_groups_within_it() -> None:
    path = "/apis/scheduling.k8s.io/v1alpha1/namespaces/default/workloads"
    gang = {"name": "workers", "policy": {"gang": {"minCount": 2}}}
    options = ServerOptions(runtime_config=f"{WORKLOADS_OF_1_35}=true,api/alpha=true")
    async with FakeApiServer(options=options) as server, aiohttp.ClientSession(server.url) as api:

        async def status_of(*groups: object) -> int:
            body = {"metadata": {"name": "train"}, "spec": {"podGroups": groups}}
            async with api.post(path, json=body) as answer:
                return answer.status

        assert await status_of() == 422
        assert await status_of(gang, gang) == 422
        assert await status_of({"name": "workers", "policy": {}}) == 422
        assert await status_of({"name": "workers", "policy": {"gang": {"minCount": 0}}}) == 422
        assert await status_of(gang, {"name": "drivers", "policy": {"basic": {}}}) == 201
        reference = {"workloadRef": {"name": "train", "podGroup": "workers"}}
        pod = {
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "x"}], **reference},
        }
        async with api.post("/api/v1/namespaces/default/pods", json=pod) as answer:
            assert (await answer.json())["spec"]["workloadRef"] == reference["workloadRef"]
        async with api.get("/apis/scheduling.k8s.io/v1alpha2/workloads") as answer:
            assert (await answer.json())["items"] == []
