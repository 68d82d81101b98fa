"""Validation of values against a schema, with kube-apiserver's errors.

    validate(schema, value)                 on create
    validate(schema, value, Correlated(old, schema))
                                            on update: errors of unchanged values are allowed
                                            (ratcheting)

Paths are upstream's, `spec.list[0].name`; errors of junctors (anyOf, oneOf, allOf, not) have the
path `<nil>`.

Source: kube-openapi pkg/validation/{validate,errors} and apiextensions-apiserver
pkg/apiserver/validation of v0.36.3.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.cel import patterns, worker
from fakeapi.crds import formats
from fakeapi.crds.pruning import below, items_of
from fakeapi.types import gotext
from fakeapi.types.errors import FieldError, invalid, not_supported, required, too_long, too_many
from fakeapi.types.objects import Json, mapping, mappings, same_json, sequence, text, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_PATH: Final = "<nil>"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_META_NAMES: Final = ("kind", "apiVersion")
_LAST_LETTER: Final = 0x10FFFF
_FLOAT_MAX: Final = 3.4028234663852886e38
_JSON_INTEGER_MAX: Final = 2**53 - 1
_EPSILON: Final = 1e-9
#: Texts that are compared in the time of a check.
_TEXTS_IN_A_CHECK: Final = 100
_INTEGER_BITS: Final = {"int32": 31, "int64": 63}


@dataclasses.dataclass(slots=True)
class Findings:
    """The errors of a value, and the number of rules it met.

    If all alternatives fail, the alternative that met most rules is reported.
    """

    errors: list[FieldError] = dataclasses.field(default_factory=list)
    matched: int = 0
    _added: set[tuple[str, str, str]] = dataclasses.field(default_factory=set)

    def add(self, other: Findings) -> None:
        """Add the findings that are new."""
        for error in other.errors:
            key = (error.reason, error.field, error.detail)
            if key not in self._added:
                self._added.add(key)
                self.errors.append(error)
        self.matched += other.matched


@dataclasses.dataclass(frozen=True, slots=True)
class Correlated:
    """The old value of a place in an object, and the schema of the place.

    Source: apiserver pkg/cel/common/equality.go of v0.36.3.
    """

    value: object
    node: Json
    _elements: dict[bytes, Json] = dataclasses.field(default_factory=dict, compare=False)

    def field(self, key: str) -> Correlated | None:
        """Return the old value of a field; None if it or its schema is missing."""
        inner, _ = below(self.node, key)
        if inner is None or not isinstance(self.value, dict) or key not in self.value:
            return None
        return Correlated(self.value[key], inner)

    def element(self, item: object) -> Correlated | None:
        """Return the old element with the same keys, in a list of type map."""
        inner = items_of(self.node)
        if inner is None or not self._has_keys or not isinstance(item, dict):
            return None
        keys = texts(self.node.get("x-kubernetes-list-map-keys"))
        if any(isinstance(item.get(key), dict | list | None) for key in keys):
            return None
        if not self._elements:
            for element in mappings(self.value):
                self._elements.setdefault(_identity(element, keys), element)
        old = self._elements.get(_identity(item, keys))
        return None if old is None else Correlated(old, inner)

    @property
    def _has_keys(self) -> bool:
        return self.node.get("x-kubernetes-list-type") == "map"

    def is_still(self, value: object) -> bool:
        """True if the value is equal to the old value."""
        if isinstance(self.value, list) and isinstance(value, list):
            if not self._has_keys or not value:
                return _same(self.value, value)
            before = [self.element(item) for item in value]
            return len(self.value) == len(value) and all(
                old is not None and old.is_still(item)
                for old, item in zip(before, value, strict=True)
            )
        if isinstance(self.value, dict) and isinstance(value, dict):
            if len(self.value) != len(value):
                return False
            pairs = ((self.field(key), item) for key, item in value.items())
            return all(old is not None and old.is_still(item) for old, item in pairs)
        return _same(self.value, value)


def _identity(element: Json, keys: list[str]) -> bytes:
    """Return the values of the keys; 1 is not 1.0."""
    return msgspec.json.encode([element.get(key) for key in keys])


def _same(left: object, right: object) -> bool:
    """True if reflect.DeepEqual is: 1 is not 1.0."""
    return left is right or (type(left) is type(right) and same_json(left, right))


def validate(node: Json, value: object, old: Correlated | None = None) -> list[FieldError]:
    """Return the errors of a value; their paths begin at the value."""
    return _validated(node, value, "", old).errors


def _validated(node: Json, value: object, path: str, old: Correlated | None) -> Findings:
    findings = _all_rules(node, value, path, old)
    if findings.errors and old is not None and old.is_still(value):
        return Findings(matched=findings.matched)
    return findings


def _all_rules(node: Json, value: object, path: str, old: Correlated | None) -> Findings:
    """Check all rules in upstream's order: type, junctors, then rules of the type of value."""
    findings = Findings(matched=1)
    findings.add(_by_type(node, value, path))
    if value is None:
        findings.add(_by_enum(node, value, path))
        return findings
    findings.add(_by_junctors(node, value, path, old))
    if isinstance(value, str):
        findings.add(_by_string_rules(node, value, path))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        findings.add(_by_number_rules(node, value, path))
    elif isinstance(value, list):
        findings.add(_by_list_rules(node, value, path, old))
    findings.add(_by_enum(node, value, path))
    if isinstance(value, dict):
        findings.add(_by_object_rules(node, value, path, old))
    return findings


