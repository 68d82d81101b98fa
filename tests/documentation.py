"""A page of documentation: its blocks, and the files that it has its reader write.

`python -m tests.first_command` imports it without the packages of the tests.
"""

import re
from typing import NamedTuple

from tests.sources import ROOT

_BLOCK = re.compile(r"(?:`(\S+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fenced block; `name` is its file, if the text names one."""

    language: str
    name: str
    text: str


class Page:
    """A page of documentation, by its path in the repository."""

    def __init__(self, path: str) -> None:
        self.folder = (ROOT / path).parent
        self.text = (ROOT / path).read_text(encoding="utf-8")
        self.blocks = [Block(m[2], m[1] or "", m[3]) for m in _BLOCK.finditer(self.text)]

    @property
    def files(self) -> dict[str, str]:
        """The files that the page has its reader write."""
        return {block.name: block.text for block in self.blocks if block.name}

    def of(self, language: str) -> list[str]:
        """Return the blocks of a language without a file name."""
        blocks = (b for b in self.blocks if b.language == language and not b.name)
        return [block.text.strip() for block in blocks]
