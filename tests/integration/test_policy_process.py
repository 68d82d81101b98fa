"""A policy of v1.13 decides over HTTP: from a file, and from a ConfigMap."""

import json
from pathlib import Path

import pytest

from fakeapi import FakeApiServer
from tests.integration.api_client import Api
from tests.integration.test_kubesched_process import SCHEDULER, _process

pytestmark = pytest.mark.slow

_USABLE = {"labels": ["usable"], "presence": True}
_FAST = {"label": "fast", "presence": True}
POLICY = {
    "kind": "Policy",
    "apiVersion": "v1",
    "predicates": [
        {"name": "PodFitsResources"},
        {"name": "Usable", "argument": {"labelsPresence": _USABLE}},
    ],
    "priorities": [
        {"name": "MostRequestedPriority", "weight": 1},
        {"name": "Fast", "weight": 4, "argument": {"labelPreference": _FAST}},
    ],
}
NODES: dict[str, dict[str, str]] = {
    "a": {},
    "b": {"usable": "1"},
    "c": {"usable": "1", "fast": "1"},
}


@pytest.mark.parametrize("source", ["file", "ConfigMap"])
async def test_a_policy_filters_and_scores(source: str, tmp_path: Path) -> None:
    async with FakeApiServer() as server, Api.of(server) as api:
        kubeconfig = tmp_path / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        for name, labels in NODES.items():
            await api.node(name, cpu="4" if labels else "99", **labels)
        text = json.dumps(POLICY)
        if source == "file":
            file = tmp_path / "policy.json"
            file.write_text(text, encoding="utf-8")
            flags = ("--policy-config-file", str(file))
        else:
            body = {"metadata": {"name": "policy"}, "data": {"policy.cfg": text}}
            await api.create("/api/v1/namespaces/kube-system/configmaps", body)
            flags = ("--policy-configmap", "policy")
        async with _process(*SCHEDULER, "--kubeconfig", str(kubeconfig), *flags):
            await api.pod("web")
            assert await api.node_of("web") == "c"
            await api.pod("huge", cpu="64")
            assert (await api.message_of("huge")).startswith(
                "0/3 nodes are available: 1 node(s) didn't have the requested labels, "
                "2 Insufficient cpu."
            )
