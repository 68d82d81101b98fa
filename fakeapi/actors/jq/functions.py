"""The functions that queries may call, by name and number of arguments."""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import TYPE_CHECKING, Final

from fakeapi.actors.jq.evaluation import (
    JqError,
    add,
    compare,
    field,
    is_true,
    items,
    json_of,
    ordered,
    shown,
    text_of,
    type_of,
)
from fakeapi.types import go_patterns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fakeapi.actors.jq.evaluation import Filter, Variables

__all__ = ["FUNCTIONS", "PLAIN"]

_RANGE_MAX: Final = 1_000_000


def _length(value: object) -> object:
    if value is None:
        return 0
    if isinstance(value, str | list | dict):
        return len(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return abs(value)
    raise JqError(f"length cannot be applied to: {shown(value)}")


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise JqError(f"expected an array but got: {shown(value)}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise JqError(f"expected a string but got: {shown(value)}")
    return value


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise JqError(f"expected an object but got: {shown(value)}")
    return value


def _keys(value: object) -> object:
    return list(range(len(value))) if isinstance(value, list) else sorted(_object(value))


def _to_number(value: object) -> object:
    if isinstance(value, str):
        try:
            return int(value) if re.fullmatch(r"-?\d+", value) else float(value)
        except ValueError:
            raise JqError(f"tonumber cannot parse: {shown(value)}") from None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise JqError(f"tonumber cannot be applied to: {shown(value)}")


def _from_json(value: object) -> object:
    try:
        return json.loads(_text(value))
    except ValueError as error:
        raise JqError(f"fromjson cannot parse: {shown(value)}: {error}") from error


def _add(value: object) -> object:
    total: object = None
    for item in items(value):
        total = add(total, item)
    return total


def _flatten(value: object) -> list[object]:
    flat: list[object] = []
    for item in _list(value):
        flat += _flatten(item) if isinstance(item, list) else [item]
    return flat


def _unique(value: object) -> list[object]:
    in_order = sorted(_list(value), key=ordered)
    return [one[0] for one in (list(group) for _, group in itertools.groupby(in_order, ordered))]


def _to_entries(value: object) -> object:
    return [{"key": key, "value": item} for key, item in sorted(_object(value).items())]


def _from_entries(value: object) -> object:
    found: dict[str, object] = {}
    for entry in items(value):
        one = _object(entry)
        names = ("key", "k", "name", "Name", "K", "Key")
        key = next((one[name] for name in names if one.get(name) not in (None, False)), None)
        held = next((one[name] for name in ("value", "v", "Value", "V") if name in one), None)
        found[text_of(key)] = held
    return found


def _number(value: object, operation: Callable[[float], float]) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise JqError(f"expected a number but got: {shown(value)}")
    return operation(value)


def _reverse(value: object) -> object:
    return value[::-1] if isinstance(value, str) else _list(value or [])[::-1]


def _first(value: object) -> object:
    return field(value, 0)


def _last(value: object) -> object:
    return field(value, -1)


def _extreme(value: object, choose: Callable[..., object]) -> object:
    found = _list(value)
    return choose(found, key=ordered) if found else None


#: Functions without arguments that make one result.
PLAIN: Final[dict[str, Callable[[object], object]]] = {
    "add": _add,
    "all": lambda value: all(map(is_true, items(value))),
    "any": lambda value: any(map(is_true, items(value))),
    "ascii_downcase": lambda value: _text(value).lower(),
    "ascii_upcase": lambda value: _text(value).upper(),
    "ceil": lambda value: _number(value, math.ceil),
    "false": lambda _: False,
    "first": _first,
    "flatten": _flatten,
    "floor": lambda value: _number(value, math.floor),
    "from_entries": _from_entries,
    "fromjson": _from_json,
    "keys": _keys,
    "keys_unsorted": _keys,
    "last": _last,
    "length": _length,
    "max": lambda value: _extreme(value, max),
    "min": lambda value: _extreme(value, min),
    "not": lambda value: not is_true(value),
    "null": lambda _: None,
    "reverse": _reverse,
    "round": lambda value: _number(value, lambda one: math.floor(one + 0.5)),
    "sort": lambda value: sorted(_list(value), key=ordered),
    "to_entries": _to_entries,
    "tojson": json_of,
    "tonumber": _to_number,
    "tostring": text_of,
    "trim": lambda value: _text(value).strip(),
    "true": lambda _: True,
    "type": type_of,
    "unique": _unique,
}


def _contains(value: object, part: object) -> bool:
    if isinstance(value, dict) and isinstance(part, dict):
        return all(key in value and _contains(value[key], item) for key, item in part.items())
    if isinstance(value, list) and isinstance(part, list):
        return all(any(_contains(item, wanted) for item in value) for wanted in part)
    if isinstance(value, str) and isinstance(part, str):
        return part in value
    if type_of(value) != type_of(part):
        raise JqError(f"{shown(value)} cannot be contained in {shown(part)}")
    return compare(value, part) == 0


def _has(value: object, key: object) -> bool:
    if isinstance(value, dict) and isinstance(key, str):
        return key in value
    if isinstance(value, list) and isinstance(key, int | float):
        return 0 <= key < len(value)
    raise JqError(f"cannot check whether {type_of(value)} has a key: {shown(key)}")


def _test(value: object, pattern: object) -> bool:
    try:
        return go_patterns.compiled(_text(pattern)).search(_text(value)) is not None
    except go_patterns.PatternError as error:
        raise JqError(str(error)) from error


def _join(value: object, separator: object) -> object:
    parts = ("" if item is None else text_of(item) for item in _list(value))
    return _text(separator).join(parts)


def _split(value: object, separator: object) -> object:
    return list(_text(value)) if separator == "" else _text(value).split(_text(separator))


def _path(value: object, path: object) -> object:
    for key in _list(path):
        value = None if value is None else field(value, key)
    return value


def _index(value: object, part: object) -> object:
    if isinstance(value, str):
        found = value.find(_text(part))
        return found if found >= 0 else None
    return next((at for at, item in enumerate(_list(value)) if not compare(item, part)), None)


def _pattern_error(value: object, message: object) -> object:
    raise JqError(text_of(message), message)


#: Functions of one argument, called with each of its results.
_ONE: Final[dict[str, Callable[[object, object], object]]] = {
    "contains": _contains,
    "endswith": lambda value, end: _text(value).endswith(_text(end)),
    "error": _pattern_error,
    "getpath": _path,
    "has": _has,
    "in": lambda value, whole: _has(whole, value),
    "index": _index,
    "inside": lambda value, whole: _contains(whole, value),
    "join": _join,
    "ltrimstr": lambda value, start: (
        value.removeprefix(start) if isinstance(value, str) and isinstance(start, str) else value
    ),
    "rtrimstr": lambda value, end: (
        value.removesuffix(end) if isinstance(value, str) and isinstance(end, str) else value
    ),
    "split": _split,
    "startswith": lambda value, start: _text(value).startswith(_text(start)),
    "test": _test,
}


def _with_each(call: Callable[[object, object], object]) -> Callable[[list[Filter]], Filter]:
    def made(arguments: list[Filter]) -> Filter:
        def run(value: object, variables: Variables) -> Iterator[object]:
            for argument in arguments[0](value, variables):
                yield call(value, argument)

        return run

    return made


def _select(arguments: list[Filter]) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        for found in arguments[0](value, variables):
            if is_true(found):
                yield value

    return run


def _map(arguments: list[Filter]) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        yield [found for item in items(value) for found in arguments[0](item, variables)]

    return run


def _map_values(arguments: list[Filter]) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        if isinstance(value, dict):
            pairs = ((key, list(arguments[0](item, variables))) for key, item in value.items())
            yield {key: found[0] for key, found in pairs if found}
        else:
            kept = (list(arguments[0](item, variables)) for item in items(value))
            yield [found[0] for found in kept if found]

    return run


def _quantified(test: Callable[[Iterator[bool]], bool]) -> Callable[[list[Filter]], Filter]:
    def made(arguments: list[Filter]) -> Filter:
        condition = arguments[-1]

        def run(value: object, variables: Variables) -> Iterator[object]:
            found = items(value) if len(arguments) == 1 else arguments[0](value, variables)
            yield test(is_true(one) for item in found for one in condition(item, variables))

        return run

    return made


def _first_of(arguments: list[Filter]) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        yield from itertools.islice(arguments[0](value, variables), 1)

    return run


def _last_of(arguments: list[Filter]) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        yield from list(arguments[0](value, variables))[-1:]

    return run


def _is_empty(arguments: list[Filter]) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        yield next((False for _ in arguments[0](value, variables)), True)

    return run


def _range(arguments: list[Filter]) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        starts = iter([0]) if len(arguments) == 1 else arguments[0](value, variables)
        ends = list(arguments[-1](value, variables))
        for start, end in itertools.product(starts, ends):
            count = _number(end, math.ceil) - _number(start, math.ceil)
            for step in range(int(min(count, _RANGE_MAX))):
                yield add(start, step)

    return run


def _by(use: Callable[[list[tuple[object, object]]], object]) -> Callable[[list[Filter]], Filter]:
    """Functions that order by the results of a query: pairs of these and the items, sorted."""

    def made(arguments: list[Filter]) -> Filter:
        def run(value: object, variables: Variables) -> Iterator[object]:
            pairs: list[tuple[object, object]] = [
                (list(arguments[0](item, variables)), item) for item in _list(value)
            ]
            yield use(sorted(pairs, key=lambda pair: ordered(pair[0])))

        return run

    return made


def _groups(pairs: list[tuple[object, object]]) -> list[list[object]]:
    grouped = itertools.groupby(pairs, key=lambda pair: ordered(pair[0]))
    return [[item for _, item in group] for _, group in grouped]


def _recurse(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, list | dict):
        for item in items(value):
            yield from _recurse(item)


def _nothing(_arguments: list[Filter]) -> Filter:
    def run(_value: object, _variables: Variables) -> Iterator[object]:
        return iter(())

    return run


def _recursed(_arguments: list[Filter]) -> Filter:
    def run(value: object, _variables: Variables) -> Iterator[object]:
        return _recurse(value)

    return run


def _of_types(*types: str) -> Callable[[list[Filter]], Filter]:
    """Functions that let values of these types pass."""

    def made(_arguments: list[Filter]) -> Filter:
        def run(value: object, _variables: Variables) -> Iterator[object]:
            return iter((value,) if type_of(value) in types else ())

        return run

    return made


_SCALARS: Final = ("null", "boolean", "number", "string")
_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "arrays": ("array",), "booleans": ("boolean",), "iterables": ("array", "object"),
    "nulls": ("null",), "numbers": ("number",), "objects": ("object",), "scalars": _SCALARS,
    "strings": ("string",), "values": (*_SCALARS[1:], "array", "object"),
}  # fmt: skip


def _failed(_arguments: list[Filter]) -> Filter:
    def run(value: object, _variables: Variables) -> Iterator[object]:
        raise JqError(text_of(value), value)

    return run


def _with_entries(arguments: list[Filter]) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        entries = items(_to_entries(value))
        yield _from_entries([one for entry in entries for one in arguments[0](entry, variables)])

    return run


#: All functions with arguments, and those that do not make exactly one result.
FUNCTIONS: Final[dict[tuple[str, int], Callable[[list[Filter]], Filter]]] = {
    **{(name, 1): _with_each(call) for name, call in _ONE.items()},
    **{(name, 0): _of_types(*types) for name, types in _TYPES.items()},
    ("all", 1): _quantified(all),
    ("all", 2): _quantified(all),
    ("any", 1): _quantified(any),
    ("any", 2): _quantified(any),
    ("empty", 0): _nothing,
    ("error", 0): _failed,
    ("first", 1): _first_of,
    ("group_by", 1): _by(_groups),
    ("isempty", 1): _is_empty,
    ("last", 1): _last_of,
    ("map", 1): _map,
    ("map_values", 1): _map_values,
    ("max_by", 1): _by(lambda pairs: pairs[-1][1] if pairs else None),
    ("min_by", 1): _by(lambda pairs: pairs[0][1] if pairs else None),
    ("range", 1): _range,
    ("range", 2): _range,
    ("recurse", 0): _recursed,
    ("select", 1): _select,
    ("sort_by", 1): _by(lambda pairs: [item for _, item in pairs]),
    ("unique_by", 1): _by(lambda pairs: [group[0] for group in _groups(pairs)]),
    ("with_entries", 1): _with_entries,
}
