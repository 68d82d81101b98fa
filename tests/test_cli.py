"""The command `kubesched` in this process, up to the moment at which it would schedule pods."""

import importlib.metadata
import json
import platform
from pathlib import Path

import pytest
import yaml

from scheduler import cli

MASTER = "--master=http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _log_of_pytest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leave pytest's handlers, and the path of modules, as they are."""
    monkeypatch.setattr(cli, "configure", lambda logs: None)
    monkeypatch.setattr(cli, "find_plugins_in_working_directory", lambda: None)
    monkeypatch.delenv("KUBECONFIG", raising=False)


def failure_of(caplog: pytest.LogCaptureFixture, *arguments: str) -> str:
    """Return the error with which the command fails."""
    with pytest.raises(SystemExit) as end:
        cli.run(args=[MASTER, *arguments])
    assert end.value.code == 1
    fields = caplog.records[-1].args
    assert isinstance(fields, dict)
    return str(fields["err"])


def test_the_raw_version_names_python(capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(args=["--version=raw"])
    own, python = importlib.metadata.version("kubesched"), platform.python_version()
    assert capsys.readouterr().out.strip() == (
        f'kubesched.Info{{Version:"{own}", GitVersion:"v1.36.3", '
        f'PythonVersion:"{platform.python_implementation()} {python}"}}'
    )


def test_a_policy_is_written_as_todays_configuration_with_what_differs(tmp_path: Path) -> None:
    policy, written = tmp_path / "policy.json", tmp_path / "config.yaml"
    priorities = [{"name": "EqualPriority", "weight": 2}]
    document = {"kind": "Policy", "apiVersion": "v1", "priorities": priorities}
    policy.write_text(json.dumps(document), encoding="utf-8")
    cli.run(args=[MASTER, f"--policy-config-file={policy}", f"--write-config-to={written}"])
    text = written.read_text(encoding="utf-8")
    assert "# - EqualPriority" in text
    assert yaml.safe_load(text)["kind"] == "KubeSchedulerConfiguration"


def test_files_that_cannot_be_written_are_named(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "nowhere" / "file"
    problem = f"open {path}: no such file or directory"
    assert failure_of(caplog, f"--write-config-to={path}") == problem
    assert failure_of(caplog, "--shadow", f"--shadow-log={path}") == problem
