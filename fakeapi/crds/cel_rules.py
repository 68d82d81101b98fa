"""Rules in CEL (x-kubernetes-validations), evaluated with the packages of `kubesched[cel]`.

They are common-expression-language, bindings of a CEL interpreter in Rust, and google-re2. Without
them rules are stored and not evaluated, and the writer of the definition is warned.

Differences from upstream: types are checked when a rule is evaluated, not when a definition is
created; costs are not limited; optional values (`self.?x`) and the libraries url, quantity, ip,
cidr, semver and format are missing. A rule that needs one of these is not evaluated, and the writer
of the definition is warned.

Source: apiextensions-apiserver pkg/apiserver/schema/cel and apiserver pkg/cel of v0.36.3.
"""

from __future__ import annotations

import datetime
import functools
import importlib.util
import ipaddress
import itertools
import re
from typing import TYPE_CHECKING, Any, Final

from fakeapi.crds import formats, patterns
from fakeapi.crds.pruning import child_path, items_of
from fakeapi.types.errors import OMITTED, FieldError, invalid
from fakeapi.types.objects import Json, mapping, mappings, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fakeapi.crds.schema_validation import Correlated

RULES: Final = "x-kubernetes-validations"
_BLOCKING: Final = frozenset({
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
    "FieldValueTypeInvalid",
})  # fmt: skip
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)
_IDENTITY: Final = ("apiVersion", "kind", "metadata")
_RESERVED: Final = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
    "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_STANDARD: Final = frozenset({
    "size", "contains", "startsWith", "endsWith", "matches", "has", "int", "uint", "double",
    "string", "bytes", "bool", "type", "dyn", "duration", "timestamp", "getFullYear", "getMonth",
    "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes",
    "getSeconds", "getMilliseconds",
})  # fmt: skip
_STRING: Final = re.compile(r'"{3}.*?"{3}|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', re.DOTALL)
_OPTIONAL_SYNTAX = re.compile(r"\.\?|\[\?").search


@functools.cache
def is_available() -> bool:
    """True if the packages of `kubesched[cel]` are installed."""
    return importlib.util.find_spec("cel") is not None and patterns.is_available()


def blocks(errors: list[FieldError]) -> list[FieldError]:
    """Return the error that replaces the rules' where the object is too wrong to evaluate them."""
    if any(error.reason in _BLOCKING for error in errors):
        return [invalid("<nil>", None, _NOT_CHECKED)]
    return []


class _Program:
    """A compiled expression."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self.uses_old = "oldSelf" in compiled.variables()

    def result(self, value: object, old: object) -> object:
        """Evaluate the expression; raises the interpreter's exceptions."""
        context = _library()
        context.update({"self": value, "oldSelf": old})
        return self._compiled.execute(context)


class _SyntaxError(str):
    """The interpreter's error for an expression that is not CEL."""

    __slots__ = ()


@functools.lru_cache(maxsize=4096)
def _program(expression: str) -> _Program | str:
    """Compile an expression; return the reason if it cannot be evaluated."""
    import cel

    if _OPTIONAL_SYNTAX(_STRING.sub("''", expression)):
        return "optional values are not known"
    try:
        compiled = cel.compile(expression)
    except ValueError as error:
        return _SyntaxError(error)
    named = {name for name in compiled.functions() if re.fullmatch(r"\w+", name) and name[0] != "_"}
    unknown = sorted(named - _STANDARD - _FUNCTIONS.keys())
    return f"{', '.join(unknown)}: not known" if unknown else _Program(compiled)


def problem(expression: str) -> str:
    """Return the error of an expression that is not CEL, else an empty string."""
    found = _program(expression.strip()) if is_available() else ""
    return found if isinstance(found, _SyntaxError) else ""


def why_not_evaluated(expression: str) -> str:
    """Return the reason an expression cannot be evaluated, else an empty string."""
    if not is_available():
        return "needs pip install 'kubesched[cel]'"
    found = _program(expression.strip())
    return found if isinstance(found, str) else ""