def _named(path: str) -> str:
    """Return the field of an error; the root is <nil>."""
    return path.removeprefix(".") or _NO_PATH


def _in_body(path: str, problem: str) -> str:
    return f"{path} in body {problem}"


def _types_of(node: Json) -> list[str]:
    if node.get(_INT_OR_STRING) is True:
        return ["integer", "string"]
    declared = text(node.get("type"))
    return [declared] if declared else []


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def _format_of(node: Json) -> str:
    """Return the format that is enforced, empty if there is none."""
    declared, types = text(node.get("format")), _types_of(node)
    type_name = types[0] if len(types) == 1 else ""
    return declared if declared and formats.is_known(declared, type_name) else ""


def _by_type(node: Json, value: object, path: str) -> Findings:
    """Check the type: a format replaces it for strings and lists, and is shown in errors of others.

    Source: typeValidator in kube-openapi pkg/validation/validate/type.go.
    """
    wanted, declared = _types_of(node), _format_of(node)
    if not wanted and not declared:
        return Findings()
    actual = _type_of(value)
    if value is None:
        if not wanted or node.get("nullable") is True:
            return Findings(matched=1)
        return Findings([_wrong_type(path, ",".join(wanted), actual)])
    as_number = actual == "integer" and "number" in wanted
    as_integer = isinstance(value, float) and "integer" in wanted and is_whole(value)
    fits = actual in wanted or as_number or as_integer
    own_format = {"integer": "int64", "number": "float64"}.get(actual, "")
    if declared and actual not in ("string", "array") and not fits and declared != own_format:
        return Findings([_wrong_type(path, declared, own_format)])
    if declared and actual in ("string", "array") and not {"number", "integer"} & set(wanted):
        return Findings(matched=1)
    return Findings(matched=1) if fits else Findings([_wrong_type(path, ",".join(wanted), actual)])


def is_whole(value: float) -> bool:
    """True if a float is a whole number that JSON holds exactly, up to a relative error of 1e-9.

    Source: IsFloat64AJSONInteger in github.com/go-openapi/swag convert.go.
    """
    if not abs(value) <= _JSON_INTEGER_MAX:
        return False
    whole = float(math.trunc(value))
    if value == whole:
        return True
    if whole == 0:
        return False
    return abs(value - whole) / (abs(value) + abs(whole)) < _EPSILON


def _wrong_type(path: str, wanted: str, actual: str) -> FieldError:
    """Return the error of a wrong type, which shows the actual type in place of the value."""
    why = _in_body(path, f'must be of type {wanted}: "{actual}"')
    return FieldError("FieldValueTypeInvalid", _named(path), why, actual)


def _by_enum(node: Json, value: object, path: str) -> Findings:
    allowed = sequence(node.get("enum"))
    if isinstance(value, str):
        patterns.count(len(allowed) / _TEXTS_IN_A_CHECK)
        is_allowed = value in allowed
    else:
        patterns.count(len(allowed))
        is_allowed = any(_is_enumerated(value, item) for item in allowed)
    if not allowed or is_allowed:
        return Findings()
    patterns.count(len(allowed))  # the error shows them
    shown = [item if isinstance(item, str) else _json(item) for item in allowed]
    return Findings([not_supported(_named(path), value, shown)])


