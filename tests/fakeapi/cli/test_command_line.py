"""`kubesched-fakeapi`: flags that make no sense together cost no file, and start no server."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from fakeapi import FakeApiServer, StateFiles
from fakeapi.cli.command import command
from fakeapi.faults import FaultError, FaultOptions
from fakeapi.loading.manifests import LoadError
from fakeapi.state import StateError

WRITTEN = ("--snapshot", "--data", "--record", "--fault-log", "--kubeconfig-out")
READ = (
    "--load", "--restore", "--replay", "--faults", "--tls-cert-file",
    "--tls-private-key-file", "--client-ca-file", "--token-auth-file",
)  # fmt: skip


@pytest.mark.parametrize(
    ("written", "other"),
    [(one, other) for one in WRITTEN for other in (*READ, *WRITTEN) if other != one],
)
def test_no_file_is_written_over_that_another_flag_names(
    tmp_path: Path, written: str, other: str
) -> None:
    (tmp_path / "sub").mkdir()
    file = tmp_path / "file"
    file.write_text("precious", encoding="utf-8")
    arguments = [written, str(file), other, str(tmp_path / "sub" / ".." / "file")]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2, result.output
    assert "would write over" in result.output
    assert written in result.output
    assert other in result.output
    assert file.read_text(encoding="utf-8") == "precious"


def test_a_recording_that_cannot_be_replayed_costs_no_other_file(tmp_path: Path) -> None:
    record, replay = tmp_path / "record.jsonl", tmp_path / "replay.jsonl"
    record.write_text("precious", encoding="utf-8")
    arguments = ["--record", str(record), "--replay", str(replay)]
    for text, words in [(None, "No such file"), ("hello\n", "no recording, or a damaged one")]:
        if text is not None:
            replay.write_text(text, encoding="utf-8")
        result = CliRunner().invoke(command, arguments)
        assert isinstance(result.exception, StateError)
        assert words in str(result.exception)
        assert result.output == ""  # no URL was printed
        assert record.read_text(encoding="utf-8") == "precious"


def test_faults_that_are_refused_cost_no_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("precious", encoding="utf-8")
    with pytest.raises(FaultError):
        FakeApiServer(faults=FaultOptions(faults=[{"nonsense": {}}], log=log))
    assert log.read_text(encoding="utf-8") == "precious"


async def test_a_start_without_a_port_costs_no_file(tmp_path: Path) -> None:
    record, log = tmp_path / "record.jsonl", tmp_path / "log.jsonl"
    for file in (record, log):
        file.write_text("precious", encoding="utf-8")
    async with FakeApiServer() as first:
        second = FakeApiServer(
            port=first.port,
            state=StateFiles(record=record),
            faults=FaultOptions(faults=[{"lose": {}}], log=log),
        )
        with pytest.raises(OSError, match="address already in use"):
            await second.__aenter__()
    for file in (record, log):
        assert file.read_text(encoding="utf-8") == "precious"
    async with FakeApiServer(
        state=StateFiles(record=record), faults=FaultOptions(log=log)
    ):  # they are not locked
        assert record.read_text(encoding="utf-8").startswith('{"format"')
        assert log.read_text(encoding="utf-8").startswith('{"started_seconds"')


async def test_two_servers_do_not_log_their_faults_to_one_file(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    async with FakeApiServer(faults=FaultOptions(faults=[{"name": "kept", "lose": {}}], log=log)):
        with pytest.raises(FaultError, match="another server is writing its faults to it"):
            FakeApiServer(faults=FaultOptions(log=log))
        assert '"kept"' in log.read_text(encoding="utf-8")
    async with FakeApiServer(faults=FaultOptions(log=log)):
        assert '"kept"' not in log.read_text(encoding="utf-8")


async def test_what_became_of_faults_before_the_start_is_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    server = FakeApiServer(faults=FaultOptions(faults=[{"name": "gone", "lose": {}}], log=log))
    server.faults.remove("gone")
    async with server:
        _, added, removed = log.read_text(encoding="utf-8").splitlines()
    assert '"gone"' in added
    assert '"removed":1' in removed


async def test_the_log_begins_with_the_faults_that_were_there_from_the_start(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log.jsonl"
    fault = {"name": "lost", "reset": {}, "when": {"nth": 7}}
    async with FakeApiServer(faults=FaultOptions(faults=[fault], log=log)):
        pass
    started, set_fault = log.read_text(encoding="utf-8").splitlines()
    assert "started_seconds" in started
    assert '"lost"' in set_fault


@pytest.mark.parametrize("version", ["0", str(2**62 + 1), "9" * 30])
def test_versions_begin_where_they_cannot_outgrow_the_database(version: str) -> None:
    result = CliRunner().invoke(command, ["--initial-resource-version", version])
    assert result.exit_code == 2
    assert "--initial-resource-version" in result.output


@pytest.mark.parametrize("speed", ["nan", "inf", "-1"])
def test_a_speed_is_a_finite_number(tmp_path: Path, speed: str) -> None:
    arguments = ["--replay", str(tmp_path / "none"), "--speed", speed]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert "--speed" in result.output


def test_keep_uids_needs_load() -> None:
    result = CliRunner().invoke(command, ["--keep-uids"])
    assert result.exit_code == 2
    assert "--keep-uids is for --load" in result.output


@pytest.mark.parametrize("nothing", ["", "\n \n"])
def test_a_standard_input_with_nothing_in_it_is_refused(nothing: str) -> None:
    result = CliRunner().invoke(command, ["--load", "-"], input=nothing)
    assert isinstance(result.exception, LoadError)
    assert str(result.exception) == "standard input: expected manifests, found nothing"


@pytest.mark.parametrize("text", ["system:kube-scheduler", "=file", "jane="])
def test_a_kubeconfig_for_a_user_needs_both(text: str) -> None:
    result = CliRunner().invoke(command, ["--kubeconfig-for", text])
    assert result.exit_code == 2
    assert f"--kubeconfig-for: expected USER=FILE, got {text}" in result.output


def test_a_kubeconfig_for_a_user_is_no_file_that_another_flag_names(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("precious", encoding="utf-8")
    result = CliRunner().invoke(command, ["--kubeconfig-for", f"jane={file}", "--load", str(file)])
    assert result.exit_code == 2
    assert file.read_text(encoding="utf-8") == "precious"
