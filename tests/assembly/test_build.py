"""The parts of a scheduler: the program's own labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scheduler.assembly.build import installed_commit

if TYPE_CHECKING:
    from pathlib import Path

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
    assert installed_commit() == commit