def _is_enumerated(value: object, item: object) -> bool:
    """True if a value equals an item of an enum, converted to the item's type as in Go."""
    if value is None or item is None:
        return False
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if numeric and isinstance(item, int | float) and not isinstance(item, bool):
        assert isinstance(value, int | float)
        return math.trunc(value) == item if isinstance(item, int) else float(value) == item
    if isinstance(item, str) and isinstance(value, int) and not isinstance(value, bool):
        return 0 <= value <= _LAST_LETTER and chr(value) == item
    return same_json(value, item)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _by_string_rules(node: Json, value: str, path: str) -> Findings:
    findings = Findings()
    longest, shortest = node.get("maxLength"), node.get("minLength")
    pattern = text(node.get("pattern"))
    where = _named(path)
    if isinstance(longest, int) and len(value) > longest:
        findings.errors.append(too_long(where, longest))
    elif isinstance(shortest, int) and len(value) < shortest:
        why = _in_body(path, f"should be at least {shortest} chars long")
        findings.errors.append(invalid(where, value, why))
    elif (
        pattern
        and (compiled := patterns.compiled(pattern))
        and not worker.has_match(compiled, pattern, value)
    ):
        findings.errors.append(invalid(where, value, _in_body(path, f"should match '{pattern}'")))
    declared = _format_of(node)
    if declared and not formats.matches(declared, value):
        why = _in_body(path, f"must be of type {declared}: {_json(value)}")
        findings.errors.append(FieldError("FieldValueTypeInvalid", where, why, value))
    return findings


def _by_number_rules(node: Json, value: float, path: str) -> Findings:
    findings = Findings(matched=1)
    findings.errors += _range_errors("Checked", value, node, path)
    factor = node.get("multipleOf")
    if isinstance(factor, int | float):
        wrong_factor = _range_errors("MultipleOf", factor, node, path)
        compared = float(value) if wrong_factor else value
        findings.errors += [*wrong_factor, *_by_factor(compared, factor, path)]
    for name in ("minimum", "maximum"):
        bound = node.get(name)
        if isinstance(bound, int | float):
            wrong_bound = _range_errors(f"{name.capitalize()} boundary", bound, node, path)
            compared = float(value) if wrong_bound else value
            exclusive = node.get(f"exclusive{name.capitalize()}") is True
            findings.errors += wrong_bound
            findings.errors += _by_bound(name, compared, bound, path, exclusive=exclusive)
    return findings


def _range_errors(subject: str, value: float, node: Json, path: str) -> list[FieldError]:
    """Return the error of a number, or of a bound, that the declared type cannot hold."""
    types = _types_of(node)
    if types == ["integer"]:
        declared = text(node.get("format"))
        limit = 2 ** _INTEGER_BITS.get(declared, 63)
        fits = float(value).is_integer() and -limit <= value < limit
        form = f"with format {declared}" if declared in _INTEGER_BITS else "(default format)"
    elif types == ["number"] and node.get("format") == "float":
        fits, form = abs(value) <= _FLOAT_MAX, "with format float"
    else:
        return []
    why = f"{subject} value must be of type {types[0]} {form} in {path}"
    return [] if fits else [invalid(_NO_PATH, "", why)]


def _by_factor(value: float, factor: float, path: str) -> list[FieldError]:
    factor = math.trunc(factor) if isinstance(value, int) else float(factor)
    if factor <= 0:
        why = f"factor MultipleOf declared for {path} must be positive: {_number(factor)}"
        return [invalid(_named(path), factor, why)]
    if isinstance(value, int):
        is_multiple = value % factor == 0
    else:
        is_multiple = is_whole(1 / factor * value if factor < 1 else value / factor)
    if is_multiple:
        return []
    return [
        invalid(_named(path), value, _in_body(path, f"should be a multiple of {_number(factor)}"))
    ]


def _by_bound(
    name: str, value: float, bound: float, path: str, *, exclusive: bool
) -> list[FieldError]:
    # Upstream compares whole numbers with whole bounds.
    bound = math.trunc(bound) if isinstance(value, int) else float(bound)
    if name == "minimum":
        is_outside = value <= bound if exclusive else value < bound
        word = "greater than" if exclusive else "greater than or equal to"
    else:
        is_outside = value >= bound if exclusive else value > bound
        word = "less than" if exclusive else "less than or equal to"
    if not is_outside:
        return []
    return [invalid(_named(path), value, _in_body(path, f"should be {word} {_number(bound)}"))]


