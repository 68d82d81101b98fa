"""The origin of the program: its commit and the time of its installation."""

import os
from pathlib import Path

import pytest

from scheduler.metrics.installation import Installation

FROM_GIT = '{"url": "https://x", "vcs_info": {"vcs": "git", "commit_id": "0123abc"}}'


@pytest.mark.parametrize(
    ("origin", "commit"),
    [
        (FROM_GIT, "0123abc"),
        ('{"url": "file:///src", "dir_info": {}}', ""),
        ("no json", ""),
        (None, ""),
    ],
)
def test_the_commit_is_that_of_an_installation_from_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: str | None, commit: str
) -> None:
    folder = tmp_path / "kubesched-9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: kubesched\nVersion: 9\n", encoding="utf-8")
    if origin is not None:
        (folder / "direct_url.json").write_text(origin, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert Installation.find() == (commit, "")


def test_the_date_of_the_build_is_that_of_the_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kubesched-9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: kubesched\nVersion: 9\n", encoding="utf-8")
    (folder / "RECORD").touch()
    os.utime(folder / "RECORD", (0, 1795387450))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert Installation.find() == ("", "2026-11-22T22:44:10Z")