def result_of(expression: str, value: object) -> object:
    """Evaluate an expression with the value as `self`; raises the interpreter's exceptions."""
    found = _program(expression.strip())
    return found if isinstance(found, str) else found.result(value, None)


def not_evaluated(node: Json) -> Iterator[str]:
    """Return the rules of this node that are not evaluated, with the reasons."""
    for rule in mappings(node.get(RULES)):
        expression = text(rule.get("rule")).strip()
        if why := why_not_evaluated(expression):
            yield f"{expression}: {why}"


def evaluate(
    node: Json, value: object, old: Correlated | None, path: str = "", *, is_root: bool = True
) -> Iterator[FieldError]:
    """Return the errors of all rules of a schema, for a value and its old value."""
    if value is None:
        return
    yield from _own_rules(node, value, old, path, is_root=is_root)
    if isinstance(value, dict):
        fields, additional = mapping(node.get("properties")), node.get("additionalProperties")
        for key, item in value.items():
            inner, where = fields.get(key), child_path(path, key)
            if inner is None and isinstance(additional, dict):
                inner, where = additional, f"{path}[{key}]"
            if isinstance(inner, dict):
                before = old.field(key) if old is not None else None
                yield from evaluate(inner, item, before, where, is_root=False)
    elif isinstance(value, list) and (items := items_of(node)) is not None:
        for index, item in enumerate(value):
            before = old.element(item) if old is not None else None
            yield from evaluate(items, item, before, f"{path}[{index}]", is_root=False)


def _own_rules(
    node: Json, value: object, old: Correlated | None, path: str, *, is_root: bool
) -> Iterator[FieldError]:
    rules = mappings(node.get(RULES))
    if not rules:
        return
    shown = _as_cel(node, value, is_root=is_root)
    has_old = old is not None and old.value is not None
    shown_old = _as_cel(node, old.value, is_root=is_root) if old is not None else None
    for rule in rules:
        program = _program(text(rule.get("rule")).strip())
        if isinstance(program, str) or (program.uses_old and not has_old):
            continue
        where = path or "<nil>"
        try:
            holds = program.result(shown, shown_old)
        except Exception as error:
            why = f"{_runtime_problem(error)} evaluating rule: {_title(rule)}"
            yield invalid(where, text(node.get("type")), why)
            continue
        if holds is True:
            continue
        if not program.uses_old and old is not None and old.is_still(value):
            continue
        yield _failure(node, rule, value, path, _detail(rule, shown, shown_old))


def _failure(node: Json, rule: Json, value: object, path: str, detail: str) -> FieldError:
    where = child_path(path, text(rule.get("fieldPath")).strip().removeprefix("."))
    where = where.removesuffix(".") or "<nil>"
    reason = text(rule.get("reason")) or "FieldValueInvalid"
    shown = OMITTED if node.get("type") in ("object", "array") else value
    return FieldError(reason, where, detail, shown)


def _title(rule: Json) -> str:
    return text(rule.get("message")).strip() or text(rule.get("rule")).strip()


def _detail(rule: Json, value: object, old: object) -> str:
    """Return the rule's message: the result of `messageExpression`, or `message`."""
    expression = text(rule.get("messageExpression")).strip()
    program = _program(expression) if expression else ""
    if isinstance(program, _Program):
        try:
            made = program.result(value, old)
        except Exception:
            made = None  # upstream logs it and uses `message`
        if isinstance(made, str) and made.strip():
            return made
    message = text(rule.get("message")).strip()
    return message or f"failed rule: {text(rule.get('rule')).strip()}"


