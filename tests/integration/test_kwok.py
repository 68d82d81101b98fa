"""KWOK's own `kwok` runs nodes and pods on the server, as `fakeapi/actors/README.md` shows."""

import json
import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from fakeapi.pytest_plugin import FakeApi

from .clients import PATIENCE_SECONDS

KWOK = os.environ.get("KWOK") or shutil.which("kwok")
NODE: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
}


def is_ready(url: str) -> bool:
    with urllib.request.urlopen(url) as answer:
        conditions = json.load(answer)["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@pytest.mark.fake_api(load=[NODE, POD])
@pytest.mark.skipif(KWOK is None, reason="kwok is not installed")
def test_kwok_makes_nodes_and_pods_ready(fake_api: FakeApi, tmp_path: Path) -> None:
    assert KWOK is not None
    command = [KWOK, "--kubeconfig", str(fake_api.kubeconfig), "--manage-all-nodes=true"]
    with subprocess.Popen(command, env={**os.environ, "HOME": str(tmp_path)}) as kwok:
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            for path in ("nodes/n", "namespaces/default/pods/p"):
                while not is_ready(f"{fake_api.url}/api/v1/{path}"):
                    assert time.monotonic() < deadline, f"{path} did not become ready"
                    time.sleep(0.05)
        finally:
            kwok.terminate()
