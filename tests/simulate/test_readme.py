"""The sections of the README about simulations: their commands run on their files."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.simulate.cli import main
from tests.simulate.study.small_trace import write_small_trace
from tests.simulate.what_if import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
FGD = (ROOT / "docs" / "fgd.md").read_text(encoding="utf-8")
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def _block(before: str, language: str, *, page: str = README) -> str:
    found = re.search(rf"```{language}\n(.*?)```", page[page.index(before) :], re.DOTALL)
    assert found is not None
    return found[1]


def _files(texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        Path(name).write_text(text, encoding="utf-8")


def _outputs(block: str, *options: str) -> list[str]:
    """Run the commands of a block, and return the output of each."""
    outputs = []
    for line in block.splitlines():
        _, *arguments = shlex.split(line, comments=True)
        words = options if arguments[0] in ("run", "study") else ()
        result = CliRunner().invoke(main, [*arguments, *words])
        assert result.exit_code == 0, result.output
        outputs.append(result.stdout)
    return outputs


def test_the_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    row = re.search(r"such as `(medium,[^`]*)`", README)
    header = re.search(r"a line `(name,[^`]*)`", README)
    assert row is not None
    assert header is not None
    _files(
        {
            "cluster.yaml": _block("## Why is my pod where it is?", "yaml"),
            "api.yaml": _block("## What if?", "yaml"),
            "shapes.csv": f"{header[1]}\n{row[1]}\n",
            "new.yaml": CONFIG,
        }
    )
    summaries = [each.splitlines()[0] for each in _outputs(_block("## What if?", "sh"))]
    assert summaries == [
        "3 of 10 pods would be bound, 7 would wait; 0 pods would be evicted",
        "would fit: 3 of default/api",
        "1 of 1 nodes would be drained, in 1 step; 1 pod would be evicted, 0 of the new pods "
        "would wait",
        "the cluster survives the loss of costly: 1 pod lost, 0 would wait",
        "waiting: 1 pod; without preemption no node more, with preemption no node more",
        "0 of 1 pods would be decided otherwise; 0 are decided by chance among equal nodes",
    ]


def test_the_study_runs_as_on_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_small_trace(Path("DIR"))
    commands = _block("Here the policies are plugins", "bash", page=FGD).splitlines()
    (studied,) = _outputs(commands[-1].replace("default", "small"), "--workers", "0")
    assert studied.splitlines()[-1] == "5 of 5 runs in OUT/results.csv"
