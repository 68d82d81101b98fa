"""sprig's functions on numbers, lists, maps and any value.

Maps come in the order of their keys where Go's order is random. Source: Masterminds/sprig v3.3.0
numeric.go, list.go, dict.go, defaults.go, reflect.go.
"""

from __future__ import annotations

import copy
import decimal
import json
import math
import re
from typing import TYPE_CHECKING, Final

from fakeapi.actors.templates.functions import FunctionError
from fakeapi.actors.templates.sprig_text import text_of, texts_of
from fakeapi.actors.templates.values import Number, type_name, unnumbered
from fakeapi.types.gotext import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.types.objects import Json

__all__ = ["VALUE_FUNCTIONS", "integer_of"]

_RANGE_MAX: Final = 1_000_000
_OCTAL: Final = re.compile(r"^([+-]?0)(?=[0-7])")


def integer_of(value: object) -> int:
    """A value as a whole number; what is none is 0."""
    if isinstance(value, str):
        try:
            return int(_OCTAL.sub(r"\1o", value.removesuffix(".0")), 0)
        except ValueError:
            return 0
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else 0
    return int(value) if isinstance(value, int) else 0


def _float_of(value: object) -> float:
    try:
        return float(value) if isinstance(value, int | float | str) else 0.0
    except ValueError:
        return 0.0


def _add(*values: object) -> int:
    return sum(integer_of(value) for value in values)


def _add1(value: object) -> int:
    return integer_of(value) + 1


def _sub(first: object, second: object) -> int:
    return integer_of(first) - integer_of(second)


def _mul(first: object, *others: object) -> int:
    return math.prod(integer_of(value) for value in (first, *others))


def _div(first: object, second: object) -> int:
    dividend, divisor = integer_of(first), integer_of(second)
    if not divisor:
        raise FunctionError("runtime error: integer divide by zero")
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _mod(first: object, second: object) -> int:
    return integer_of(first) - _div(first, second) * integer_of(second)


def _max(first: object, *others: object) -> int:
    return max(integer_of(value) for value in (first, *others))


def _min(first: object, *others: object) -> int:
    return min(integer_of(value) for value in (first, *others))


def _maxf(first: object, *others: object) -> float:
    return max(_float_of(value) for value in (first, *others))


def _minf(first: object, *others: object) -> float:
    return min(_float_of(value) for value in (first, *others))


def _exact(
    first: object,
    others: tuple[object, ...],
    operation: Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal],
) -> float:
    result = decimal.Decimal(repr(_float_of(first)))
    for other in others:
        try:
            result = operation(result, decimal.Decimal(repr(_float_of(other))))
        except decimal.DecimalException:
            raise FunctionError("decimal division by 0") from None
    return float(result)


def _addf(*values: object) -> float:
    return _exact(0.0, values, lambda a, b: a + b)


def _add1f(value: object) -> float:
    return _addf(value, 1)


def _subf(first: object, *others: object) -> float:
    return _exact(first, others, lambda a, b: a - b)


def _mulf(first: object, *others: object) -> float:
    return _exact(first, others, lambda a, b: a * b)


def _divf(first: object, *others: object) -> float:
    return _exact(first, others, lambda a, b: a / b)


def _floor(value: object) -> float:
    return float(math.floor(_float_of(value)))


def _ceil(value: object) -> float:
    return float(math.ceil(_float_of(value)))


def _round(value: object, places: int, on: float = 0.5) -> float:
    power = 10.0**places
    digit = power * _float_of(value)
    up = math.fmod(digit, 1.0) >= on
    return (math.ceil(digit) if up else math.floor(digit)) / power


def _atoi(value: str) -> int:
    try:
        return int(value)
    except ValueError:
        return 0


def _to_decimal(value: object) -> int:
    try:
        return int(plain(value), 8)
    except ValueError:
        return 0


def _until(count: int) -> list[object]:
    return _until_step(0, count, -1 if count < 0 else 1)


def _until_step(start: int, stop: int, step: int) -> list[object]:
    if step == 0 or (stop < start) != (step < 0):
        return []
    found = range(start, stop, step)
    if len(found) > _RANGE_MAX:
        raise FunctionError(f"more than {_RANGE_MAX} numbers")
    return list(found)


def _seq(*values: int) -> str:
    if len(values) not in (1, 2, 3):
        return ""
    start, end = (1, values[0]) if len(values) == 1 else (values[0], values[-1])
    towards = -1 if end < start else 1
    step = values[1] if len(values) == 3 else towards
    if len(values) == 3 and end < start and step > 0:
        return ""
    return " ".join(str(one) for one in _until_step(start, end + towards, step))


