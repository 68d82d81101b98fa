"""The functions of CEL and of Kubernetes' libraries, with their types.

`overloads.txt` has the types of every function, one overload in a line; see `parse_overloads`.

Not built, because nothing of a device has such a value: URLs, `format`, `strings.quote`, the
named formats, authorization, and times in a time zone. An expression that uses one of them does not
compile ("undeclared reference" or "found no matching overload").
Source: cel-go `common/stdlib`, `ext/{strings,lists,sets}.go`, `cel/library.go` (optionals), v0.26;
`k8s.io/apiserver/pkg/cel/library/{quantity,semverlib,lists,regex}.go`, v0.36.3.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from scheduler.api.quantity import QuantityError
from scheduler.api.strconv import parse_bool
from scheduler.cel import network, times, values
from scheduler.cel.errors import CelError, no_such_overload
from scheduler.cel.syntax import UInt
from scheduler.cel.types import parse_overloads
from scheduler.cel.values import Optional, Quantity, Semver, compare, equal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NANO: Final = 10**9
_Number = TypeVar("_Number", bound=int | float)
_Whole = TypeVar("_Whole", bound=int)
_INT_MIN, _INT_MAX, _UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1

#: The values of a list that `includes` looks at.
_INCLUDES_MAX: Final = 48
#: The longest list that `lists.range` makes. A longer one costs more than an evaluation may.
_RANGE_MAX: Final = 1_000_000

#: The names of the types whose values have an order.
COMPARABLE: Final = frozenset(
    {
        *("int", "uint", "double", "bool", "string", "bytes"),
        *("google.protobuf.Timestamp", "google.protobuf.Duration"),
    }
)
_TIMES = (times.Timestamp, times.Duration)

#: The overloads of every function.
OVERLOADS: Final = parse_overloads(
    Path(__file__).with_name("overloads.txt").read_text(encoding="utf-8")
)


def _checked(value: Any, operand: _Number) -> _Number:
    """Return the result of arithmetic in the type of its operand; raises `CelError`."""
    if isinstance(operand, float):
        return cast("_Number", value)
    lowest, highest = (0, _UINT_MAX) if isinstance(operand, UInt) else (_INT_MIN, _INT_MAX)
    if not lowest <= value <= highest:
        raise _overflow(operand)
    return type(operand)(value)


def _overflow(operand: object) -> CelError:
    unsigned = "unsigned " if isinstance(operand, UInt) else ""
    return CelError(f"{unsigned}integer overflow")


def _arithmetic(
    operate: Callable[[Any, Any], Any], *others: type
) -> Callable[[object, object], object]:
    """Return an operator on two numbers of one type, or two values of the other types."""

    def operator(first: object, second: object) -> object:
        if isinstance(first, _TIMES) and isinstance(second, _TIMES):
            return operate(first, second)
        if type(first) is not type(second) or isinstance(first, bool):
            raise no_such_overload()
        if isinstance(first, others):
            return operate(first, second)
        if not isinstance(first, (int, float)):
            raise no_such_overload()
        return _checked(operate(first, second), first)

    return operator


def _order(first: object, second: object) -> int:
    if isinstance(first, (Quantity, Semver)):
        raise no_such_overload()
    return compare(first, second)


def _divide(first: Any, second: Any) -> Any:
    if isinstance(first, float):
        if not second:
            return math.nan if not first or math.isnan(first) else math.copysign(math.inf, first)
        return first / second
    if not second:
        raise CelError("division by zero")
    quotient = abs(first) // abs(second)
    return quotient if (first < 0) == (second < 0) else -quotient


def _modulo(first: Any, second: Any) -> Any:
    if isinstance(first, float):
        raise no_such_overload()
    if not second:
        raise CelError("modulus by zero")
    return first - second * _divide(first, second)


def _negate(value: Any) -> object:
    if not values.is_number(value) or isinstance(value, UInt):
        raise no_such_overload()
    return _checked(-value, value)


def _not(value: object) -> bool:
    if not isinstance(value, bool):
        raise no_such_overload()
    return not value


def _index(container: Any, key: Any) -> object:
    if isinstance(container, Optional):
        return _optional_index(container, key)
    if isinstance(container, dict):
        item, is_found = values.find(container, key)
        if not is_found:
            raise CelError(f"no such key: {_to_string(key)}")
        return item
    if not isinstance(container, list):
        raise CelError(f"no such key: {_to_string(key)}")
    if not values.is_number(key):
        raise CelError(f"unsupported index type '{values.type_name(key)}' in list")
    if key != int(key):
        raise CelError(f"unsupported index value {key} in list")
    if not 0 <= key < len(container):
        raise CelError(f"index out of bounds: {int(key)}")
    return container[int(key)]


def _optional_index(container: Any, key: Any) -> Optional:
    if isinstance(container, Optional):
        return _optional_index(container.value, key) if container.is_set else container
    try:
        return Optional(_index(container, key), True)
    except CelError as error:
        if str(error).startswith(("no such key", "index out of bounds")):
            return Optional()
        raise


def _is_in(value: object, container: object) -> bool:
    if isinstance(container, dict):
        return values.find(dict(container), value)[1]
    if not isinstance(container, list):
        raise no_such_overload()
    return any(_is_equal(value, item) for item in container)


def _is_equal(first: object, second: object) -> bool:
    """Return True if two values are equal; False also if they cannot be compared."""
    try:
        return equal(first, second)
    except CelError:
        return False


def _includes(value: object, item: object) -> bool:
    """Return True if a list has the item, or any other value is equal to it."""
    if isinstance(value, list):
        if len(value) > _INCLUDES_MAX and not _is_in(item, value[:_INCLUDES_MAX]):
            raise CelError(
                f"'includes' function cannot be applied to lists longer than {_INCLUDES_MAX} values"
            )
        return _is_in(item, value)
    return _is_in(item, [value])


def _range(size: int) -> list[int]:
    if size > _RANGE_MAX:
        raise CelError(f"lists.range: size {size} exceeds maximum allowed ({_RANGE_MAX})")
    return list(range(size))


#: The errors of the C++ library in the words of Go's.
_IN_GO: Final[Mapping[str, str]] = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}


@functools.lru_cache(maxsize=256)
def pattern(text: str) -> Any:
    """Return a compiled regular expression; raises `CelError`."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        message = error.args[0]
        reason, _, where = (
            message.decode() if isinstance(message, bytes) else str(message)
        ).partition(": ")
        reason = _IN_GO.get(reason, reason)
        raise CelError(f"error parsing regexp: {reason}: `{where}`") from error


