"""Objects with many or long parts: an answer that stays in proportion, and no defect."""

import pytest

from ..api_client import STRATEGIC, ApiClient
from ..objects import BUDGETS, CONFIG_MAPS, PODS, config_map, pod

DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
GENERATION = "deprecated.daemonset.template.generation"


async def test_claims_that_are_missing_are_not_listed_again_and_again(api: ApiClient) -> None:
    """Upstream lists all 2,000 claims of the pod in each of 2,000 errors."""
    claims = [{"name": f"there-{n}", "resourceClaimName": "x"} for n in range(2000)]
    missing = [{"name": f"missing-{n}"} for n in range(2000)]
    container = {"name": "c", "image": "x", "resources": {"claims": missing}}
    spec = {"resourceClaims": claims, "containers": [container]}
    reply = await api.post(PODS, pod(spec=spec))
    assert reply.code == 422
    assert len(reply.message) < 2000 * 2000


async def test_a_change_of_a_long_spec_has_a_short_diff(api: ApiClient) -> None:
    def with_ports(first: int) -> dict[str, object]:
        ports = [{"containerPort": port} for port in range(first, first + 3000)]
        return {"containers": [{"name": "c", "image": "x", "ports": ports}]}

    await api.create(PODS, pod(spec=with_ports(1)))
    reply = await api.patch(f"{PODS}/p", {"spec": with_ports(10_000)}, STRATEGIC)
    assert reply.code == 422
    assert "containerPort" in reply.message
    assert len(reply.message) < 50_000


@pytest.mark.parametrize(("share", "code"), [("9" * 5000, 422), ("0" * 5000 + "7", 201)])
async def test_a_percentage_has_any_number_of_digits(api: ApiClient, share: str, code: int) -> None:
    spec = {"maxUnavailable": f"{share}%", "selector": {}}
    assert (await api.post(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})).code == code


async def test_a_generation_of_too_many_digits_begins_anew(api: ApiClient) -> None:
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    await api.create(DAEMON_SETS, {"metadata": {"name": "d"}, "spec": spec})
    server_side = {"metadata": {"annotations": {GENERATION: "9" * 5000}}}
    for _ in range(2):
        assert (await api.patch(f"{DAEMON_SETS}/d", server_side)).code == 200


async def test_repeated_owners_are_dropped_whatever_their_number(api: ApiClient) -> None:
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": str(n % 1000)}
        for n in range(2000)
    ]
    created = await api.create(CONFIG_MAPS, config_map("c", ownerReferences=owners))
    assert created["metadata"]["ownerReferences"] == owners[:1000]
