"""The files of the project, and the syntax trees of those in Python."""

import ast
import functools
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent


def files(*patterns: str) -> list[Path]:
    """Return the files that git tracks or would add; without git (a tarball), all."""
    command = ["git", "ls-files", "-co", "--exclude-standard", *patterns]
    try:
        listed = subprocess.run(
            command, cwd=ROOT, capture_output=True, check=True, encoding="utf-8"
        ).stdout.split("\n")
        paths = {ROOT / name for name in listed if name}
    except (OSError, subprocess.CalledProcessError):
        paths = {path for pattern in patterns for path in ROOT.rglob(pattern)}
    return sorted(path for path in paths if path.exists())


@functools.cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file, parsed once."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's syntax tree, in the order of `ast.walk`."""
    return tuple(ast.walk(tree(path)))
