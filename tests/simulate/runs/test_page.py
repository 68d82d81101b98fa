"""The page about histories: its commands work on its tables."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.simulate.cli import main
from scheduler.simulate.history.format import read_history
from tests.documentation import Page

_PAGE = Page("docs/histories.md")


def _blocks(language: str) -> list[str]:
    return [block.text for block in _PAGE.blocks if block.language == language]


def test_the_commands_of_the_page_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, pods = _blocks("csv")
    [config] = _blocks("yaml")
    monkeypatch.chdir(tmp_path)
    for name, text in (("nodes.csv", nodes), ("pods.csv", pods), ("packed.yaml", config)):
        Path(name).write_text(text, encoding="utf-8")
    outputs = []
    for command in _blocks("bash"):
        program, *words = shlex.split(command)
        assert program == "kubesched-simulate"
        words += ["--workers", "0"] if words[0] == "run" else []
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
        outputs.append(result.output)
    assert len(list(read_history(Path("history.jsonl")))) == 9
    metrics = re.findall(r"^\| `(.*?)`", _PAGE.text.split("| metric |")[1], flags=re.MULTILINE)
    for metric in metrics:
        name = metric.replace("RESOURCE", "cpu").replace("mean/p50/p95/p99", "p95")
        assert name in outputs[-1]


def test_the_line_of_the_page_is_a_change(tmp_path: Path) -> None:
    [line] = _blocks("json")
    (tmp_path / "history.jsonl").write_text(line, encoding="utf-8")
    [change] = read_history(tmp_path / "history.jsonl")
    assert (change.seconds, change.kind) == (30.0, "pods")
