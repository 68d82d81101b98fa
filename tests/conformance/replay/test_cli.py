"""The command line, as far as it goes without starting anything: bad input is one line."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.cli import main
from conformance.replay.cli import replay
from tests.conformance.replay.evidence import CPU_ONLY, task, write_history


@pytest.fixture
def history(tmp_path: Path) -> list[str]:
    """The option that names a history; the file may be spoilt."""
    path = write_history(tmp_path / "history.jsonl", CPU_ONLY, task("p"))
    return ["--history", str(path)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "history.jsonl: No such file or directory"),
        ("", "history.jsonl: expected lines that add nodes and pods"),
        ("{", "history.jsonl:1: Input data was truncated"),
        ('{"change":"ADDED","resource":"pods","object":{}}', ":1: object.metadata.name: missing"),
        (
            '{"change":"ADDED","resource":"x.y","object":{"metadata":{"name":"a"}}}',
            ":1: object.kind: missing for 'x.y'",
        ),
    ],
)
def test_a_history_that_cannot_be_used_is_one_line_and_status_2(
    tmp_path: Path, history: list[str], text: str | None, message: str
) -> None:
    path = tmp_path / "history.jsonl"
    path.unlink()
    if text is not None:
        path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(replay, history)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"kubesched-conformance: {tmp_path}")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target-command", "scheduler"], "expected {kubeconfig} or {config} in it"),
        (["--target-command", "'"], "--target-command: No closing quotation: '"),
        (["--json", "/dev/null/x/y"], "/dev/null/x: "),
        (["--config", "/nowhere"], "--config: /nowhere: No such file or directory"),
        (["--config", "/dev/null"], "--config: /dev/null: Expected `object`"),
    ],
)
def test_an_option_that_cannot_be_used_is_one_line_and_status_2(
    history: list[str], options: list[str], message: str
) -> None:
    result = CliRunner().invoke(replay, [*history, *options])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_it_is_a_subcommand_of_the_suite() -> None:
    result = CliRunner().invoke(main, ["replay", "--help"])
    assert result.exit_code == 0
    assert "--history" in result.stdout
