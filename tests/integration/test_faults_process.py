"""`kubesched-fakeapi` with faults: a file, a log, the log as a file, and errors for bad files."""

import contextlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "fakeapi"]
SECONDS = 20.0
FAULTS = """
faults:
- {name: busy, match: {verb: list, resource: pods}, when: {probability: 0.5}, answer: {code: 503}}
"""


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[str]:
    """A server process; its URL."""
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.communicate(timeout=SECONDS)


def code(url: str, method: str = "GET", body: object = None) -> int:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, method=method, data=data)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def codes(url: str) -> list[int]:
    return [code(f"{url}/api/v1/pods") for _ in range(20)]


def test_a_file_of_faults_a_seed_a_log_and_the_log_again(tmp_path: Path) -> None:
    file, log = tmp_path / "faults.yaml", tmp_path / "faults.jsonl"
    file.write_text(FAULTS, encoding="utf-8")
    with running("--faults", str(file), "--seed", "3", "--fault-log", str(log)) as url:
        first = codes(url)
    with running("--faults", str(file), "--seed", "3") as url:
        assert codes(url) == first
    with running("--faults", str(log)) as url:
        assert codes(url) == first
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    injections = [line["injection"] for line in lines if "injection" in line]
    assert [injection["number"] for injection in injections] == list(range(1, first.count(503) + 1))
    assert {injection["client"] for injection in injections} == {
        f"Python-urllib/{sys.version_info.major}.{sys.version_info.minor}"
    }


def test_faults_over_http_unless_that_is_switched_off() -> None:
    fault = {"match": {"verb": "list"}, "answer": {"code": 503}}
    with running() as url:
        assert code(f"{url}/_fakeapi/faults", "POST", fault) == 201
        assert code(f"{url}/api/v1/pods") == 503
        assert code(f"{url}/_fakeapi/faults", "DELETE") == 200
        assert code(f"{url}/api/v1/pods") == 200
    with running("--no-admin-endpoint") as url:
        assert code(f"{url}/_fakeapi/faults", "POST", fault) in (404, 405)


def test_a_bad_file_is_one_line_that_names_the_field(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("faults:\n- {answer: {cod: 503}}\n", encoding="utf-8")
    done = subprocess.run(
        [*COMMAND, "--faults", str(file)],
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    expected = f"kubesched-fakeapi: {file}: faults[0].answer: unknown field cod; did you mean code?"
    assert (done.returncode, done.stdout, done.stderr.strip()) == (1, "", expected)
