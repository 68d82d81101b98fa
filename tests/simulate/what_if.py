"""A small cluster as manifests, and the command on it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from click.testing import CliRunner

from scheduler.simulate.cli import main

ROOT = Path(__file__).parent.parent.parent
SCHEMA = json.loads((ROOT / "docs" / "simulate.schema.json").read_text(encoding="utf-8"))

Ask = Callable[..., Any]


def node(name: str, cpu: str = "4", **labels: str) -> dict[str, Any]:
    own = {"kubernetes.io/hostname": name, **labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": own},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    }


def pod(
    name: str,
    cpu: str = "1",
    *,
    on: str = "",
    owner: str = "",
    kind: str = "ReplicaSet",
    app: str = "",
    **spec: Any,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {"app": app or owner or name}}
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    placed = {"nodeName": on} if on else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**placed, "containers": [container], **spec},
    }


def deployment(name: str, replicas: int, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    template = pod(name, cpu, **spec)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
        },
    }


def budget(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


def write(path: Path, *objects: Mapping[str, Any]) -> Path:
    path.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    return path


def run(*arguments: str | Path) -> str:
    """Run the command, and return its output."""
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def answer(*arguments: str | Path) -> Any:
    """Run the command, and return its JSON, which matches the schema."""
    found = json.loads(run(*arguments, "-o", "json"))
    jsonschema.validate(found, SCHEMA)
    return found
