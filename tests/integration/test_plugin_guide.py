"""Every plugin of docs/plugins.md is typed and passes its test, as in a folder of its author's."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documentation import Page
from tests.thoroughness import thorough_only

pytestmark = pytest.mark.slow

PAGE = Page("docs/plugins.md")
FILES = {name: text for name, text in PAGE.files.items() if name.endswith(".py")}
PLUGINS = [name.removesuffix(".py") for name in FILES if not name.startswith("test_")]
SETTINGS = "".join(block.text for block in PAGE.blocks if block.language == "ini")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(SETTINGS, encoding="utf-8")
    return tmp_path


def _run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_guide_has_seven_plugins_with_a_test_each() -> None:
    assert len(PLUGINS) == 7
    assert sorted(FILES) == sorted(
        [f"{name}.py" for name in PLUGINS] + [f"test_{name}.py" for name in PLUGINS]
    )


@thorough_only  # tests/typing_example.py is checked with all else
def test_all_are_typed(folder: Path) -> None:
    _run(folder, "mypy", "--strict", "--no-error-summary", *FILES)


def test_each_plugin_passes_its_test(folder: Path) -> None:
    printed = _run(folder, "pytest", "-v", "-p", "no:cacheprovider", "-W", "default")
    for plugin in PLUGINS:
        assert re.search(rf"^test_{plugin}\.py::\w+.* PASSED", printed, re.MULTILINE), plugin
