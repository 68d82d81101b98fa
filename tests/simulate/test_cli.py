"""The command group of `kubesched-simulate`."""

from click.testing import CliRunner

from scheduler.simulate.cli import main


def test_help_imports_no_sub_command() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert "Nothing is ever written to a cluster" in result.output
