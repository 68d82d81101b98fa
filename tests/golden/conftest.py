"""Golden scenarios: commands and what they print, in files that a person reviews.

A file is a list of blocks with a blank line between them. Lines that start with `#` are for the
reader. A block whose commands print nothing has no rule.

    # Why this is of interest.
    command argument key=value
    another command
    ----
    what they print

`pytest tests/golden --rewrite` replaces the recorded output with the new one. Read the diff, and
commit it only if you understand it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

_RULE = "----"


class Block(NamedTuple):
    """Comments and commands, and what stands below the rule."""

    lines: list[str]
    output: list[str]

    @property
    def commands(self) -> list[str]:
        return [line for line in self.lines if not line.startswith("#")]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", default=False, help="write golden files anew"
    )


def blocks_of(text: str) -> list[Block]:
    blocks = []
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.strip().splitlines()
        rule = lines.index(_RULE) if _RULE in lines else len(lines)
        blocks.append(Block(lines[:rule], lines[rule + 1 :]))
    return blocks


def text_of(blocks: list[Block]) -> str:
    paragraphs = (
        "\n".join((*lines, _RULE, *output) if output else lines) for lines, output in blocks
    )
    return "\n\n".join(paragraphs) + "\n"


@pytest.fixture
def play(request: pytest.FixtureRequest) -> Callable[[Path, Callable[[str], str]], None]:
    """Runs a golden file: hands each command to `run` and compares what it answers, line by line.

    Blank lines in an answer are dropped: they end a block.
    """
    rewrite = request.config.getoption("--rewrite", default=False)

    def play_file(path: Path, run: Callable[[str], str]) -> None:
        old = path.read_text(encoding="utf-8")
        blocks = []
        for block in blocks_of(old):
            answers = [run(command) for command in block.commands]
            output = [line for text in answers for line in text.splitlines() if line.strip()]
            blocks.append(Block(block.lines, output))
        new = text_of(blocks)
        if rewrite:
            path.write_text(new, encoding="utf-8")
        else:
            assert new.splitlines() == old.splitlines(), (
                f"{path.name} prints something else now: run `pytest tests/golden --rewrite`, "
                "read the diff, and commit it only if you understand it"
            )

    return play_file
