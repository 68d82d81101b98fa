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

from tests.integration.test_fakeapi_process import failed

pytestmark = pytest.mark.slow

SECONDS = 20.0
FAULTS = """
faults:
- {name: busy, match: {verb: list, resource: pods}, when: {probability: 0.5}, answer: {code: 503}}
"""


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[str]:
    """A server process; its URL."""
    with subprocess.Popen(
        [sys.executable, "-m", "fakeapi", *arguments], stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.communicate(timeout=SECONDS)


def code(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
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


def test_a_bad_file_is_one_line_that_names_the_field(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("faults:\n- {answer: {cod: 503}}\n", encoding="utf-8")
    expected = f"kubesched-fakeapi: {file}: faults[0].answer: unknown field cod; did you mean code?"
    known = "code, reason, message, retry_after_seconds, after_write, too_large_resource_version"
    assert failed("--faults", str(file)) == (1, f"{expected}; expected {known}\n")
