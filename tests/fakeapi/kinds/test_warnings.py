"""Warnings of CSI drivers and deprecated kinds, and roles without rules, as in kube-apiserver."""

from typing import Any

import pytest

from ..api_client import ApiClient

DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
UNSET = (
    '299 - "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, '
    'set to true to prevent possible logging of tokens in volume attributes"'
)


def driver(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "d"}, "spec": spec}


async def test_csi_drivers_without_a_place_for_tokens_cause_a_warning(api: ApiClient) -> None:
    made = await api.post(DRIVERS, driver(tokenRequests=[{"audience": "a"}]))
    assert (made.code, made.headers.get("Warning")) == (201, UNSET)
    path = f"{DRIVERS}/d"
    other = await api.patch(path, {"metadata": {"labels": {"a": "b"}}})
    assert (other.code, other.headers.get("Warning")) == (200, None)
    changed = await api.patch(path, {"spec": {"tokenRequests": [{"audience": "b"}]}})
    assert (changed.code, changed.headers.get("Warning")) == (200, UNSET)


async def test_csi_drivers_with_a_place_for_tokens_cause_no_warning(api: ApiClient) -> None:
    spec = {"tokenRequests": [{"audience": "a"}], "serviceAccountTokenInSecrets": False}
    made = await api.post(DRIVERS, driver(**spec))
    assert (made.code, made.headers.get("Warning")) == (201, None)


@pytest.mark.parametrize("path", [ENDPOINTS, ENDPOINTS.replace("/v1/", "/v1/watch/")])
async def test_watches_of_deprecated_kinds_warn(api: ApiClient, path: str) -> None:
    async with api.watch(path) as stream:
        assert stream.headers["Warning"].startswith('299 - "v1 Endpoints is deprecated in v1.33+')
        assert stream.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("path", [f"{ROLES}/namespaces/default/roles", f"{ROLES}/clusterroles"])
async def test_a_role_without_rules_has_none(api: ApiClient, path: str) -> None:
    made = await api.create(path, {"metadata": {"name": "r"}, "rules": []})
    assert made["rules"] is None
    assert (await api.get(f"{path}/r")).body["rules"] is None