def _items(value: object, verb: str) -> list[object]:
    if not isinstance(value, list):
        raise FunctionError(f"Cannot {verb} on type {_kind_of(value)}")
    return value


def _list(*values: object) -> list[object]:
    return list(values)


def _push(values: object, value: object) -> list[object]:
    return [*_items(values, "push"), value]


def _prepend(values: object, value: object) -> list[object]:
    return [value, *_items(values, "prepend")]


def _first(values: object) -> object:
    return next(iter(_items(values, "find first")), None)


def _last(values: object) -> object:
    return next(reversed(_items(values, "find last")), None)


def _rest(values: object) -> list[object]:
    return _items(values, "find rest")[1:]


def _initial(values: object) -> list[object]:
    return _items(values, "find initial")[:-1]


def _reverse(values: object) -> list[object]:
    return _items(values, "find reverse")[::-1]


def _compact(values: object) -> list[object]:
    return [value for value in _items(values, "compact") if value]


def _same(first: object, second: object) -> bool:
    """reflect.DeepEqual: 1 and true are not the same, nor are 1 and "1"."""
    return type_name(first) == type_name(second) and first == second


def _uniq(values: object) -> list[object]:
    found: list[object] = []
    for value in _items(values, "find uniq"):
        if not any(_same(value, one) for one in found):
            found.append(value)
    return found


def _without(values: object, *gone: object) -> list[object]:
    kept = _items(values, "find without")
    return [value for value in kept if not any(_same(value, one) for one in gone)]


def _has(value: object, values: object) -> bool:
    return values is not None and any(_same(value, one) for one in _items(values, "find has"))


def _slice(values: object, *bounds: object) -> object:
    items = _items(values, "slice")
    start = integer_of(bounds[0]) if bounds else 0
    end = integer_of(bounds[1]) if len(bounds) > 1 else len(items)
    if items and not 0 <= start <= end <= len(items):
        raise FunctionError("reflect.Value.Slice: slice index out of bounds")
    return items[start:end] if items else None


def _concat(*lists: object) -> list[object]:
    return [item for one in lists for item in _items(one, "concat")]


def _chunk(size: int, values: object) -> list[object]:
    items = _items(values, "chunk")
    if size <= 0:
        raise FunctionError("chunk: size must be positive")
    return [items[at : at + size] for at in range(0, len(items), size)]


def _sort_alpha(values: object) -> list[object]:
    return sorted(texts_of(values), key=text_of)


def _dict(*pairs: object) -> Json:
    padded = (*pairs, "")[: len(pairs) + len(pairs) % 2]
    return {text_of(padded[at]): padded[at + 1] for at in range(0, len(padded), 2)}


def _get(values: Json, key: str) -> object:
    return values.get(key, "")


def _set(values: Json, key: str, value: object) -> Json:
    values[key] = value
    return values


def _unset(values: Json, key: str) -> Json:
    values.pop(key, None)
    return values


def _has_key(values: Json, key: str) -> bool:
    return key in values


def _pluck(key: str, *maps: Json) -> list[object]:
    return [values[key] for values in maps if key in values]


def _keys(*maps: Json) -> list[object]:
    return [key for values in maps for key in sorted(values)]


def _values(values: Json) -> list[object]:
    return [values[key] for key in sorted(values)]


def _pick(values: Json, *keys: str) -> Json:
    return {key: values[key] for key in keys if key in values}


def _omit(values: Json, *keys: str) -> Json:
    return {key: value for key, value in values.items() if key not in keys}


def _merge(into: Json, *others: Json) -> Json:
    for other in others:
        _merge_into(into, other, overwrites=False)
    return into


def _merge_overwrite(into: Json, *others: Json) -> Json:
    for other in others:
        _merge_into(into, other, overwrites=True)
    return into


def _merge_into(into: Json, other: Json, *, overwrites: bool) -> None:
    for key, value in other.items():
        present = into.get(key)
        if isinstance(present, dict) and isinstance(value, dict):
            _merge_into(present, value, overwrites=overwrites)
        elif not present or (overwrites and value):
            into[key] = copy.deepcopy(value)


def _dig(*path: object) -> object:
    if len(path) < 3:
        raise FunctionError("dig needs at least three arguments")
    *keys, default, value = path
    for key in keys:
        if not isinstance(value, dict):
            raise FunctionError(f"interface conversion: {type_name(value)} is no map")
        if key not in value:
            return default
        value = value[key]
    return value


def _default(default: object, *given: object) -> object:
    return given[0] if given and given[0] else default


def _empty(value: object) -> bool:
    return not value


def _coalesce(*values: object) -> object:
    return next((value for value in values if value), None)


