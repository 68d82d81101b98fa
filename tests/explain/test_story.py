"""`kubesched-explain --story`: a pod's story from a real port, in lines for a person."""

import asyncio
import contextlib
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from scheduler.clock import SystemClock
from scheduler.config import DEFAULT_FEATURE_GATES, default_config
from scheduler.explain.cli import main
from scheduler.explain.text import TextPrinter
from scheduler.plugins import SCHEME
from scheduler.reports.model import Story, StoryEntry, StoryHint
from scheduler.serving.authentication import Authenticator
from scheduler.serving.authorization import Authorizer, OpenPaths
from scheduler.serving.http_server import AccessControl, SchedulerServer, create_listener
from scheduler.serving.options import AuthorizationOptions, ServingOptions
from scheduler.serving.serve import serve_securely
from tests.client.scripted_server import Answer, ScriptedServer
from tests.explain.test_json import SCHEMA
from tests.serving.served import NO_TRUST, Served

STORY = {
    "namespace": "default",
    "name": "web",
    "uid": "4f2a",
    "dropped": 3,
    "entries": [
        {"time": 1795311453.0, "kind": "moved", "text": "outside -> active by PodAdd", "hints": []},
        {
            "time": 1795311453.0125,
            "kind": "attempt",
            "text": "attempt 1: unschedulable: 0/2 nodes are available: 2 Insufficient cpu.",
            "verdicts": [
                {
                    "plugin": "NodeResourcesFit",
                    "code": "Unschedulable",
                    "reasons": ["Insufficient cpu"],
                    "nodes": 2,
                }
            ],
        },
        {
            "time": 1795311513.2495,
            "kind": "moved",
            "text": "unschedulable -> backoff by NodeAdd",
            "hints": [{"plugin": "NodeResourcesFit", "event": "NodeAdd", "answer": "Queue"}],
            "event": "NodeAdd",
        },
        {"time": 1795314000.9999, "kind": "bound", "text": "bound to " + "n" * 80, "node": "n"},
    ],
}

LINES = f"""\
default/web  4f2a
(3 older entries are forgotten)
2026-11-22 01:37:33.000Z       +0.000s  moved    outside -> active by PodAdd
2026-11-22 01:37:33.013Z       +0.013s  attempt  attempt 1: unschedulable: 0/2 nodes are \
available: 2 Insufficient cpu.
                                                   NodeResourcesFit on 2 nodes: Unschedulable: \
Insufficient cpu
2026-11-22 01:38:33.250Z      +60.250s  moved    unschedulable -> backoff by NodeAdd
                                                   NodeResourcesFit on NodeAdd: Queue
2026-11-22 02:20:01.000Z    +2548.000s  bound    bound to {"n" * 80}
"""


def test_events_that_do_not_help_are_one_line_without_their_hints() -> None:
    hints = (StoryHint(plugin="Fit", event="NodeAdd", answer="QueueSkip"),)
    run = StoryEntry(time=1.0, until=9.0, kind="asked", text="9 NodeAdd do not help", hints=hints)
    out = io.StringIO()
    TextPrinter(out, nodes_max=None).story(Story(namespace="ns", name="web", entries=(run,)))
    assert len(out.getvalue().splitlines()) == 2


def _story(namespace: str, name: str) -> bytes | None:
    known = (namespace, name) in {("default", "web"), ("kube-system", "web")}
    return json.dumps(STORY).encode() if known else None


class _Served(Served):
    def story(self, namespace: str, name: str) -> bytes | None:
        return _story(namespace, name)


