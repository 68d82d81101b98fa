"""`kubesched-explain` with extenders in its configuration: named, or called."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from conformance.api import ApiClient
from conformance.clock import RealClock
from conformance.extender import Extender, RunningExtender
from scheduler.explain.cli import main

ANSWERS = {
    "filter": {"rejects": {"a": "no licence"}},
    "prioritize": {"scores": {"b": 1, "c": 7}},
}


@contextlib.contextmanager
def served(**fields: Any) -> Iterator[RunningExtender]:
    """Run an extender in a thread of its own: the command has an event loop of its own."""
    described = msgspec.convert({"name": "example", **fields}, Extender)
    extender = RunningExtender(described, api=cast("ApiClient", None), clock=RealClock())
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(extender.__aenter__(), loop).result(10)
        yield extender
        asyncio.run_coroutine_threadsafe(extender.__aexit__(), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
        for name in "abc"
    ]
    container = {"name": "c", "image": "i", "env": [{"name": "A", "value": "B"}]}
    objects.append(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web"},
            "spec": {"containers": [container]},
        }
    )
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    return path


def config_of(tmp_path: Path, *extenders: object) -> Path:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**head, "extenders": [*extenders]}), encoding="utf-8")
    return path


def explain(manifests: Path, config: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Return the report of the only pod, and the lines on standard error."""
    command = ["--manifests", str(manifests), "--config", str(config), "-o", "json", *options]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    (report,) = msgspec.json.decode(result.stdout)["pods"]
    return report, result.stderr


def test_extenders_are_named_and_left_out(tmp_path: Path, manifests: Path) -> None:
    config = config_of(tmp_path, {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"})
    report, notice = explain(manifests, config)
    assert report["feasibleNodes"] == 3
    assert notice == (
        "kubesched-explain: the decisions are without extender http://127.0.0.1:1; "
        "--call-extenders calls it\n"
    )


def test_extenders_are_called_on_request(tmp_path: Path, manifests: Path) -> None:
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "bindVerb": "bind"}
    with served(config={**verbs, "weight": 1}, answers=ANSWERS) as extender:
        report, notice = explain(
            manifests, config_of(tmp_path, extender.config), "--call-extenders"
        )
        url = extender.config["urlPrefix"]
        sent: Any = extender.received["filter"]["Pod"]
        calls = dict(extender.calls)
    assert (report["choice"]["node"], notice) == ("c", "")
    (rejection,) = report["rejections"]
    assert (rejection["plugin"], rejection["reasons"]) == (url, ["no licence"])
    assert {node["name"]: node["scores"].get(url) for node in report["nodes"]} == {
        "a": None,
        "b": 10,
        "c": 70,
    }
    assert sent["spec"]["containers"][0]["env"] == [{"name": "A", "value": "B"}]
    assert calls == {"filter": 1, "prioritize": 1}


def test_an_extender_that_fails_is_the_answer(tmp_path: Path, manifests: Path) -> None:
    config = config_of(tmp_path, {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"})
    report, _ = explain(manifests, config, "--call-extenders")
    assert report["result"] == "error"
    assert report["message"].endswith("dial tcp 127.0.0.1:1: connect: connection refused")
