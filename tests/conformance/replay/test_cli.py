"""The command line, as far as it goes without starting anything: bad input is one line."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.cli import main
from conformance.replay.cli import replay

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn,1,1,0,\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\np,1,1,0,0,,LS\n"


@pytest.fixture
def trace(tmp_path: Path) -> list[str]:
    """The options that name a trace; the files may be spoilt."""
    (tmp_path / "nodes.csv").write_text(NODES, encoding="utf-8")
    (tmp_path / "pods.csv").write_text(PODS, encoding="utf-8")
    return [
        *("--openb-nodes", str(tmp_path / "nodes.csv")),
        *("--openb-pods", str(tmp_path / "pods.csv")),
    ]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("nodes.csv", None, "nodes.csv: No such file or directory"),
        ("pods.csv", "", "pods.csv:1: the file is empty, expected name,cpu_milli"),
        ("pods.csv", PODS.replace("qos", "class"), "pods.csv:1: column 'qos': missing; found"),
        ("pods.csv", PODS + "q,1,1,x,0,,LS\n", "pods.csv:3: column 'num_gpu': expected a whole"),
    ],
)
def test_a_trace_that_cannot_be_used_is_one_line_and_status_2(
    tmp_path: Path, trace: list[str], file: str, text: str | None, message: str
) -> None:
    path = tmp_path / file
    path.unlink()
    if text is not None:
        path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(replay, trace)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"kubesched-conformance: {tmp_path}")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target-command", "scheduler"], "expected {kubeconfig} or {config} in it"),
        (["--target-command", "'"], "--target-command: No closing quotation: '"),
        (["--out", "/dev/null/x"], "/dev/null/x: "),
        (["--config", "/nowhere"], "--config: /nowhere: No such file or directory"),
        (["--config", "/dev/null"], "--config: /dev/null: Expected `object`"),
        (["--baseline", "a=/nowhere"], "--baseline: /nowhere: No such file or directory"),
        (["--baseline", "/dev/null"], "--baseline: /dev/null: expected a --json file of a replay"),
        (["--time", "trace"], "pods.csv:1: column 'creation_time': missing"),
        (
            ["--time", "trace", "--target-command", "x {config}"],
            "--time trace: expected no --target-command: ours runs in process",
        ),
    ],
)
def test_an_option_that_cannot_be_used_is_one_line_and_status_2(
    trace: list[str], options: list[str], message: str
) -> None:
    result = CliRunner().invoke(replay, [*trace, *options])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_it_is_a_subcommand_of_the_suite() -> None:
    result = CliRunner().invoke(main, ["replay", "--help"])
    assert result.exit_code == 0
    assert "--openb-nodes" in result.stdout


def test_a_plot_without_its_package_names_the_extra(
    trace: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pygal", None)
    result = CliRunner().invoke(replay, [*trace, "--plot", str(tmp_path / "plot.svg")])
    assert result.exit_code == 2
    assert (
        "--plot needs a package: pip install '.[replay]' in kubesched's checkout" in result.output
    )
