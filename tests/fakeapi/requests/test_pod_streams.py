"""Logs and commands: upstream's errors for bad requests, and the refusal of good ones.

The errors before upstream calls the kubelet are in exchanges/debug.yaml.
"""

import pytest

from ..api_client import ApiClient
from ..objects import PODS


@pytest.mark.parametrize(
    ("method", "part", "what"),
    [
        ("GET", "log", "the log of container c in pod p"),
        ("POST", "exec?command=ls", "container c in pod p"),
        ("GET", "attach?container=c", "container c in pod p"),
        ("POST", "portforward", "ports of pod p"),
    ],
)
async def test_the_answer_names_the_missing_kubelet(
    api: ApiClient, method: str, part: str, what: str
) -> None:
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    await api.create("/api/v1/nodes", {"metadata": {"name": "n"}})
    await api.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
    reply = await api.request(method, f"{PODS}/p/{part}")
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert reply.message == (
        f"node n has no kubelet to ask for {what}: this server runs no containers"
    )


async def test_they_are_discovered_as_upstream_shows_them(api: ApiClient) -> None:
    listed = {entry["name"]: entry for entry in (await api.get("/api/v1")).body["resources"]}
    shown = {name: (entry["kind"], entry["verbs"]) for name, entry in listed.items()}
    assert shown["pods/log"] == ("Pod", ["get"])
    assert shown["pods/exec"] == ("PodExecOptions", ["create", "get"])
    assert shown["pods/attach"] == ("PodAttachOptions", ["create", "get"])
    assert shown["pods/portforward"] == ("PodPortForwardOptions", ["create", "get"])
    assert shown["pods/ephemeralcontainers"] == ("Pod", ["get", "patch", "update"])
    assert shown["serviceaccounts/token"] == ("TokenRequest", ["create"])