def _number(value: float) -> str:
    """Return a bound as Go's %v prints it."""
    return str(value) if isinstance(value, int) else gotext.number(value)


def _by_list_rules(node: Json, value: list[object], path: str, old: Correlated | None) -> Findings:
    findings = Findings(matched=1)
    inner = items_of(node)
    if inner is not None:
        for index, item in enumerate(value):
            before = old.element(item) if old is not None else None
            findings.add(_validated(inner, item, f"{path}[{index}]", before))
    findings.errors += _size_errors(node, "Items", len(value), path)
    return findings


def _size_errors(node: Json, parts: str, count: int, path: str) -> Iterator[FieldError]:
    """Yield the errors of a list or an object with too few or too many parts."""
    fewest, most = node.get(f"min{parts}"), node.get(f"max{parts}")
    if isinstance(fewest, int) and count < fewest:
        why = _in_body(path, f"should have at least {fewest} {parts.lower()}")
        yield invalid(_named(path), count, why)
    if isinstance(most, int) and count > most:
        yield too_many(_named(path), count, most)


def _by_object_rules(node: Json, value: Json, path: str, old: Correlated | None) -> Findings:
    findings = Findings()
    findings.errors += _size_errors(node, "Properties", len(value), path)
    if node.get("additionalProperties") is False:
        properties = mapping(node.get("properties"))
        for key in [key for key in value if key not in properties]:
            why = f"{path}.{key} in body is a forbidden property"
            findings.errors.append(invalid(_named(path), key, why))
    for key, item in value.items():
        inner, _ = below(node, key)
        if inner is not None:
            before = old.field(key) if old is not None else None
            if not path and key in _META_NAMES:
                before = None  # both are taken from the request
            is_named = key in mapping(node.get("properties"))
            where = key if is_named and not path else f"{path}.{key}"
            findings.add(_validated(inner, item, where, before))
    wanted = texts(node.get("required"))
    patterns.count(len(wanted) / _TEXTS_IN_A_CHECK)
    for key in wanted:
        if key not in value:
            patterns.count(1)
            findings.errors.append(required(_named(f"{path}.{key}")))
    return findings


def _by_junctors(node: Json, value: object, path: str, old: Correlated | None) -> Findings:
    findings = Findings(matched=1)
    shown = _json(path)
    any_of, one_of, all_of = (mappings(node.get(name)) for name in ("anyOf", "oneOf", "allOf"))
    patterns.count(len(any_of) + len(one_of) + len(all_of))
    if any_of:
        findings.add(_by_any_of(any_of, value, path, old))
    if one_of:
        findings.add(_by_one_of(one_of, value, path, old))
    if all_of:
        results = [_all_rules(part, value, path, old) for part in all_of]
        for result in results:
            findings.add(result)
        valid = sum(not result.errors for result in results)
        if valid != len(all_of):
            suffix = "" if valid else ". None validated"
            findings.errors.append(_about(f"{shown} must validate all the schemas (allOf){suffix}"))
    excluded = node.get("not")
    if isinstance(excluded, dict) and not _all_rules(excluded, value, path, old).errors:
        findings.errors.append(_about(f"{shown} must not validate the schema (not)"))
    return findings


def _about(message: str) -> FieldError:
    return invalid(_NO_PATH, "", message)


def _by_any_of(parts: list[Json], value: object, path: str, old: Correlated | None) -> Findings:
    best: Findings | None = None
    for part in parts:
        result = _all_rules(part, value, path, old)
        if not result.errors:
            return result
        if best is None or result.matched > best.matched:
            best = result
    findings = Findings([_about(f"{_json(path)} must validate at least one schema (anyOf)")])
    if best is not None:
        findings.add(best)
    return findings


def _by_one_of(parts: list[Json], value: object, path: str, old: Correlated | None) -> Findings:
    results = [_all_rules(part, value, path, old) for part in parts]
    valid = [result for result in results if not result.errors]
    if len(valid) == 1:
        return valid[0]
    how_many = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    message = f"{_json(path)} must validate one and only one schema (oneOf). {how_many}"
    findings = Findings([_about(message)])
    if not valid:
        best = results[0]
        for result in results[1:]:
            if result.matched > best.matched:
                best = result
        findings.add(best)
    return findings
