"""Schedulers that are commands: started, watched over, stopped."""

import socket
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from conformance.errors import InputError
from conformance.outcome import Verdict
from conformance.targets import command as command_module
from conformance.targets.command import CommandKind
from conformance.targets.target import TargetOptions, configuration
from tests.realcluster.cluster import free_ports

from ..cases import BOUND, run_one, write_cases

#: Opens a watch, as any scheduler does, and then runs the last lines.
WATCHES = """
import json, re, sys, time, urllib.request
url = re.search(r"server: (\\S+)", open(sys.argv[1], encoding="utf-8").read())[1]
watch = urllib.request.urlopen(url + "/api/v1/pods?watch=true")
print("watching", flush=True)
"""

ENDS_WITH_THE_FIRST_POD = WATCHES + "watch.readline(); sys.exit('no luck with that pod')\n"

BINDS = (
    WATCHES
    + """
for line in watch:
    event = json.loads(line)
    if event["type"] == "ADDED":
        name = event["object"]["metadata"]["name"]
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"kind": "Node", "name": "a"}}
        request = urllib.request.Request(
            f"{url}/api/v1/namespaces/default/pods/{name}/binding",
            json.dumps(body).encode(), {"Content-Type": "application/json"})
        urllib.request.urlopen(request).read()
"""
)

#: Serves metrics on the port it is given, until the watch ends.
SERVES = (
    WATCHES
    + """
import http.server, threading
PAGE = b'scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"} 1\\n'
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(PAGE)
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
watch.read()
"""
)