def _all(*values: object) -> bool:
    return all(values)


def _any(*values: object) -> bool:
    return any(values)


def _ternary(yes: object, no: object, decides: bool) -> object:  # noqa: FBT001 - Go's signature
    return yes if decides else no


def _deep_copy(value: object) -> object:
    return copy.deepcopy(value)


def _from_json(value: str) -> object:
    try:
        return json.loads(value, parse_int=float)
    except ValueError:
        return None


def _must_from_json(value: str) -> object:
    try:
        return json.loads(value, parse_int=float)
    except ValueError as error:
        raise FunctionError(str(error)) from error


def _raw_json(value: object) -> str:
    return _json(value, None)


def _json(value: object, indent: int | None) -> str:
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(
        _whole(unnumbered(value)),
        separators=separators,
        sort_keys=True,
        ensure_ascii=False,
        indent=indent,
    )


def _whole(value: object) -> object:
    """JSON that Go wrote has no fraction where there is none."""
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e21
    return int(value) if is_whole and isinstance(value, float) else value


_HTML: Final = str.maketrans({
    "<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029",
})  # fmt: skip


def to_json(value: object) -> str:
    """JSON as Go's encoder writes it: keys in order, <, > and & escaped."""
    return _raw_json(value).translate(_HTML)


def _to_pretty_json(value: object) -> str:
    return _json(value, 2).translate(_HTML)


def _kind_of(value: object) -> str:
    if value is None:
        return "invalid"
    if isinstance(value, Number):
        return "string"
    return {"[]interface {}": "slice", "map[string]interface {}": "map"}.get(
        type_name(value), type_name(value)
    )


def _kind_is(kind: str, value: object) -> bool:
    return _kind_of(value) == kind


def _type_of(value: object) -> str:
    return type_name(value)


def _type_is(kind: str, value: object) -> bool:
    return type_name(value) == kind


def _deep_equal(first: object, second: object) -> bool:
    return _same(first, second)


def _fail(message: str) -> str:
    raise FunctionError(message)


VALUE_FUNCTIONS: Final[dict[str, Callable[..., object]]] = {
    "add": _add, "add1": _add1, "add1f": _add1f, "addf": _addf, "all": _all, "any": _any,
    "append": _push, "atoi": _atoi, "biggest": _max, "ceil": _ceil, "chunk": _chunk,
    "coalesce": _coalesce, "compact": _compact, "concat": _concat, "deepCopy": _deep_copy,
    "deepEqual": _deep_equal, "default": _default, "dict": _dict, "dig": _dig, "div": _div,
    "divf": _divf, "empty": _empty, "fail": _fail, "first": _first, "float64": _float_of,
    "floor": _floor, "fromJson": _from_json, "get": _get, "has": _has, "hasKey": _has_key,
    "initial": _initial, "int": integer_of, "int64": integer_of, "keys": _keys,
    "kindIs": _kind_is, "kindOf": _kind_of, "last": _last, "list": _list, "max": _max,
    "maxf": _maxf, "merge": _merge, "mergeOverwrite": _merge_overwrite, "min": _min,
    "minf": _minf, "mod": _mod, "mul": _mul, "mulf": _mulf, "mustAppend": _push,
    "mustChunk": _chunk, "mustCompact": _compact, "mustDeepCopy": _deep_copy,
    "mustFirst": _first, "mustFromJson": _must_from_json, "mustHas": _has,
    "mustInitial": _initial, "mustLast": _last, "mustMerge": _merge,
    "mustMergeOverwrite": _merge_overwrite, "mustPrepend": _prepend, "mustPush": _push,
    "mustRest": _rest, "mustReverse": _reverse, "mustSlice": _slice, "mustToJson": to_json,
    "mustToPrettyJson": _to_pretty_json, "mustToRawJson": _raw_json, "mustUniq": _uniq,
    "mustWithout": _without, "omit": _omit, "pick": _pick, "pluck": _pluck,
    "prepend": _prepend, "push": _push, "rest": _rest, "reverse": _reverse, "round": _round,
    "seq": _seq, "set": _set, "slice": _slice, "sortAlpha": _sort_alpha, "sub": _sub,
    "subf": _subf, "ternary": _ternary, "toDecimal": _to_decimal, "toJson": to_json,
    "toPrettyJson": _to_pretty_json, "toRawJson": _raw_json, "tuple": _list,
    "typeIs": _type_is, "typeIsLike": _type_is, "typeOf": _type_of, "uniq": _uniq,
    "unset": _unset, "until": _until, "untilStep": _until_step, "values": _values,
    "without": _without,
}  # fmt: skip
