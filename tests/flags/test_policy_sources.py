"""The policy that the flags name: a file, a ConfigMap on an API server, or a provider."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scheduler.client import Connection
from scheduler.clock import Clock, SystemClock
from scheduler.config import ConfigError, default_config
from scheduler.flags.options import parse_flags
from scheduler.flags.policy import translated_policy
from scheduler.flags.policy_translation import Translation
from scheduler.plugins import SCHEME
from scheduler.testing import VirtualClock
from tests.client.scripted_server import Answer, Script, ScriptedServer

POLICY = json.dumps({
    "kind": "Policy", "apiVersion": "v1", "predicates": [],
    "priorities": [{"name": "EqualPriority", "weight": 3}],
})  # fmt: skip
NOWHERE = Connection(base_url="http://127.0.0.1:1")


def policy_of(
    *arguments: str, connection: Connection = NOWHERE, clock: Clock | None = None
) -> Translation | None:
    options = parse_flags(arguments, command="kubesched")
    config = default_config(SCHEME)
    return translated_policy(options, config, connection, clock=clock or SystemClock())


def scores(translation: Translation | None) -> dict[str, int]:
    assert translation is not None
    enabled = translation.config.profiles[0].plugins.score.enabled
    return {plugin.name: plugin.weight for plugin in enabled}


@contextmanager
def answering(*script: Script) -> Iterator[tuple[Connection, ScriptedServer]]:
    """Run a server in a thread: the policy is read before there is an event loop."""
    server, stop = ScriptedServer(*script), asyncio.Event()
    loop, is_open = asyncio.new_event_loop(), threading.Event()

    async def serve() -> None:
        async with server:
            is_open.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    is_open.wait()
    yield Connection(base_url=server.url), server
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


def test_the_policy_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text(POLICY, encoding="utf-8")
    assert scores(policy_of(f"--policy-config-file={file}")) == {"EqualPriority": 3}
    both = (f"--policy-config-file={file}", "--policy-configmap=p", "--use-legacy-policy-config")
    assert scores(policy_of(*both)) == {"EqualPriority": 3}


def test_the_policy_comes_from_a_provider() -> None:
    found = scores(policy_of("--algorithm-provider=ClusterAutoscalerProvider"))
    assert "MostRequestedPriority" in found


@pytest.mark.parametrize("arguments", [(), ("--config=x", "--algorithm-provider=DefaultProvider")])
def test_without_a_source_or_with_a_configuration_there_is_no_policy(
    arguments: tuple[str, ...],
) -> None:
    assert policy_of(*arguments) is None


def test_a_policy_file_must_be_named_if_it_is_wanted() -> None:
    with pytest.raises(ConfigError) as refusal:
        policy_of("--use-legacy-policy-config")
    assert str(refusal.value) == (
        "policyConfigFile: Required value: required when --use-legacy-policy-config is true"
    )


@pytest.mark.parametrize(
    ("namespace", "path"), [((), "kube-system"), (("--policy-configmap-namespace=ns",), "ns")]
)
def test_the_policy_comes_from_a_config_map(namespace: tuple[str, ...], path: str) -> None:
    with answering(Answer({"data": {"policy.cfg": POLICY}})) as (connection, server):
        found = policy_of("--policy-configmap=p", *namespace, connection=connection)
    assert scores(found) == {"EqualPriority": 3}
    assert [asked.path for asked in server.asked] == [f"/api/v1/namespaces/{path}/configmaps/p"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer({"message": "no"}, 403), "couldn't get policy config map kube-system/p: "),
        (Answer(b"no JSON"), "couldn't get policy config map kube-system/p: "),
        (Answer({"data": {}}), 'missing policy config map value at key "policy.cfg"'),
        (Answer({"data": {"policy.cfg": "[]"}}), "invalid policy: expected a mapping"),
    ],
)
def test_a_config_map_without_a_policy_is_an_error(answer: Answer, error: str) -> None:
    with answering(answer) as (connection, _), pytest.raises(ConfigError) as refusal:
        policy_of("--policy-configmap=p", connection=connection)
    assert str(refusal.value).startswith(error)


class _Ended(Exception):
    """The test has seen enough."""


class _ThreeSleeps(VirtualClock):
    """A clock whose third sleep ends the test."""

    sleeps = 0

    async def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        if self.sleeps == 3:
            raise _Ended


def test_an_api_server_that_cannot_be_reached_is_waited_for_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(_Ended):
        policy_of("--policy-configmap=p", clock=_ThreeSleeps())
    (record,) = caplog.records
    assert record.message.startswith("The policy cannot be read; trying again until it can: ")
