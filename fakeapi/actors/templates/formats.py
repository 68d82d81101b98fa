"""Go's `printf` for values of templates. Source: fmt of Go 1.26."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

from fakeapi.actors.templates.values import MISSING, type_name
from fakeapi.types.gotext import number as float_text
from fakeapi.types.gotext import plain, quoted, source

if TYPE_CHECKING:
    from collections.abc import Callable

_VERB: Final = re.compile(r"%([-+# 0]*)(\*|\d+)?(?:\.(\*|\d*))?(.)?", re.DOTALL)
_WIDTH_MAX: Final = 1_000_000


def sprint(values: tuple[object, ...]) -> str:
    """Join the values, with a space between two that are not strings."""
    parts: list[str] = []
    for index, value in enumerate(values):
        if index and not (_is_text(values[index - 1]) or _is_text(value)):
            parts.append(" ")
        parts.append(plain(value))
    return "".join(parts)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def sprintln(values: tuple[object, ...]) -> str:
    """Join the values with spaces, and end the line."""
    return " ".join(plain(value) for value in values) + "\n"


def sprintf(template: str, values: tuple[object, ...]) -> str:
    """Format the values; errors are part of the result, as in Go."""
    rest = list(values)

    def replaced(found: re.Match[str]) -> str:
        flags, width, precision, verb = found.groups()
        if verb == "%":
            return "%"
        if verb is None:
            return "%!(NOVERB)"
        asked = _Asked(flags, _size(width, rest), _size(precision, rest), verb)
        if precision == "":
            asked = dataclasses.replace(asked, precision=0)
        if not rest:
            return f"%!{verb}(MISSING)"
        return _formatted(asked, rest.pop(0))

    text = _VERB.sub(replaced, template)
    if rest:
        extra = ", ".join(
            "<nil>" if one is None else f"{type_name(one)}={plain(one)}" for one in rest
        )
        text += f"%!(EXTRA {extra})"
    return text


@dataclasses.dataclass(frozen=True, slots=True)
class _Asked:
    """One verb with its flags, width and precision."""

    flags: str
    width: int | None
    precision: int | None
    verb: str


def _size(said: str | None, rest: list[object]) -> int | None:
    if said == "*":
        taken = rest.pop(0) if rest else None
        return min(taken, _WIDTH_MAX) if isinstance(taken, int) else None
    return min(int(said), _WIDTH_MAX) if said else None


def _formatted(asked: _Asked, value: object) -> str:
    if asked.verb == "T":
        return _padded(asked, type_name(value))
    if value is None or value is MISSING:
        known = asked.verb == "v"
        return _padded(asked, "<nil>") if known else f"%!{asked.verb}(<nil>)"
    if asked.verb == "v" and "#" in asked.flags:
        return _padded(asked, source(value))
    if isinstance(value, list):
        inner = dataclasses.replace(asked, width=None) if asked.verb == "v" else asked
        shown = f"[{' '.join(_formatted(inner, one) for one in value)}]"
        return _padded(asked, shown) if asked.verb == "v" else shown
    if isinstance(value, dict):
        pairs = (f"{_formatted(asked, key)}:{_formatted(asked, value[key])}" for key in value)
        return f"map[{' '.join(sorted(pairs))}]"
    verbs = _verbs_of(value)
    if asked.verb not in verbs:
        return f"%!{asked.verb}({type_name(value)}={plain(value)})"
    return _padded(asked, verbs[asked.verb](asked, value), is_number=not _is_text(value))


def _padded(asked: _Asked, text: str, *, is_number: bool = False) -> str:
    width = asked.width or 0
    if "-" in asked.flags:
        return text.ljust(width)
    if "0" in asked.flags and (is_number or asked.verb in "sq"):
        sign = text[:1] if is_number and text[:1] in ("+", "-", " ") else ""
        return sign + text[len(sign) :].rjust(width - len(sign), "0")
    return text.rjust(width)


def _verbs_of(value: object) -> dict[str, Callable[[_Asked, object], str]]:
    if isinstance(value, bool):
        return {"v": lambda _, one: plain(one), "t": lambda _, one: plain(one)}
    if isinstance(value, int):
        return _INTEGER
    if isinstance(value, float):
        return dict.fromkeys("vgGeEfF", _float)
    return _TEXT


def _text(asked: _Asked, value: object) -> str:
    found = str(value)
    return found if asked.precision is None else found[: asked.precision]


def _quoted(asked: _Asked, value: object) -> str:
    found = _text(asked, value)
    return f"`{found}`" if "#" in asked.flags and "`" not in found else quoted(found)


def _hex(asked: _Asked, value: object) -> str:
    raw = str(value).encode()
    found = raw.hex(" ") if " " in asked.flags else raw.hex()
    return found.upper() if asked.verb == "X" else found


_TEXT: Final[dict[str, Callable[[_Asked, object], str]]] = {
    "v": _text, "s": _text, "q": _quoted, "x": _hex, "X": _hex,
}  # fmt: skip


def _integer(asked: _Asked, value: object) -> str:
    number = value if isinstance(value, int) else 0
    forms = {"d": "d", "v": "d", "x": "x", "X": "X", "o": "o", "b": "b", "O": "o"}
    digits = format(abs(number), forms[asked.verb])
    digits = digits.rjust(asked.precision or 0, "0")
    prefixes = {"x": "0x", "X": "0X", "o": "0", "b": "0b"} if "#" in asked.flags else {}
    prefix = "0o" if asked.verb == "O" else prefixes.get(asked.verb, "")
    return _sign(asked, number) + prefix + digits


def _sign(asked: _Asked, number: float) -> str:
    if number < 0:
        return "-"
    return "+" if "+" in asked.flags else " " if " " in asked.flags else ""


def _character(asked: _Asked, value: object) -> str:
    code = value if isinstance(value, int) and 0 <= value < 0x110000 else 0xFFFD
    if asked.verb == "U":
        return f"U+{code:04X}"
    return chr(code) if asked.verb == "c" else f"'{chr(code)}'"


_INTEGER: Final[dict[str, Callable[[_Asked, object], str]]] = {
    **dict.fromkeys("vdxXobO", _integer), **dict.fromkeys("cqU", _character),
}  # fmt: skip


def _float(asked: _Asked, value: object) -> str:
    number = value if isinstance(value, float) else 0.0
    if asked.verb in "vgG" and asked.precision is None:
        shown = float_text(abs(number))
        shown = shown.upper() if asked.verb == "G" else shown
    else:
        form = "g" if asked.verb == "v" else asked.verb
        precision = 6 if asked.precision is None else asked.precision
        shown = format(abs(number), f".{precision}{form}")
    return _sign(asked, number) + shown
