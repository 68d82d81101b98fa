"""Go's regular expressions in Python's: what differs is translated, what Go has not is refused.

RE2 knows no lookaround and no back-references; `$` matches at the very end only, `\\z` is the end,
POSIX classes may be used inside brackets, and `\\d`, `\\w`, `\\s` are ASCII.
"""

from __future__ import annotations

import functools
import re
from typing import Final

_TOKEN: Final = re.compile(
    r"\\Q.*?(?:\\E|$)|\\[pP]\{\^?\w+\}|\\[pP]\w|\\x\{[0-9A-Fa-f]+\}|\\.|\[:\^?\w+:\]"
    r"|\[\^?\]?|\]|\(\?[^:)]*[:)]?|[$^]|.",
    re.DOTALL,
)
_POSIX: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7F", "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F", "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~",
    "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip
#: Unicode classes, as near as Python's own can say them.
_UNICODE: Final = {"L": r"[^\W\d_]", "N": r"\d", "Lu": "[A-Z]", "Ll": "[a-z]", "Nd": r"\d"}
_LOOKAROUND: Final = ("(?=", "(?!", "(?<=", "(?<!")


class PatternError(ValueError):
    """The pattern is none of Go's; the message is what Go's compiler says, where that is known."""


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern for `search`. Raises PatternError."""
    translated: list[str] = []
    in_class = False
    is_unicode = False
    for match in _TOKEN.finditer(pattern):
        token = match.group()
        if in_class:
            translated.append(_in_class(token))
            in_class = token != "]"
            continue
        if token.startswith("[:"):
            translated.append(token)  # no class within a class, just these letters
        elif token.startswith("["):
            in_class = True
            translated.append(token.replace("]", r"\]"))
        elif token.startswith("\\"):
            is_unicode = is_unicode or token[1] in "pP"
            translated.append(_escaped(token))
        elif token == "$":
            translated.append(r"\Z")
        else:
            translated.append(_plain(token))
    try:
        return re.compile("".join(translated), 0 if is_unicode else re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"error parsing regexp: {error}: `{pattern}`") from error


def _in_class(token: str) -> str:
    if token.startswith("[:"):
        name = token.strip("[:]^")
        if name not in _POSIX or "^" in token:
            raise PatternError(f"error parsing regexp: invalid character class range: `{token}`")
        return _POSIX[name]
    if token.startswith("["):
        return token.replace("[", r"\[")
    if token[:2] in ("\\p", "\\P"):
        raise PatternError(f"a Unicode class within brackets is not understood: `{token}`")
    return token


def _escaped(token: str) -> str:
    if token == r"\z":
        return r"\Z"
    if token.startswith(r"\Q"):
        return re.escape(token[2:].removesuffix(r"\E"))
    if token.startswith(r"\x{"):
        return re.escape(chr(int(token[3:-1], 16)))
    if token[1] in "123456789" or token in (r"\Z", r"\G", r"\K", r"\k"):
        raise PatternError(f"error parsing regexp: invalid escape sequence: `{token}`")
    if token[1] in "pP":
        name = token[2:].strip("{}")
        if token[1] == "P" or name not in _UNICODE:
            raise PatternError(f"this Unicode class is not understood: `{token}`")
        return _UNICODE[name]
    return token


def _plain(token: str) -> str:
    if not token.startswith("(?"):
        return token
    if token.startswith(_LOOKAROUND):
        shown = token[:4] if token.startswith("(?<") else token[:3]
        raise PatternError(f"error parsing regexp: invalid or unsupported Perl syntax: `{shown}`")
    if token.startswith("(?<"):
        return f"(?P<{token[3:]}"
    return token.replace("U", "")
