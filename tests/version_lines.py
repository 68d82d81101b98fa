"""Count the lines that versions of kube-scheduler added in `scheduler/`.

`python -m tests.version_lines` prints, for other versions than 1.36 and for the gates of 1.36 that
were refused before, the lines that the commits below added, less those that they removed. Tests and
tables in JSON do not count. Lines of code are lines without blank lines, comments and docstrings.
A new commit for a version is added to its list.
"""

import ast
import io
import subprocess
import tokenize
from typing import Final

COMMITS: Final = {
    "versions": (
        "5ef67abe e0c4ea3f d381f748 0eca4b38 acdf9fb2 998dc161 c410e886 032ba25e 45f3d5a7 d7302c61 "
        "7eb95d2e 2ec752c6 b7a0372d 8b877f37 9e94e4bf 116a7f3e 1c973fb7 6b53c206 425602f1 21d905da "
        "7ddce043 4a35c3cf 82111d50 b26630e1 adbee48f e430846f b96f41ce d753b007 "
        "cc5b7df3 956bbf32 a285e1f6 26690842 56c8201f 988107e0 249bb671 ccaf5e08 1a078d7e 0a2a967e "
        "a10a6d09 a4c7e4b3 402e44ad 84099640 b8f4fbdf e6909b29 8a531388 d88fbc32 a27e522c 1ca0bb1d "
        "b8116aa7 b181a940 7c531efe 6e06b0df 97c0e424 cf7a3ee1 06dc0ffc fc7c5243 5b393e6c f78d139f "
        "c0ad6315 0504520e 90f7f59c ef0bf74f da30620e 64f9635e 7ed83981 691ba8df e7e7d68a ff4f2272 "
        "228606fd 76f74b1c 3e683e9b 58ba2cca 04e46994 f0b70612 5eff3d8f 08833374 357306a6 5f38453e "
        "29dc73b7 3968933a 7d7ea77c bbbb9e54 fa0debe5 43a5d613 5ee5ad84 e7d81b94 8d71801c ba603eb2 "
        "148aa41c ee64e47f 66cb9b5e 28faa380 b3658e6c 15d1c0e8 64d448b0 7899e130 972ea207 9d233660 "
        "15864724 97b1a895 d26d8fca"
    ),
    "gates of 1.36": (
        "d37d2935 797d7cb1 3d294ad6 9be0f0d2 67c41a41 ee5e557f 34b06221 312d9946 37a39899 "
        "5046aebc 956d1195 1cfbcedc 6f588902 a628bc30"
    ),
}
_LAYOUT: Final = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def lines_of_code(text: str) -> int:
    """Return the number of lines of a module without blank lines, comments and docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            first = node.body[0]
            lines.difference_update(range(first.lineno, (first.end_lineno or 0) + 1))
    return len(lines)


def added(commit: str) -> tuple[int, int]:
    """Return the lines that a commit added, less those that it removed, and the lines of code."""
    files = _git("diff-tree", "--no-commit-id", "-r", "--name-only", commit, "--", "scheduler/*.py")
    lines = code = 0
    for file in files.split():
        before, after = (_git("show", f"{at}:{file}") for at in (f"{commit}^", commit))
        lines += after.count("\n") - before.count("\n")
        code += lines_of_code(after) - lines_of_code(before)
    return lines, code


def _git(*arguments: str) -> str:
    """Return the output of git; empty if it fails, as for a file that is not there."""
    command = ("git", *arguments)
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False).stdout


def main() -> None:
    for name, commits in COMMITS.items():
        lines, code = map(sum, zip(*map(added, commits.split()), strict=True))
        print(f"{name}: {lines:,} lines, {code:,} of them code")


if __name__ == "__main__":
    main()
