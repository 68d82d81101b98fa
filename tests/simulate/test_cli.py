"""The command group of `kubesched-simulate`."""

from click.testing import CliRunner

from scheduler.simulate.cli import main


def test_help_has_a_line_for_each_sub_command() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for name in ("place", "drain", "lose", "capacity", "grow", "change", "record", "import", "run"):
        assert f"\n  {name} " in result.output
