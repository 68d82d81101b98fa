"""sprig's functions on strings. Source: strings.go, regex.go, crypto.go of sprig v3.3.0."""

from __future__ import annotations

import base64
import binascii
import hashlib
import posixpath
import re
import zlib
from typing import TYPE_CHECKING, Final

from fakeapi.actors.templates.functions import FunctionError
from fakeapi.types import go_patterns
from fakeapi.types.gotext import plain, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TEXT_FUNCTIONS", "text_of", "texts_of"]

_LENGTH_MAX: Final = 1_000_000


def text_of(value: object) -> str:
    """A value as sprig turns it into a string."""
    return plain(value)


def texts_of(value: object) -> list[object]:
    """A list as strings without what is nil; anything else as a list of one."""
    if value is None:
        return []
    if isinstance(value, list):
        return [text_of(item) for item in value if item is not None]
    return [text_of(value)]


def _quote(*values: object) -> str:
    return " ".join(quoted(text_of(value)) for value in values if value is not None)


def _squote(*values: object) -> str:
    return " ".join(f"'{plain(value)}'" for value in values if value is not None)


def _cat(*values: object) -> str:
    return " ".join(plain(value) for value in values if value is not None)


def _indent(spaces: int, value: str) -> str:
    pad = " " * spaces
    return pad + value.replace("\n", "\n" + pad)


def _nindent(spaces: int, value: str) -> str:
    return "\n" + _indent(spaces, value)


def _repeat(count: int, value: str) -> str:
    if count < 0:
        raise FunctionError("strings: negative Repeat count")
    if count * len(value) > _LENGTH_MAX:
        raise FunctionError(f"more than {_LENGTH_MAX} characters")
    return value * count


def _trunc(length: int, value: str) -> str:
    raw = value.encode()
    cut = raw[length:] if length < 0 < len(raw) + length else raw
    if 0 <= length < len(raw):
        cut = raw[:length]
    return cut.decode(errors="replace")


def _substr(start: int, end: int, value: str) -> str:
    raw = value.encode()
    if start < 0:
        return raw[:end].decode(errors="replace")
    cut = raw[start:] if end < 0 or end > len(raw) else raw[start:end]
    return cut.decode(errors="replace")


def _abbrev(width: int, value: str) -> str:
    return value if width < 4 or len(value) <= width else value[: width - 3] + "..."


def _trim(value: str) -> str:
    return value.strip()


def _trim_all(letters: str, value: str) -> str:
    return value.strip(letters)


def _trim_prefix(prefix: str, value: str) -> str:
    return value.removeprefix(prefix)


def _trim_suffix(suffix: str, value: str) -> str:
    return value.removesuffix(suffix)


def _title(value: str) -> str:
    return re.sub(r"(?<!\w)\w", lambda found: found[0].upper(), value)


def _untitle(value: str) -> str:
    return re.sub(r"(?<!\S)\S", lambda found: found[0].lower(), value)


def _initials(value: str) -> str:
    return "".join(word[0] for word in value.split())


def _words(value: str) -> list[str]:
    apart = re.sub(r"([a-z0-9])([A-Z])|([A-Z])(?=[A-Z][a-z])", r"\1\3 \2", value)
    return [word for word in re.split(r"[\s_\-.]+", apart) if word]


def _snake_case(value: str) -> str:
    return "_".join(_words(value)).lower()


def _kebab_case(value: str) -> str:
    return "-".join(_words(value)).lower()


def _camel_case(value: str) -> str:
    return "".join(word[0].upper() + word[1:] for word in re.split(r"[\s_\-]+", value) if word)


def _no_space(value: str) -> str:
    return "".join(value.split())


def _upper(value: str) -> str:
    return value.upper()


def _lower(value: str) -> str:
    return value.lower()


def _swap_case(value: str) -> str:
    return value.swapcase()


def _contains(part: str, value: str) -> bool:
    return part in value


def _has_prefix(prefix: str, value: str) -> bool:
    return value.startswith(prefix)


def _has_suffix(suffix: str, value: str) -> bool:
    return value.endswith(suffix)


def _replace(old: str, new: str, value: str) -> str:
    return value.replace(old, new)


def _plural(one: str, many: str, count: int) -> str:
    return one if count == 1 else many


def _join(separator: str, value: object) -> str:
    return separator.join(text_of(item) for item in texts_of(value))


def _split_list(separator: str, value: str) -> list[object]:
    return list(value.split(separator)) if separator else list(value)


def _split(separator: str, value: str) -> dict[str, object]:
    return {f"_{index}": part for index, part in enumerate(_split_list(separator, value))}


def _splitn(separator: str, count: int, value: str) -> dict[str, object]:
    parts = value.split(separator, count - 1) if count > 0 else [][:count]
    return {f"_{index}": part for index, part in enumerate(parts)}


def _pattern(pattern: str) -> re.Pattern[str]:
    try:
        return go_patterns.compiled(pattern)
    except go_patterns.PatternError as error:
        raise FunctionError(str(error)) from error