def _find(value: str, text: str) -> str:
    match = pattern(text).search(value)
    return match.group() if match else ""


def _find_all(value: str, text: str, limit: int = -1) -> list[str]:
    matches = (match.group() for match in pattern(text).finditer(value))
    return list(matches if limit < 0 else itertools.islice(matches, limit))


def _size(value: Any) -> int:
    if not isinstance(value, (str, bytes, list, dict)):
        raise no_such_overload()
    return len(value)


def _index_of(value: Any, item: Any, start: int = 0) -> int:
    if isinstance(value, str):
        if start < 0:
            raise CelError(f"index out of range: {start}")
        return value.find(item, start)
    return next((at for at, element in enumerate(value) if equal(element, item)), -1)


def _last_index_of(value: Any, item: Any, end: int | None = None) -> int:
    if isinstance(value, str):
        if end is None:
            return value.rfind(item)
        if end < 0:
            raise CelError(f"index out of range: {end}")
        return value.rfind(item, 0, end + len(item)) if end < len(value) else -1
    return max((at for at, element in enumerate(value) if equal(element, item)), default=-1)


def _split(value: str, separator: str, limit: int = -1) -> list[str]:
    parts = value.split(separator) if separator else list(value)
    if limit < 0 or len(parts) <= limit:
        return parts
    return [*parts[: limit - 1], separator.join(parts[limit - 1 :])] if limit else []


def _substring(value: str, start: int, end: int | None = None) -> str:
    stop = len(value) if end is None else end
    for position in (start, stop):
        if not 0 <= position <= len(value):
            raise CelError(f"index out of range: {position}")
    if start > stop:
        raise CelError(f"invalid substring range. start: {start}, end: {stop}")
    return value[start:stop]


def _char_at(value: str, index: int) -> str:
    if not 0 <= index <= len(value):
        raise CelError(f"index out of range: {index}")
    return value[index : index + 1]


