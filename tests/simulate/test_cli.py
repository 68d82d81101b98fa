"""The command group of `kubesched-simulate`."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.simulate.cli import main
from tests.simulate.what_if import node, write


def test_help_has_a_line_for_each_sub_command() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for name in ("place", "drain", "lose", "capacity", "grow", "change", "record", "import", "run"):
        assert f"\n  {name} " in result.output


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("drain",), "give the names of nodes, or --selector"),
        (("drain", "n1", "-l", "a=b"), "give the names of nodes, or --selector"),
        (("lose",), "give nodes or labels of nodes, or --each"),
        (("lose", "n1", "--each", "zone"), "give nodes or labels of nodes, or --each"),
        (("drain", "n1", "--feature-gates", "Nope=true"), "--feature-gates: unrecognized feature"),
    ],
)
def test_arguments_that_ask_no_question_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], error: str
) -> None:
    manifests = write(tmp_path / "cluster.yaml", node("n1"))
    result = CliRunner().invoke(main, [*arguments, "--manifests", str(manifests)])
    assert result.exit_code == 2
    assert error in result.output