STUBBORN = (
    """
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""
    + WATCHES
    + "time.sleep(60)\n"
)


ASKS = BOUND.replace("bound_to: a", "not_requeued_by: NodeAdd")


def _options(tmp_path: Path, script: str, *, more: str = "", **options: float) -> TargetOptions:
    file = tmp_path / "scheduler.py"
    file.write_text(script, encoding="utf-8")
    command = f"{sys.executable} {file} {{kubeconfig}} {more}"
    return TargetOptions(
        command=command,
        **{"quiet_seconds": 0.1, "patience_seconds": 0.3, "start_seconds_max": 10.0, **options},
    )


@pytest.mark.slow
def test_a_command_that_binds_passes(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, BOUND)
    outcome = run_one(case, _options(tmp_path, BINDS, patience_seconds=5.0))
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")


@pytest.mark.slow
def test_a_command_can_run_several_times_at_once(tmp_path: Path) -> None:
    steps = "\n  - start: second\n  - stop: first\n  - create: [pod: {name: p}]\n"
    (case,) = write_cases(tmp_path, BOUND.replace("\n  - create: [pod: {name: p}]\n", steps))
    outcome = run_one(case, _options(tmp_path, BINDS, patience_seconds=5.0))
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")
    (case,) = write_cases(
        tmp_path, BOUND.replace("[pod: {name: p}]", "[pod: {name: p}]\n  - start: second")
    )
    outcome = run_one(case, _options(tmp_path, ENDS_WITH_THE_FIRST_POD))
    assert outcome.verdict is Verdict.ERROR


@pytest.mark.slow
def test_a_command_that_does_not_bind_fails_and_its_output_is_shown(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, BOUND)
    outcome = run_one(case, _options(tmp_path, WATCHES + "time.sleep(60)\n"))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason == "steps[1]: pod p: expected on a, is not bound"
    assert outcome.log == ("watching",)


@pytest.mark.slow
def test_the_error_of_a_command_that_does_not_start_has_the_reason(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, BOUND)
    outcome = run_one(case, _options(tmp_path, "import sys; sys.exit('unknown flag: --what')\n"))
    assert outcome.verdict is Verdict.ERROR
    assert outcome.reason == "did not start: exit status 1: unknown flag: --what"
    assert outcome.log == ("unknown flag: --what",)


@pytest.mark.slow
def test_a_command_that_asks_the_server_for_nothing_has_not_started(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, BOUND)
    script = "import time; time.sleep(60)\n"
    outcome = run_one(case, _options(tmp_path, script, start_seconds_max=0.2))
    assert (outcome.verdict, outcome.reason) == (
        Verdict.ERROR,
        "opened no watch on the API server within 0.2s",
    )


@pytest.mark.slow
def test_a_command_that_dies_on_the_way_is_an_error(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, BOUND)
    outcome = run_one(case, _options(tmp_path, ENDS_WITH_THE_FIRST_POD, patience_seconds=10.0))
    assert outcome.verdict is Verdict.ERROR
    assert outcome.reason == "steps[1]: died: exit status 1: no luck with that pod"


@pytest.mark.slow
def test_of_a_crash_the_first_line_is_the_reason(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, BOUND)
    crash = "panic: no luck\\ngoroutine 7 [running]:\\nmain.go:1"
    script = ENDS_WITH_THE_FIRST_POD.replace("no luck with that pod", crash)
    outcome = run_one(case, _options(tmp_path, script, patience_seconds=10.0))
    assert outcome.reason == "steps[1]: died: exit status 1: panic: no luck"


@pytest.mark.slow
def test_a_command_that_does_not_want_to_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformance.targets.command._TERMINATE_SECONDS", 0.2)
    (case,) = write_cases(tmp_path, BOUND.replace("bound_to: a", "phase: Pending"))
    outcome = run_one(case, _options(tmp_path, STUBBORN))
    assert outcome.verdict is Verdict.PASSED


GATED = BOUND.replace("  cluster:", "  gates: {GenericWorkload: true}\n  cluster:")


@pytest.mark.parametrize(
    ("text", "command", "reason"),
    [
        (BOUND, "true {kubeconfig}", None),
        (BOUND, "true --config={config}", None),
        (
            BOUND.replace("  cluster:", "  config: {percentageOfNodesToScore: 100}\n  cluster:"),
            "true {kubeconfig}",
            "needs a configuration, and the command has no {config}",
        ),
        (
            BOUND.replace("  steps:\n", "  steps:\n  - advance: 21s\n"),
            "true {kubeconfig}",
            "needs 21s of real time, --real-time-max is 20s",
        ),
        (
            BOUND.replace("  steps:\n", "  exact_time: true\n  steps:\n"),
            "true {kubeconfig}",
            "needs a clock that the suite moves",
        ),
        (GATED, "true {kubeconfig} --feature-gates={feature-gates}", None),
        (
            GATED,
            "true {kubeconfig}",
            "needs feature gates, and the command has no {feature-gates}",
        ),
        (ASKS, "true {kubeconfig} --port={port}", None),
        (
            ASKS,
            "true {kubeconfig}",
            "reads metrics, and the command has no {port} to serve them on",
        ),
        (
            BOUND.replace("  steps:\n", "  level: extended\n  feature: flow\n  steps:\n"),
            "true {kubeconfig}",
            "belongs to the feature flow, a plugin of kubesched",
        ),
        (
            BOUND.replace("  steps:\n", "  level: extended\n  feature: flow\n  steps:\n"),
            "kubesched {kubeconfig}",
            None,
        ),
    ],
)
def test_cases_that_a_command_cannot_run_are_skipped(
    tmp_path: Path, text: str, command: str, reason: str | None
) -> None:
    (case,) = write_cases(tmp_path, text)
    assert CommandKind(TargetOptions(command=command)).why_not(case) == reason


def test_metrics_at_a_place_of_their_own_need_no_port(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, ASKS)
    options = TargetOptions(command="true {kubeconfig}", metrics_url="http://10.0.0.1/metrics")
    assert CommandKind(options).why_not(case) is None


def test_a_place_for_metrics_that_is_no_url_is_refused() -> None:
    with pytest.raises(InputError, match="--metrics-url: expected http"):
        CommandKind(TargetOptions(command="true {kubeconfig}", metrics_url="10.0.0.1:{port}"))


@pytest.mark.slow
def test_a_command_is_given_a_port_and_its_metrics_are_read(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, ASKS)
    options = _options(tmp_path, SERVES, more="{port}", patience_seconds=0.3)
    plain = msgspec.structs.replace(options, metrics_url="http://127.0.0.1:{port}/metrics")
    outcome = run_one(case, plain)
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")
    wrong = run_one(case, options)  # the default is HTTPS, which this one does not speak
    assert wrong.verdict is Verdict.SKIPPED
    assert "GET https://127.0.0.1:2" in wrong.reason


@pytest.mark.slow
def test_a_command_gets_the_feature_gates_of_the_case(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, GATED.replace("true}", "true, GangScheduling: false}"))
    fails = WATCHES + "sys.exit('gates ' + sys.argv[2])\n"
    outcome = run_one(case, _options(tmp_path, fails, more="{feature-gates}"))
    assert "gates GenericWorkload=true,GangScheduling=false" in outcome.reason


def test_the_configuration_has_the_kubeconfig(tmp_path: Path) -> None:
    own = {"profiles": [{"schedulerName": "x"}], "clientConnection": {"qps": 5}}
    whole = yaml.safe_load(yaml.safe_dump(configuration(own, tmp_path / "kubeconfig")))
    assert whole == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "x"}],
        "clientConnection": {
            "qps": 5,
            "kubeconfig": str(tmp_path / "kubeconfig"),
        },
        "leaderElection": {"leaderElect": False},
    }


def test_two_suites_on_one_machine_never_take_the_same_port(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(command_module, "_PORTS", range(port, port + 1))
    (case,) = write_cases(tmp_path, BOUND)
    options = _options(tmp_path, BINDS, patience_seconds=5.0)
    # As another suite does between its choice of a port and the start of its scheduler.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
        held.bind(("", port))
        outcome = run_one(case, options)
        assert "no free port" in outcome.reason
    assert run_one(case, options).verdict is Verdict.PASSED