def _slice(value: list[object], start: int, end: int) -> list[object]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(value):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(value)}")
    return value[start:end]


def _distinct(items: list[object]) -> list[object]:
    kept: list[object] = []
    for item in items:
        if not any(equal(item, earlier) for earlier in kept):
            kept.append(item)
    return kept


def _flatten(items: list[Any], depth: int = 1) -> list[object]:
    if depth < 0:
        raise CelError("level must be non-negative")
    if not depth:
        return items
    inner = (_flatten(item, depth - 1) if isinstance(item, list) else [item] for item in items)
    return list(itertools.chain.from_iterable(inner))


def _unwrapped(items: list[Optional]) -> list[object]:
    return [item.value for item in items if item.is_set]


def _chosen(choose: Callable[..., object], name: str) -> Callable[[list[object]], object]:
    def choice(items: list[object]) -> object:
        if not items:
            raise CelError(f"{name} called on empty list")
        return choose(items, key=functools.cmp_to_key(compare))

    return choice


def _sum(items: list[Any]) -> object:
    add = _arithmetic(lambda a, b: a + b)
    return functools.reduce(add, items) if items else 0


def _to_int(value: Any) -> int:
    if isinstance(value, _TIMES):
        return times.to_int(value)
    return _to_whole(value, 0)


def _to_whole(value: Any, zero: _Whole) -> _Whole:
    """Return a text or a number in the type of `zero`; raises `CelError`."""
    if isinstance(value, str):
        try:
            if not re.fullmatch(r"[-+]?[0-9]+", value):
                raise CelError(value)
            return _checked(int(value), zero)
        except CelError as error:
            raise _no_conversion("string", values.type_name(zero)) from error
    if not math.isfinite(value):
        raise _overflow(zero)
    return _checked(int(value), zero)


def _no_conversion(source: str, target: str) -> CelError:
    return CelError(f"type conversion error from '{source}' to '{target}'")


def _to_bool(value: bool | str) -> bool:  # noqa: FBT001
    try:
        return value if isinstance(value, bool) else parse_bool(value)
    except ValueError as error:
        raise _no_conversion("string", "bool") from error


def _to_double(value: Any) -> float:
    if not isinstance(value, str):
        return float(value)
    try:
        number = float(value)
    except ValueError as error:
        raise _no_conversion("string", "double") from error
    if value != value.strip() or (math.isinf(number) and "inf" not in value.lower()):
        raise _no_conversion("string", "double")
    return number


def _to_string(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from error
    if isinstance(value, float) and value.is_integer() and abs(value) < 10.0**21:
        return str(int(value))
    return str(value)


def _quantity(text: str) -> Quantity:
    try:
        return values.quantity(text)
    except QuantityError as error:
        raise CelError(str(error)) from error


def _is_whole(amount: Quantity) -> bool:
    return not amount.nanos % _NANO and _INT_MIN <= amount.nanos // _NANO <= _INT_MAX


def _as_integer(amount: Quantity) -> int:
    if not _is_whole(amount):
        raise CelError("cannot convert value to integer")
    return amount.nanos // _NANO


def _nanos(amount: Quantity | int) -> int:
    return amount.nanos if isinstance(amount, Quantity) else amount * _NANO


def _value_of(optional: Optional) -> object:
    if not optional.is_set:
        raise CelError("optional.none() dereference")
    return optional.value


def _is_zero(value: object) -> bool:
    return value in (None, times.Duration(0)) or (
        isinstance(value, (bool, int, float, str, bytes, list, dict)) and not value
    )


def _ascii_case(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda value: "".join(change(c) if c.isascii() else c for c in value)


_ADDED: Final = frozenset(
    {"int", "uint", "double", "google.protobuf.Duration", "google.protobuf.Timestamp"}
)
_MULTIPLIED: Final = frozenset({"int", "uint", "double"})
#: The types whose methods are called for an operator that they do not have.
RECEIVERS: Final = frozenset({"string", "google.protobuf.Duration", "google.protobuf.Timestamp"})
#: By operator: the types that its first operand may have.
OPERANDS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), COMPARABLE),
    "_+_": _ADDED | {"string", "bytes", "list"},
    "_-_": _ADDED,
    "_*_": _MULTIPLIED,
    "_/_": _MULTIPLIED,
    "_%_": frozenset({"int", "uint"}),
    "size": frozenset({"string", "bytes", "list", "map"}),
    "-_": frozenset({"bool", "int", "double", "google.protobuf.Duration"}),
}

