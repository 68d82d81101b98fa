"""The section "What if?" of the README: its commands run on its files."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.simulate.cli import main
from tests.simulate.what_if import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def _block(before: str, language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README[README.index(before) :], re.DOTALL)
    assert found is not None
    return found[1]


def test_the_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    row = re.search(r"such as `(medium,[^`]*)`", README)
    header = re.search(r"a line `(name,[^`]*)`", README)
    assert row is not None
    assert header is not None
    for name, text in {
        "cluster.yaml": _block("## Why is my pod where it is?", "yaml"),
        "api.yaml": _block("## What if?", "yaml"),
        "shapes.csv": f"{header[1]}\n{row[1]}\n",
        "new.yaml": CONFIG,
    }.items():
        Path(name).write_text(text, encoding="utf-8")
    summaries = []
    for line in _block("## What if?", "sh").splitlines():
        _, *arguments = shlex.split(line, comments=True)
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        summaries.append(result.stdout.splitlines()[0])
    assert summaries == [
        "3 of 10 pods would be bound, 7 would wait; 0 pods would be evicted",
        "would fit: 3 of default/api",
        "1 of 1 nodes would be drained, in 1 step; 1 pod would be evicted, 0 of the new pods "
        "would wait",
        "the cluster survives the loss of costly: 1 pod lost, 0 would wait",
        "waiting: 1 pod; without preemption no node more, with preemption no node more",
        "0 of 1 pods would be decided otherwise; 0 are decided by chance among equal nodes",
    ]
