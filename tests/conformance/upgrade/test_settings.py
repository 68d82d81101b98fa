"""Settings that a later version refuses, with a scheduler whose messages the test knows."""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import InputError
from conformance.upgrade import settings
from conformance.upgrade.settings import Refusal, Settings, refusals

Done = subprocess.CompletedProcess[str]


def refuses(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str, Sequence[str]], str]) -> None:
    """Let the scheduler end with the message for a version and its flags, if there is one."""

    def run(command: Sequence[str], **_: Any) -> Done:
        (version,) = (w.partition("=")[2] for w in command if w.startswith("--scheduler-version"))
        text = answer(version, command)
        return Done(command, int(bool(text)), "", f"I1127 starting\n{text}\n" if text else "")

    monkeypatch.setattr(subprocess, "run", run)


def test_a_command_line_has_flags_gates_and_metrics_one_by_one(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("rate(scheduler_e2e_seconds_bucket[5m]) up", encoding="utf-8")
    command = (
        "kube-scheduler --v=2 --feature-gates=A=true,B=false, --kubeconfig=/etc/k "
        "--tls-cert-file=/etc/c --authorization-kubeconfig=/etc/k"
    )
    assert Settings.of(command, None, [rules]) == Settings(
        flags=("--v=2", "--feature-gates=A=true", "--feature-gates=B=false"),
        metrics=frozenset({"scheduler_e2e_seconds"}),
    )


def test_a_command_line_with_an_open_quotation_is_bad_input() -> None:
    with pytest.raises(InputError, match="--scheduler-command: No closing quotation"):
        Settings.of("kube-scheduler '--v=2", None, ())


def test_only_what_the_first_version_accepts_stops_working(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Version 1.36 refuses a gate that 1.35 refuses too, and a flag; 1.37 another gate."""
    refused = {
        "1.35": ["unrecognized feature gate: Old"],
        "1.36": ["unrecognized feature gate: Old", "unknown flag: --gone"],
        "1.37": ["unknown flag: --gone", "cannot set feature gate New to false, it is locked"],
    }

    def answer(version: str, command: Sequence[str]) -> str:
        words = " ".join(command)
        texts = refused[version]
        return next((each for each in texts if named_in(each) in words), "")

    def named_in(text: str) -> str:
        return next(word for word in ("Old", "New", "--gone") if word in text)

    refuses(monkeypatch, answer)
    flags = ("--gone=1", "--feature-gates=Old=true", "--feature-gates=New=false", "--v=2")
    assert refusals(Settings(flags=flags), ("1.35", "1.36", "1.37")) == [
        Refusal("1.36", "--gone=1", "unknown flag: --gone"),
        Refusal(
            "1.37",
            "--feature-gates=New=false",
            "cannot set feature gate New to false, it is locked",
        ),
    ]


@pytest.mark.parametrize(
    ("config", "setting"), [(None, "the flags"), (Path("c.yaml"), "the configuration")]
)
def test_a_message_about_no_flag_is_about_the_rest(
    config: Path | None, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'E1127 server.go:9] "command failed" err="profiles[0]: \\"x\\" is unknown"'
    refuses(monkeypatch, lambda version, _: text if version == "1.37" else "")
    assert refusals(Settings(flags=("--v=2",), config=config), ("1.36", "1.37")) == [
        Refusal("1.37", setting, 'profiles[0]: "x" is unknown')
    ]


def test_a_scheduler_that_does_not_end_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: Sequence[str], *, timeout: float, **_: Any) -> Done:
        raise subprocess.TimeoutExpired(list(command), timeout)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(settings, "_SCHEDULER", ("scheduler",))
    with pytest.raises(InputError, match=r"scheduler --v=2 .*: no answer in 60 s"):
        refusals(Settings(flags=("--v=2",)), ("1.36", "1.37"))