#: The functions by name; a method gets its receiver first. `&&`, `||` and `?:` are in `program`.
FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "!_": _not,
    "-_": _negate,
    "_==_": equal,
    "_!=_": lambda a, b: not equal(a, b),
    "_<_": lambda a, b: _order(a, b) < 0,
    "_<=_": lambda a, b: _order(a, b) <= 0,
    "_>_": lambda a, b: _order(a, b) > 0,
    "_>=_": lambda a, b: _order(a, b) >= 0,
    "_+_": _arithmetic(lambda a, b: a + b, str, bytes, list),
    "_-_": _arithmetic(lambda a, b: a - b),
    "_*_": _arithmetic(lambda a, b: a * b),
    "_/_": _arithmetic(_divide),
    "_%_": _arithmetic(_modulo),
    "_[_]": _index,
    "_[?_]": _optional_index,
    "@in": _is_in,
    "dyn": lambda value: value,
    "type": values.type_name,
    "size": _size,
    "contains": lambda value, part: part in value,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "matches": lambda value, text: pattern(text).search(value) is not None,
    "charAt": _char_at,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "lowerAscii": _ascii_case(str.lower),
    "upperAscii": _ascii_case(str.upper),
    "replace": lambda value, old, new, limit=-1: value.replace(old, new, limit),
    "split": _split,
    "substring": _substring,
    "trim": str.strip,
    "find": _find,
    "findAll": _find_all,
    "join": lambda items, separator="": separator.join(items),
    "includes": _includes,
    "distinct": _distinct,
    "reverse": lambda items: items[::-1],
    "slice": _slice,
    "flatten": _flatten,
    "first": lambda items: Optional(items[0], True) if items else Optional(),
    "last": lambda items: Optional(items[-1], True) if items else Optional(),
    "sort": lambda items: sorted(items, key=functools.cmp_to_key(compare)),
    "isSorted": lambda items: all(compare(a, b) <= 0 for a, b in itertools.pairwise(items)),
    "min": _chosen(min, "min"),
    "max": _chosen(max, "max"),
    "sum": _sum,
    "lists.range": _range,
    "sets.contains": lambda items, part: all(_is_in(each, items) for each in part),
    "sets.intersects": lambda items, others: any(_is_in(each, items) for each in others),
    "sets.equivalent": lambda items, others: (
        all(_is_in(each, items) for each in others) and all(_is_in(each, others) for each in items)
    ),
    "bool": _to_bool,
    "int": _to_int,
    "uint": lambda value: _to_whole(value, UInt()),
    "double": _to_double,
    "string": _to_string,
    "bytes": lambda value: value.encode() if isinstance(value, str) else value,
    "quantity": _quantity,
    "isQuantity": network.is_valid(_quantity),
    "sign": lambda amount: (amount.nanos > 0) - (amount.nanos < 0),
    "isInteger": _is_whole,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda amount: amount.nanos / _NANO,
    "add": lambda amount, other: Quantity(amount.nanos + _nanos(other)),
    "sub": lambda amount, other: Quantity(amount.nanos - _nanos(other)),
    "isGreaterThan": lambda a, b: compare(a, b) > 0,
    "isLessThan": lambda a, b: compare(a, b) < 0,
    "compareTo": compare,
    "semver": values.parse_semver,
    "isSemver": network.is_valid(values.parse_semver),
    "major": lambda version: version.major,
    "minor": lambda version: version.minor,
    "patch": lambda version: version.patch,
    "optional.of": lambda value: Optional(value, True),
    "optional.ofNonZeroValue": lambda v: Optional() if _is_zero(v) else Optional(v, True),
    "optional.none": Optional,
    "optional.unwrap": _unwrapped,
    "unwrapOpt": _unwrapped,
    "hasValue": lambda optional: optional.is_set,
    "value": _value_of,
    "or": lambda optional, other: optional if optional.is_set else other,
    "orValue": lambda optional, other: optional.value if optional.is_set else other,
    **times.FUNCTIONS,
    **network.FUNCTIONS,
}
