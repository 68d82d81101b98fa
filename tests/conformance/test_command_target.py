"""Schedulers that are commands: started, watched over, stopped."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from conformance.command_target import CommandKind
from conformance.outcome import Verdict
from conformance.target import TargetOptions, configuration

from .cases import BOUND, run_one, write_cases

if TYPE_CHECKING:
    from pathlib import Path

#: Opens a watch, as any scheduler does, and then lives on as the last lines say.
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

STUBBORN = (
    """
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""
    + WATCHES
    + "time.sleep(60)\n"
)


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
def test_a_command_that_does_not_bind_fails_and_its_output_is_shown(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, BOUND)
    outcome = run_one(case, _options(tmp_path, WATCHES + "time.sleep(60)\n"))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason == "steps[1]: pod p: expected on a, is not bound"
    assert outcome.log == ("watching",)


@pytest.mark.slow
def test_a_command_that_does_not_start_says_why(tmp_path: Path) -> None:
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
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "opened no watch within 0.2s")


@pytest.mark.slow
def test_a_command_that_dies_on_the_way_is_an_error(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, BOUND)
    outcome = run_one(case, _options(tmp_path, ENDS_WITH_THE_FIRST_POD, patience_seconds=10.0))
    assert outcome.verdict is Verdict.ERROR
    assert outcome.reason == "steps[1]: died: exit status 1: no luck with that pod"


@pytest.mark.slow
def test_a_command_that_does_not_want_to_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformance.command_target._TERMINATE_SECONDS", 0.2)
    (case,) = write_cases(tmp_path, BOUND.replace("bound_to: a", "phase: Pending"))
    outcome = run_one(case, _options(tmp_path, STUBBORN))
    assert outcome.verdict is Verdict.PASSED


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
    ],
)
def test_what_a_command_cannot_be_asked_is_skipped(
    tmp_path: Path, text: str, command: str, reason: str | None
) -> None:
    (case,) = write_cases(tmp_path, text)
    assert CommandKind(TargetOptions(command=command)).why_not(case) == reason


def test_the_configuration_says_how_to_reach_the_server(tmp_path: Path) -> None:
    own = {"profiles": [{"schedulerName": "x"}], "clientConnection": {"qps": 5}}
    whole = yaml.safe_load(yaml.safe_dump(configuration(own, tmp_path / "kubeconfig")))
    assert whole == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "x"}],
        "clientConnection": {
            "qps": 5,
            "kubeconfig": str(tmp_path / "kubeconfig"),
            "contentType": "application/json",
            "acceptContentTypes": "application/json",
        },
        "leaderElection": {"leaderElect": False},
    }
