"""The end of a killed run: its processes end, and its folder goes."""

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from conformance.run import reaper


def test_processes_end_and_the_folder_goes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "scheduler").mkdir(parents=True)
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        (folder / "scheduler" / "1.pid").write_text(str(process.pid), encoding="utf-8")
        # A file that is being written, and a process that has ended.
        (folder / "2.pid").touch()
        (folder / "3.pid").write_text(str(2**22 + 1), encoding="utf-8")
        reaper.clean_up(folder)
    assert process.returncode == -signal.SIGKILL
    assert not folder.exists()


def test_a_folder_into_which_a_process_writes_is_removed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    remove, tries = shutil.rmtree, []

    def fails_first(path: Path, *, ignore_errors: bool) -> None:
        tries.append(path)
        if len(tries) > 1:
            remove(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", fails_first)
    monkeypatch.setattr(reaper, "_PAUSE_SECONDS", 0.0)
    reaper.clean_up(folder)
    assert tries == [folder, folder]
    assert not folder.exists()


def test_a_folder_that_stays_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    monkeypatch.setattr(reaper, "_PAUSE_SECONDS", 0.0)
    reaper.clean_up(tmp_path)
    assert tmp_path.exists()
