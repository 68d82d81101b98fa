"""A scheduler without filters: it binds every pod to the first node.

    python careless_scheduler.py KUBECONFIG

The replay and the conformance suite must catch it.
"""

import json
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import yaml


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as answer:
        return json.load(answer)


def bind_all(server: str) -> None:
    nodes = ask(f"{server}/api/v1/nodes")["items"]
    if not nodes:
        return
    target = {"apiVersion": "v1", "kind": "Node", "name": nodes[0]["metadata"]["name"]}
    for pod in ask(f"{server}/api/v1/pods?fieldSelector=spec.nodeName=")["items"]:
        name = pod["metadata"]["name"]
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
        url = f"{server}/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}/binding"
        ask(url, binding | {"target": target})


def main() -> None:
    config = yaml.safe_load(Path(sys.argv[1]).read_text(encoding="utf-8"))
    server = config["clusters"][0]["cluster"]["server"]
    while True:
        bind_all(server)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