def _regex_match(pattern: str, value: str) -> bool:
    return _pattern(pattern).search(value) is not None


def _regex_find(pattern: str, value: str) -> str:
    found = _pattern(pattern).search(value)
    return found[0] if found else ""


def _regex_find_all(pattern: str, value: str, count: int) -> list[object]:
    found: list[object] = [one[0] for one in _pattern(pattern).finditer(value)]
    return found if count < 0 else found[:count]


def _regex_replace(pattern: str, value: str, new: str) -> str:
    def expanded(found: re.Match[str]) -> str:
        def group(name: re.Match[str]) -> str:
            if name[0] == "$$":
                return "$"
            key = name[1] or name[2]
            try:
                return str(found[int(key) if key.isdecimal() else key] or "")
            except IndexError:
                return ""

        return re.sub(r"\$\$|\$(?:\{(\w+)\}|(\w+))", group, new)

    return _pattern(pattern).sub(expanded, value)


def _regex_replace_literal(pattern: str, value: str, new: str) -> str:
    return _pattern(pattern).sub(lambda _: new, value)


def _regex_split(pattern: str, value: str, count: int) -> list[object]:
    found = _pattern(pattern)
    if count == 0:
        return []
    parts: list[object] = []
    position = 0
    for one in found.finditer(value):
        if 0 < count <= len(parts) + 1:
            break
        parts.append(value[position : one.start()])
        position = one.end()
    return [*parts, value[position:]]


def _regex_quote(value: str) -> str:
    return re.sub(r"[\\.+*?()|\[\]{}^$]", r"\\\g<0>", value)


def _decoded(decode: Callable[[str], bytes], value: str) -> str:
    try:
        return decode(value).decode(errors="replace")
    except (binascii.Error, ValueError) as error:
        return str(error)


def _b64enc(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def _b64dec(value: str) -> str:
    return _decoded(lambda one: base64.b64decode(one, validate=True), value)


def _b32enc(value: str) -> str:
    return base64.b32encode(value.encode()).decode()


def _b32dec(value: str) -> str:
    return _decoded(base64.b32decode, value)


def _sha1(value: str) -> str:
    return hashlib.sha1(value.encode(), usedforsecurity=False).hexdigest()


def _sha256(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()


def _sha512(value: str) -> str:
    return hashlib.sha512(value.encode()).hexdigest()


def _adler32(value: str) -> str:
    return str(zlib.adler32(value.encode()))


def _base(value: str) -> str:
    return posixpath.basename(value.rstrip("/")) or ("/" if value else ".")


def _dir(value: str) -> str:
    return _clean(value[: value.rfind("/") + 1])


def _clean(value: str) -> str:
    cleaned = posixpath.normpath(value)
    return cleaned[1:] if cleaned.startswith("//") else cleaned


def _ext(value: str) -> str:
    last = value.rpartition("/")[2]
    return last[last.rindex(".") :] if "." in last else ""


def _is_abs(value: str) -> bool:
    return value.startswith("/")


TEXT_FUNCTIONS: Final[dict[str, Callable[..., object]]] = {
    "abbrev": _abbrev, "adler32sum": _adler32, "b32dec": _b32dec, "b32enc": _b32enc,
    "b64dec": _b64dec, "b64enc": _b64enc, "base": _base, "camelcase": _camel_case, "cat": _cat,
    "clean": _clean, "contains": _contains, "dir": _dir, "ext": _ext, "hasPrefix": _has_prefix,
    "hasSuffix": _has_suffix, "indent": _indent, "initials": _initials, "isAbs": _is_abs,
    "join": _join, "kebabcase": _kebab_case, "lower": _lower, "mustRegexFind": _regex_find,
    "mustRegexFindAll": _regex_find_all, "mustRegexMatch": _regex_match,
    "mustRegexReplaceAll": _regex_replace, "mustRegexReplaceAllLiteral": _regex_replace_literal,
    "mustRegexSplit": _regex_split, "nindent": _nindent, "nospace": _no_space, "osBase": _base,
    "osClean": _clean, "osDir": _dir, "osExt": _ext, "osIsAbs": _is_abs, "plural": _plural,
    "quote": _quote, "regexFind": _regex_find, "regexFindAll": _regex_find_all,
    "regexMatch": _regex_match, "regexQuoteMeta": _regex_quote, "regexReplaceAll": _regex_replace,
    "regexReplaceAllLiteral": _regex_replace_literal, "regexSplit": _regex_split,
    "repeat": _repeat, "replace": _replace, "sha1sum": _sha1, "sha256sum": _sha256,
    "sha512sum": _sha512, "snakecase": _snake_case, "split": _split, "splitList": _split_list,
    "splitn": _splitn, "squote": _squote, "substr": _substr, "swapcase": _swap_case,
    "title": _title, "toString": text_of, "toStrings": texts_of, "trim": _trim,
    "trimAll": _trim_all, "trimPrefix": _trim_prefix, "trimSuffix": _trim_suffix,
    "trimall": _trim_all, "trunc": _trunc, "untitle": _untitle, "upper": _upper,
}  # fmt: skip