@contextlib.contextmanager
def _elsewhere(server: AbstractAsyncContextManager[object]) -> Iterator[str]:
    """Run a server in a thread of its own, for the command has an event loop of its own."""
    started: list[str] = []
    ready, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with server as running:
            started.append(running.url)  # type: ignore[attr-defined]
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait(10.0)
    try:
        yield started[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def _explain(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def _complaint(*arguments: str) -> str:
    result = _explain(*arguments)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("kubesched-explain: ").removesuffix("\n")


@pytest.mark.parametrize("pod", ["web", "default/web", "kube-system/web"])
def test_a_story_is_printed_as_lines(pod: str) -> None:
    with _elsewhere(
        SchedulerServer(_Served().endpoints(), create_listener("127.0.0.1", None))
    ) as url:
        result = _explain("--story", pod, "--server", url)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == LINES


def test_a_story_is_printed_as_json() -> None:
    with _elsewhere(
        SchedulerServer(_Served().endpoints(), create_listener("127.0.0.1", None))
    ) as url:
        report = json.loads(_explain("--story", "web", "--server", url, "-o", "json").stdout)
    jsonschema.validate(report, SCHEMA)
    assert [entry["kind"] for entry in report["story"]["entries"]] == [
        *("moved", "attempt", "moved", "bound")
    ]


def test_a_pod_that_is_not_known_is_said() -> None:
    with _elsewhere(
        SchedulerServer(_Served().endpoints(), create_listener("127.0.0.1", None))
    ) as url:
        text = _complaint("--story", "nobody", "--server", url)
    assert text == f'{url}: pod "default/nobody" is not known to this scheduler'


def test_the_error_of_a_forbidden_request_has_a_remedy() -> None:
    clock = SystemClock()
    access = AccessControl(
        Authenticator(None, NO_TRUST, cache_seconds=10.0, clock=clock),
        Authorizer(OpenPaths([]), None, options=AuthorizationOptions(), clock=clock),
    )
    listener = create_listener("127.0.0.1", None)
    with _elsewhere(SchedulerServer(_Served().endpoints(), listener, access=access)) as url:
        text = _complaint("--story", "web", "--server", url, "--token", "x")
    assert text == (
        f'{url}: forbidden: User "system:anonymous" cannot get path "/debug/pods/default/web"; '
        "give a --token that may get it, or open the path to all with kubesched "
        "--authorization-always-allow-paths"
    )


def test_a_token_is_sent_and_may_be_refused() -> None:
    status = {"kind": "Status", "status": "Failure", "reason": "Unauthorized", "code": 401}
    server = ScriptedServer(Answer({**status, "message": "Unauthorized"}, status=401))
    with _elsewhere(server) as url:
        text = _complaint("--story", "web", "--server", url, "--token", "secret")
    assert server.asked[0].headers["Authorization"] == "Bearer secret"
    assert text == f"Unauthorized (by {url}): the scheduler does not accept this --token"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"namespace":"a"}', b'{"entries":[{}]}'])
def test_an_invalid_story_is_an_error(body: bytes) -> None:
    with _elsewhere(ScriptedServer(Answer(body))) as url:
        text = _complaint("--story", "web", "--server", url)
    assert text.startswith(f"{url}/debug/pods/default/web: not a pod's story: ")


def test_a_server_that_does_not_listen_is_an_error() -> None:
    url = "http://127.0.0.1:1"
    text = _complaint("--story", "web", "--server", url)
    assert text.startswith(f'GET "{url}/debug/pods/default/web?timeout=10s": Cannot connect')


def test_https_asks_for_trust(tmp_path: Path) -> None:
    options = ServingOptions(
        bind_address="127.0.0.1",
        secure_port=None,
        cert_dir=str(tmp_path),
        authorization=AuthorizationOptions(always_allow_paths=("/debug/*",)),
    )
    server = serve_securely(
        options,
        default_config(SCHEME),
        _Served(),
        clock=SystemClock(),
        is_shutting_down=lambda: False,
        gates=DEFAULT_FEATURE_GATES,
        flags={},
    )
    with _elsewhere(server) as url:
        asked = ("--story", "web", "--server", url)
        trust = ("--certificate-authority", str(tmp_path / "kube-scheduler.crt"))
        assert _explain(*asked, *trust).stdout == LINES
        assert _explain(*asked, "--insecure-skip-tls-verify").stdout == LINES
        assert _complaint(*asked).endswith(
            "; see --certificate-authority and --insecure-skip-tls-verify"
        )
        started = time.monotonic()
        plain = _complaint("--story", "web", "--server", url.replace("https", "http"))
        assert plain.endswith(f": the server serves HTTPS: write {url}")
        assert time.monotonic() - started < 5.0, "it is not retried"
        missing = _complaint(*asked, "--certificate-authority", "/nowhere")
        assert missing == "--certificate-authority: /nowhere: No such file or directory"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--story", "a/b/c", "--server", "http://x"], "story: expected NAME or NAMESPACE/NAME"),
        (["--story", "a/", "--server", "http://x"], "story: expected NAME or NAMESPACE/NAME"),
        (["--story", "a", "--server", "ftp://x"], "--server: expected a URL such as"),
    ],
)
def test_an_invalid_pod_name_is_an_error(arguments: list[str], complaint: str) -> None:
    assert _complaint(*arguments).startswith(complaint)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--story", "a"], "Missing option '--server'"),
        (["--manifests", "x", "--server", "y"], "--server goes with --kubeconfig or --master"),
        (["--story=a", "--server", "y", "--master", "x"], "No such option '--master'"),
    ],
)
def test_options_go_together(arguments: list[str], complaint: str) -> None:
    result = _explain(*arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
