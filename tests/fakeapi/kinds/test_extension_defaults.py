"""What is filled into autoscalers, cron jobs, policies and bindings, as clients see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..api_client import ApiClient

RBAC = "rbac.authorization.k8s.io"
TARGET = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"},
}


@pytest.mark.parametrize(
    ("path", "given", "filled"),
    [
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            {"spec": {"maxReplicas": 3, "scaleTargetRef": TARGET}},
            {
                "spec": {
                    "minReplicas": 1,
                    "metrics": [
                        {
                            "type": "Resource",
                            "resource": {
                                "name": "cpu",
                                "target": {"type": "Utilization", "averageUtilization": 80},
                            },
                        }
                    ],
                }
            },
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            {"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 80}]}]}},
            {"spec": {"policyTypes": ["Ingress", "Egress"],
                      "egress": [{"ports": [{"port": 80, "protocol": "TCP"}]}]}},
        ),
        (
            f"/apis/{RBAC}/v1/namespaces/default/rolebindings",
            {"roleRef": {"kind": "Role", "name": "r"},
             "subjects": [{"kind": "User", "name": "u"},
                          {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]},
            {"roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "r"},
             "subjects": [{"kind": "User", "name": "u", "apiGroup": RBAC},
                          {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]},
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            {"addressType": "IPv4", "endpoints": [], "ports": [{"port": 1}]},
            {"ports": [{"name": "", "protocol": "TCP", "port": 1}]},
        ),
        (
            "/apis/networking.k8s.io/v1/ingressclasses",
            {"spec": {"controller": "a.b/c", "parameters": {"kind": "K", "name": "n"}}},
            {"spec": {"parameters": {"kind": "K", "name": "n", "scope": "Cluster"}}},
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            {"spec": {"schedule": "* * * * *",
                      "jobTemplate": {"spec": {"template": TEMPLATE}}}},
            {"spec": {"concurrencyPolicy": "Allow", "suspend": False,
                      "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}},
        ),
    ],
    ids=lambda value: value.rpartition("/")[2] if isinstance(value, str) else "",
)  # fmt: skip
async def test_what_is_left_open_is_filled_in(
    api: ApiClient, path: str, given: dict[str, Any], filled: dict[str, Any]
) -> None:
    made = await api.create(path, {"metadata": {"name": "x"}, **given})
    for part, values in filled.items():
        shown = made[part]
        if isinstance(values, dict):
            shown = {name: shown.get(name) for name in values}
        assert shown == values
    again = await api.put(f"{path}/x", made)
    assert again.version == int(made["metadata"]["resourceVersion"]), "twice changes nothing"


async def test_the_pods_of_a_cron_job_have_their_defaults(api: ApiClient) -> None:
    path = "/apis/batch/v1/namespaces/default/cronjobs"
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}
    made = await api.create(path, {"metadata": {"name": "x"}, "spec": spec})
    pod = made["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert (pod["dnsPolicy"], pod["restartPolicy"]) == ("ClusterFirst", "Never")


async def test_generations_of_plain_objects(api: ApiClient) -> None:
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    given = {"metadata": {"name": "x"}, "addressType": "IPv4", "endpoints": []}
    assert (await api.create(path, given))["metadata"]["generation"] == 1
    labelled = await api.patch(f"{path}/x", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.body["metadata"]["generation"] == 2
    noted = await api.patch(f"{path}/x", {"metadata": {"annotations": {"a": "b"}}})
    assert noted.body["metadata"]["generation"] == 2