def _runtime_problem(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no such key: {error.args[0]}"
    return "division by zero" if isinstance(error, ZeroDivisionError) else str(error)


def _as_cel(node: Json, value: object, *, is_root: bool = False) -> object:
    """Convert a value for CEL: typed by the schema, fields with escaped names."""
    kind = node.get("type")
    if isinstance(value, dict):
        return _object_as_cel(node, value, is_root=is_root)
    if isinstance(value, list):
        inner = items_of(node) or {}
        return [_as_cel(inner, item) for item in value]
    if kind == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind == "integer" and isinstance(value, float):
        return int(value)
    if isinstance(value, str):
        return _text_as_cel(text(node.get("format")), value)
    return value


def _object_as_cel(node: Json, value: Json, *, is_root: bool) -> object:
    fields, additional = mapping(node.get("properties")), node.get("additionalProperties")
    if isinstance(additional, dict):
        return {key: _as_cel(additional, item) for key, item in value.items()}
    if not fields and not is_root:
        return value
    shown: dict[str, object] = {
        _escaped(key): _as_cel(mapping(fields[key]), item)
        for key, item in value.items()
        if key in fields
    }
    if is_root or node.get("x-kubernetes-embedded-resource") is True:
        metadata = mapping(value.get("metadata"))
        names = {key: metadata[key] for key in ("name", "generateName") if key in metadata}
        shown.update({key: value[key] for key in _IDENTITY if key in value})
        shown["metadata"] = names
    return shown


def _escaped(key: str) -> str:
    if key in _RESERVED:
        return f"__{key}__"
    return re.sub(r"__|[-./]", lambda found: _ESCAPES[found[0]], key)


def _text_as_cel(format_name: str, value: str) -> object:
    try:
        if format_name in ("date-time", "datetime", "date"):
            moment = datetime.datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
        if format_name == "duration":
            return datetime.timedelta(seconds=formats.duration_seconds(value))
    except ValueError:
        return value
    return value


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return "%" not in value


def _is_network(value: str) -> bool:
    try:
        ipaddress.ip_interface(value)
    except ValueError:
        return False
    return "/" in value


def _pattern(text: str) -> patterns.Pattern:
    """Return a compiled pattern. Raises ValueError."""
    found = patterns.compiled(text)
    if found is None:
        raise ValueError(patterns.problem(text) or f"{text}: the pattern is not supported")
    return found


def _find(value: str, pattern: str) -> str:
    found = _pattern(pattern).search(value)
    return found.group() if found else ""


def _find_all(value: str, pattern: str, *limit: int) -> list[str]:
    found = [match.group() for match in _pattern(pattern).finditer(value)]
    return found[: limit[0]] if limit and limit[0] >= 0 else found


def _index_of(value: Any, item: Any, *start: int) -> int:
    if isinstance(value, str):
        return value.find(item, *start)
    return value.index(item) if item in value else -1


def _last_index_of(value: Any, item: Any) -> int:
    if isinstance(value, str):
        return value.rfind(item)
    return len(value) - 1 - value[::-1].index(item) if item in value else -1


def _split(value: str, separator: str, *limit: int) -> list[str]:
    parts = value.split(separator) if separator else list(value)
    if not limit or limit[0] < 0 or len(parts) <= limit[0]:
        return parts
    return [*parts[: limit[0] - 1], separator.join(parts[limit[0] - 1 :])] if limit[0] else []


def _replace(value: str, old: str, new: str, *limit: int) -> str:
    return value.replace(old, new, *limit)


#: Functions of Kubernetes' libraries: lists, regex, strings, isIP and isCIDR.
_FUNCTIONS: Final[dict[str, Callable[..., object]]] = {
    "isSorted": lambda values: all(a <= b for a, b in itertools.pairwise(values)),
    "sum": lambda values: sum(values[1:], start=values[0]) if values else 0,
    "min": lambda *values: min(values[0] if isinstance(values[0], list) else values),
    "max": lambda *values: max(values[0] if isinstance(values[0], list) else values),
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "find": _find,
    "findAll": _find_all,
    "charAt": lambda value, index: value[index : index + 1],
    "join": lambda values, separator="": separator.join(values),
    "lowerAscii": lambda value: value.lower() if value.isascii() else value,
    "upperAscii": lambda value: value.upper() if value.isascii() else value,
    "replace": _replace,
    "split": _split,
    "substring": lambda value, start, *end: value[start : end[0] if end else None],
    "trim": lambda value: value.strip(),
    "isIP": _is_address,
    "isCIDR": _is_network,
}


def _library() -> Any:
    """Return a context with the functions, for one evaluation."""
    import cel

    context = cel.Context()
    for name, function in _FUNCTIONS.items():
        context.add_function(name, function)
    return context
