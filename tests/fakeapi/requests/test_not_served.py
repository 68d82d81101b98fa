"""APIs that fakeapi/README.md lists as not served."""

import pytest

from ..api_client import ApiClient


@pytest.mark.parametrize(
    "path",
    [
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "/apis/apiregistration.k8s.io/v1/apiservices",
        "/apis/metrics.k8s.io/v1beta1/nodes",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        "/apis/networking.k8s.io/v1/servicecidrs",
        "/apis/networking.k8s.io/v1/ipaddresses",
        "/apis/autoscaling/v1/horizontalpodautoscalers",
        "/api/v1/componentstatuses",
        "/api/v1/nodes/n/proxy/metrics",
        "/metrics",
    ],
)
async def test_an_api_that_is_not_served_is_not_found(api: ApiClient, path: str) -> None:
    assert (await api.get(path)).code == 404
