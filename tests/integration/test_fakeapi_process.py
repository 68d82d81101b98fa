"""The `kubesched-fakeapi` process: what it prints, what it loads, how it stops and fails."""

import contextlib
import io
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

from fakeapi.cli.command import run
from scheduler.client import connect_process
from scheduler.clock import SystemClock

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "fakeapi"]
SECONDS = 20.0
MANIFEST = """
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeName: n1, containers: [{name: c, image: x}]}
"""


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return json.loads(answer.read())


def failed(*arguments: str) -> tuple[int, str]:
    """Run the command line in this process: its status and standard error."""
    errors = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["kubesched-fakeapi", *arguments]),
        contextlib.redirect_stderr(errors),
        pytest.raises(SystemExit) as stopped,
    ):
        run()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code, errors.getvalue()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_loaded_objects_until_it_is_stopped(
    tmp_path: Path, number: signal.Signals
) -> None:
    manifest, kubeconfig = tmp_path / "a.yaml", tmp_path / "kubeconfig"
    manifest.write_text(MANIFEST, encoding="utf-8")
    arguments = ["--load", str(manifest), "--kubeconfig-out", str(kubeconfig)]
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        assert config["clusters"][0]["cluster"]["server"] == url
        pods = get(f"{url}/api/v1/pods")
        assert [item["spec"]["nodeName"] for item in pods["items"]] == ["n1"]
        stream = urllib.request.urlopen(f"{url}/api/v1/pods?watch=1", timeout=SECONDS)
        assert json.loads(stream.readline())["type"] == "ADDED"
        process.send_signal(number)
        assert stream.read() == b""
        stream.close()
        output, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, output, errors) == (0, "", "")


def test_with_print_kubeconfig_that_is_all_it_prints() -> None:
    with subprocess.Popen(
        [*COMMAND, "--print-kubeconfig"], stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        lines = []
        while not (lines and lines[-1].startswith("current-context")):
            lines.append(process.stdout.readline())
        config = yaml.safe_load("".join(lines))
        assert get(f"{config['clusters'][0]['cluster']['server']}/version")["minor"] == "36"
        process.terminate()
        rest, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, rest) == (0, "")


def test_versions_grow_over_a_restart() -> None:
    versions = []
    for _ in range(2):
        with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, encoding="utf-8") as process:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            listed = get(f"{url}/api/v1/nodes")
            versions.append(int(listed["metadata"]["resourceVersion"]))
            process.terminate()
    assert versions[0] < versions[1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("kind: Pod", "document 1: apiVersion: expected a string"),
        ("a: [", "line 2, column 1: while parsing a flow node: did not find expected"),
        ("kind: \x01", "byte 6 is not UTF-8 text: "),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}",
            'document 1: Pod p: Pod "p" is invalid: spec.containers[0].image: Required value',
        ),
    ],
)
def test_a_bad_manifest_is_one_line_and_exit_code_1(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(content, encoding="utf-8")
    code, errors = failed("--load", str(path))
    assert code == 1
    assert errors.startswith(f"kubesched-fakeapi: {path}: {message}")
    assert errors.count("\n") == 1


def test_a_file_that_is_not_there_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    path = tmp_path / "nope.yaml"
    code, errors = failed("--load", str(path))
    assert (code, errors) == (1, f"kubesched-fakeapi: {path}: No such file or directory\n")


def test_a_port_that_is_taken_is_one_line_and_exit_code_1() -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip().rpartition(":")[2]
        done = subprocess.run(
            [*COMMAND, "--port", port], capture_output=True, timeout=SECONDS, check=False
        )
        process.terminate()
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1)
    assert done.stderr.decode() == (
        f"kubesched-fakeapi: listen on 127.0.0.1:{port}: address already in use; "
        "--port 0 picks a free one\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nonsense"],
        ["--port", "99999"],
        ["--event-log-size", "0"],
        ["--print-kubeconfig", "--kubeconfig-out", "x"],
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    code, errors = failed(*arguments)
    assert code == 2
    assert "Usage:" in errors
    assert "Traceback" not in errors


def test_the_kubeconfig_of_a_user_has_the_rights_of_that_user(tmp_path: Path) -> None:
    scheduler, jane = tmp_path / "scheduler", tmp_path / "jane"
    for_users = (f"system:kube-scheduler={scheduler}", f"jane={jane}")
    options = [word for text in for_users for word in ("--kubeconfig-for", text)]
    command = [*COMMAND, "--tls", "--authorization-mode=RBAC", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("https://")
        answers = [_list_of_nodes(file) for file in (scheduler, jane)]
        process.terminate()
    assert answers == [200, 403]


def _list_of_nodes(kubeconfig: Path) -> int:
    connection = connect_process(kubeconfig=str(kubeconfig), clock=SystemClock())
    assert connection.tls is not None
    request = urllib.request.Request(f"{connection.base_url}/api/v1/nodes")
    try:
        with urllib.request.urlopen(request, context=connection.tls.context) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
