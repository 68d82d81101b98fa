"""Count words that make a text hard to read, where people read: docstrings, comments, names, texts.

    python -m tests.plain_words                        # the count of each package
    python -m tests.plain_words scheduler/queue README.md   # file:line of each hit in these paths

Counted are docstrings, comments, names of functions and classes, the texts of exceptions, log
messages and options' help, and markdown. Not counted: code blocks in markdown, other strings.
`test_house.py` records a maximum per package, which may only fall.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.sources import ROOT, files, nodes

#: Markdown beside the packages counts for this group.
TOP = "."
PACKAGES = ("scheduler", "fakeapi", "conformance", "tests")

#: Persons where there are functions, and phrases that hide the subject of a sentence.
WORDS = (
    r"likewise",
    r"nobody",
    r"somebody",
    r"whoever",
    r"whomever",
    r"(?:is|are|be|been|was|were) (?:not )?(?:told|asked)",
    r"tells?|telling",
    r"says?|saying",
    r"hears?|heard",
    r"minds?",
    r"what of",
    r"what is",
    r"what it is",
    r"knows? (?:of|nothing)",
    r"one that is",
    r"speaks? of",
    r"word of",
    r"in the eyes of",
    r"has its say",
    r"sees? to",
    r"makes? do",
    r"put up with",
    r"for its own good",
)
_WORDS = re.compile(rf"(?<![\w'-])(?:{'|'.join(WORDS)})(?![\w'-])", re.IGNORECASE)
#: A first line names its subject; it does not begin with a question or a pronoun.
_FIRST_WORD = re.compile(
    r"(?:What(?!-)|Which|Who|Whom|Whose|Whether|Where|How|Of|Is|Are"
    r"|Its?|They|Theirs?|Them|These|Those|That)\b"
)
#: A first line of the packages has a noun in place of these.
_FIRST_LINE = re.compile(
    r"(?<![\w'`-])(?:those|that of|what (?:it|they)|so (?:many|long)|that (?:long|far)"
    r"|the number of them|none does)(?![\w'-])",
    re.IGNORECASE,
)
_IN_COMMENT = re.compile(rf"#[^\n]*?(?<![\w'-])(?:{'|'.join(WORDS)})(?![\w'-])", re.IGNORECASE)
_QUOTED = re.compile(r"`[^`]*`|https?://\S+")
_LOGGERS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
#: Lists the words themselves.
_EXEMPT = {"tests/plain_words.py"}


class Hit(NamedTuple):
    """A hard word, and its place."""

    path: str
    line: int
    word: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word}"


def hits_in_package(package: str) -> list[Hit]:
    """Return the hits of one package, or of the markdown beside the packages for `TOP`."""
    return [hit for path in _files() if _group(path) == package for hit in hits_in_file(path)]


def hits_in_file(path: Path) -> list[Hit]:
    """Return the hits of one Python or markdown file, by line."""
    name = path.relative_to(ROOT).as_posix()
    if name in _EXEMPT:
        return []
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        hits = _markdown(text)
    else:
        hits = _python(text, nodes(path), is_test=_group(path) == "tests")
    return sorted(Hit(name, line, word) for line, word in hits)


def _files() -> list[Path]:
    return files("*.py", "*.md")


def _group(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[0] if len(parts) > 1 else TOP


def _in_text(text: str, first_line: int) -> Iterator[tuple[int, str]]:
    """Yield the hits of a text; what stands in backticks is code."""
    plain = _QUOTED.sub(lambda match: re.sub(r"[^\n]", "_", match[0]), text)
    for match in _WORDS.finditer(re.sub(r"\n", " ", plain)):
        yield first_line + plain.count("\n", 0, match.start()), match[0].lower()


def _markdown(text: str) -> Iterator[tuple[int, str]]:
    without_code = re.sub(
        r"^```.*?^```", lambda match: "\n" * match[0].count("\n"), text, flags=re.S | re.M
    )
    yield from _in_text(without_code, 1)


def _python(text: str, module: Iterable[ast.AST], *, is_test: bool) -> Iterator[tuple[int, str]]:
    if _IN_COMMENT.search(text):  # reading tokens is slow, and few files need it
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield from _in_text(token.string, token.start[0])
    for node in module:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstring(node, is_test=is_test)
            if not isinstance(node, ast.Module):
                yield from _in_text(node.name.strip("_").replace("_", " "), node.lineno)
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield from _strings(node.exc)
        elif isinstance(node, ast.Call):
            yield from _call(node)


def _docstring(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, *, is_test: bool
) -> Iterator[tuple[int, str]]:
    text = ast.get_docstring(node, clean=False)
    if text is None:
        return
    line = node.body[0].lineno
    yield from _in_text(text, line)
    if match := _FIRST_WORD.match(text.lstrip()):
        yield line, f"first line begins with {match[0]}"
    if not is_test and (match := _FIRST_LINE.search(text.split("\n", 1)[0])):
        yield line, f"first line has {match[0]}"


def _call(node: ast.Call) -> Iterator[tuple[int, str]]:
    """Yield the hits of log messages and of options' help."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in _LOGGERS:
        receiver = ast.unparse(node.func.value)
        if "log" in receiver.lower():
            for argument in node.args:
                yield from _strings(argument)
    for keyword in node.keywords:
        if keyword.arg == "help":
            yield from _strings(keyword.value)


def _strings(node: ast.expr) -> Iterator[tuple[int, str]]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield from _in_text(inner.value, inner.lineno)


def main(arguments: list[str]) -> None:
    """Print the counts of all packages, or the hits in the paths given."""
    if not arguments:
        for package in (*PACKAGES, TOP):
            sys.stdout.write(f"{len(hits_in_package(package)):6} {package}\n")
        return
    wanted = [Path(argument).resolve() for argument in arguments]
    hits = [
        hit
        for path in _files()
        if any(path == root or root in path.parents for root in wanted)
        for hit in hits_in_file(path)
    ]
    sys.stdout.write("".join(f"{hit}\n" for hit in hits) + f"{len(hits)} in all\n")


if __name__ == "__main__":
    main(sys.argv[1:])
