"""Expressions over a device: results, errors while compiling and errors while evaluating.

The texts of errors are cel-go's.
"""

import json
from pathlib import Path

import pytest

from scheduler.api.dynamic_resources import CELDeviceSelector as Cel
from scheduler.api.dynamic_resources import (
    Device,
    DeviceAttribute,
    DeviceCapacity,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from scheduler.api.dynamic_resources import DeviceSelector as Selector
from scheduler.devices.pools import PoolDevice
from scheduler.devices.selectors import SelectorError, SelectorVerdicts

RECORDED = Path(__file__).parent / "recorded.jsonl"
GPU = 'device.attributes["gpu.example.com"]'
DEVICE = Device(
    "gpu-0",
    attributes={
        "model": DeviceAttribute(string_value="a100"),
        "index": DeviceAttribute(int_value=7),
        "healthy": DeviceAttribute(bool_value=True),
        "driverVersion": DeviceAttribute(version_value="1.2.3-rc.1+build.5"),
        "other.example.com/note": DeviceAttribute(string_value="x.y"),
    },
    capacity={"memory": DeviceCapacity("40Gi")},
    allow_multiple_allocations=True,
)
SLICE = ResourceSlice(
    spec=ResourceSliceSpec("gpu.example.com", ResourcePool("node"), devices=(DEVICE,))
)


def verdict(expression: str) -> bool | str:
    """The verdict on the device, or the text of the error."""
    try:
        device = PoolDevice(SLICE, DEVICE)
        return SelectorVerdicts().match([Selector(Cel(expression))], device)
    except SelectorError as error:
        return str(error)


@pytest.mark.parametrize(
    "expression",
    [
        f'{GPU}.model == "a100" && {GPU}["index"] == 7',
        f"{GPU}.index / 2 == 3 && {GPU}.index % 4 == 3 && -{GPU}.index == -7",
        "-7 / 2 == -3 && -7 % 2 == -1 && 7u - 2u == 5u && 1.5 * 2.0 == 3.0",
        "1 < 2u && 2.5 > 2 && dyn(1) == 1u && dyn(1) == 1.0 && b'a' < b'b' && false < true",
        "9223372036854775807 > -9223372036854775808 && 0x1F == 31",
        f"!(!{GPU}.healthy) && --1 == 1",
        f'{GPU}.model in ["a100", "h100"] && !("nosuch" in {GPU})',
        '"gpu.example.com" in device.attributes && !("other" in device.capacity)',
        f'has({GPU}.model) && !has({GPU}.nosuch) && size({GPU}) == 4 && "abc".size() == 3',
        # A domain that is not there is an empty map.
        'device.attributes["nosuch"].size() == 0 && !has(device.attributes["nosuch"].x)',
        'device.attributes["other.example.com"].note.contains(".")',
        f'{GPU}.?nosuch.orValue("none") == "none" && {GPU}.?model.hasValue()',
        f'{GPU}[?"model"].value() == "a100" && !{GPU}[?"nosuch"].hasValue()',
        f'{GPU}.?nosuch.or({GPU}.?model).orValue("") == "a100"',
        f"{GPU}.?index.optMap(i, i + 1).orValue(0) == 8",
        f"{GPU}.?index.optFlatMap(i, optional.of(i)).value() == 7",
        'optional.none().or(optional.ofNonZeroValue("a")).hasValue()',
        f'cel.bind(gpu, {GPU}, gpu.model != "t4" && gpu.healthy)',
        f'{GPU}.exists(k, k == "model") && {GPU}.all(k, size(k) < 20)',
        "[1, 2, 3].exists_one(i, i > 2) && [4, 5].existsOne(i, v, v == 4)",
        "[1, 2, 3].filter(i, i > 1).map(i, i * 2) == [4, 6]",
        "[1, 2, 3].map(i, i > 1, i * 2) == [4, 6] && [4, 5].all(i, v, v == i + 4)",
        '{"a": 1, "b": 2}.all(k, v, v < 3) && {"a": [1]}.a[0] == 1 && {1: 2}[1] == 2',
        # A result that is certain outweighs errors.
        f'{GPU}.nosuch == "x" || true',
        f'!({GPU}.nosuch == "x" && false)',
        "[1, 0].exists(i, 1 / i == 1) && ![0, 2].all(i, 2 / i == 2)",
        f"{GPU}.index > 3 ? true : {GPU}.nosuch",
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("40960Mi")) == 0',
        'device.capacity["gpu.example.com"].memory == quantity("40Gi")',
        'quantity("1Gi").add(quantity("1Gi")).sub(1).isLessThan(quantity("2Gi"))',
        'sign(quantity("-3k")) == -1 && quantity("3k").asInteger() == 3000',
        '!quantity("1500m").isInteger() && quantity("1500m").asApproximateFloat() == 1.5',
        'isQuantity("1Ki") && !isQuantity("one") && quantity("2").isGreaterThan(quantity("1"))',
        f'{GPU}.driverVersion.isLessThan(semver("1.2.3"))',
        f'{GPU}.driverVersion == semver("1.2.3-rc.1+other")',
        f'{GPU}.driverVersion.compareTo(semver("1.2.3-rc.1.0")) == -1',
        'semver("v1.02", true).minor() == 2 && semver("1.2.3").patch() == 3',
        'isSemver("1.2.3") && !isSemver("1.2") && isSemver("1.2", true)',
        'semver("1.0.0-1").isLessThan(semver("1.0.0-a")) && semver("2.0.0").major() == 2',
        r'"a100".matches("^(a|h)[0-9]+$") && matches("x", "x") && "a\tb".size() == 3',
        r"""r'\d' == "\\d" && 'it\'s' == "it's" && "\u00e9" == 'é' && '''a"b''' == 'a"b'""",
        '"a,b".split(",") == ["a", "b"] && "a,b,c".split(",", 2) == ["a", "b,c"]',
        '["a", "b"].join("-") == "a-b" && ["a"].join() == "a" && " a ".trim() == "a"',
        '"abcabc".indexOf("c") == 2 && "abcabc".lastIndexOf("c") == 5',
        '"abc".indexOf("a", 1) == -1 && "abc".lastIndexOf("c", 1) == -1',
        '"abc".substring(1) == "bc" && "abc".substring(0, 1) == "a" && "abc".charAt(1) == "b"',
        '"aXa".replace("a", "b") == "bXb" && "aa".replace("a", "b", 1) == "ba"',
        '"aBé".upperAscii() == "ABé" && "aB".lowerAscii() == "ab"',
        '"abc".startsWith("a") && "abc".endsWith("c")',
        '"a1b22".findAll("[0-9]+") == ["1", "22"] && "a1".find("[0-9]") == "1"',
        '"a1b2".findAll("[0-9]", 1) == ["1"] && "a".find("[0-9]") == ""',
        "[1, 2].indexOf(2) == 1 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(2) == -1",
        "[3, 1, 2].sort() == [1, 2, 3] && [1, 2].isSorted() && [1, 2].sum() == 3",
        "[3, 1].min() == 1 && [3, 1].max() == 3 && [1, 1].distinct() == [1]",
        "[1, 2].reverse() == [2, 1] && [[1], [2]].flatten() == [1, 2]",
        "[1, 2, 3].slice(1, 2) == [2] && lists.range(2) == [0, 1] && [1] + [2] == [1, 2]",
        "sets.contains([1, 2], [2]) && sets.intersects([1], [1]) && sets.equivalent([1], [1, 1])",
        'int("7") == 7 && double("1.5") == 1.5 && string(1) == "1" && uint(1) == 1u',
        'bool("true") && !bool("f") && string(true) == "true" && string(b"a") == "a"',
        'bytes("a") == b"a" && string(1.0) == "1" && int(2.9) == 2 && double(1) == 1.0',
        "device.allowMultipleAllocations && type(1) == int && null == null",
        f"// a comment\n{GPU}.healthy",
    ],
)
def test_expressions_that_hold(expression: str) -> None:
    assert verdict(expression) is True


@pytest.mark.parametrize(
    ("expression", "expected"),
    [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()],
)
def test_recorded_expressions(expression: str, expected: str) -> None:
    """The answers of cel-go with Kubernetes' libraries for the same device."""
    found = verdict(expression)
    text = str(found).lower() if isinstance(found, bool) else found.removeprefix("selector #0: ")
    assert text == expected


@pytest.mark.parametrize(
    ("expression", "missing"),
    [
        ('url("https://a/b").getHost() == "a"', "'url'"),
        ('"%s".format(["a"]) == "a"', "'format'"),
        ('strings.quote("a") == "a"', "'quote'"),
        ('format.named("dns1123Label").hasValue()', "'named'"),
        ("type(duration('1s')) == google.protobuf.Duration", "'google'"),
        ("type(ip('::1')) == net.IP", "'net'"),
    ],
)
def test_functions_that_are_not_built_are_an_error(expression: str, missing: str) -> None:
    start = "selector #0: CEL compile error: compilation failed: "
    found = str(verdict(expression))
    assert found.startswith(start)
    assert f"undeclared reference to {missing} (in container '')" in found


def test_the_hour_in_a_time_zone_is_an_error() -> None:
    found = verdict('timestamp("2024-02-29T12:30:40Z").getHours("+01:00") == 13')
    assert "found no matching overload for 'getHours' applied to 'timestamp.(string)'" in str(found)


@pytest.mark.parametrize("expression", ["1 == 2", f"{GPU}.index > 7", 'device.driver == "nic"'])
def test_expressions_that_do_not_hold(expression: str) -> None:
    assert verdict(expression) is False


@pytest.mark.parametrize(
    ("expression", "position", "error"),
    [
        ("undeclared == 1", 1, "undeclared reference to 'undeclared' (in container '')"),
        ("device.nosuch == 1", 7, "undefined field 'nosuch'"),
        (
            "device.driver == 1",
            15,
            "found no matching overload for '_==_' applied to '(string, int)'",
        ),
        (
            f'{GPU}.model.compareTo("1") > 0',
            53,
            "found no matching overload for 'compareTo' applied to 'any.(string)'",
        ),
        ("device.driver.nosuch()", 21, "undeclared reference to 'nosuch' (in container '')"),
        ("nosuch(1)", 7, "undeclared reference to 'nosuch' (in container '')"),
        ("device.driver && true", 7, "expected type 'bool' but found 'string'"),
        ('[1, "a"].size() == 2', 5, "expected type 'int' but found 'string'"),
        ("device.driver.x == 1", 14, "type 'string' does not support field selection"),
        (
            "device.driver.all(c, true)",
            7,
            "expression of type 'string' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
        ),
        ("[1].all(i, i)", 12, "expected type 'bool' but found 'int'"),
        ("for == 1", 1, "reserved identifier: for"),
        ("has(1)", 5, "invalid argument to has() macro"),
        ("[1].all(1, true)", 9, "argument must be a simple name"),
        ("true true", 6, "Syntax error: extraneous input 'true' expecting <EOF>"),
        ("[1 2]", 4, "Syntax error: extraneous input '2' expecting {']', ','}"),
        ("(1", 3, "Syntax error: missing ')' at '<EOF>'"),
        ('device.attributes["a"', 22, "Syntax error: missing ']' at '<EOF>'"),
        ("{1: 2 3: 4}", 7, "Syntax error: mismatched input '3' expecting {'}', ','}"),
        ("99999999999999999999 == 1", 1, "invalid int literal"),
    ],
)
def test_problems_are_shown_with_their_line(expression: str, position: int, error: str) -> None:
    mark = "." * (position - 1)
    assert verdict(expression) == (
        f"selector #0: CEL compile error: compilation failed: ERROR: <input>:1:{position}: "
        f"{error}\n | {expression}\n | {mark}^"
    )


def test_problems_of_several_lines_are_in_order() -> None:
    found = verdict("first &&\n  second\n  == 1")
    lines = str(found).split("compilation failed: ")[1].split("\n")
    assert lines == [
        "ERROR: <input>:1:1: undeclared reference to 'first' (in container '')",
        " | first &&",
        " | ^",
        "ERROR: <input>:2:3: undeclared reference to 'second' (in container '')",
        " |   second",
        " | ..^",
    ]


@pytest.mark.parametrize(
    ("expression", "type"), [("device.driver", "string"), ("1 + 1", "int"), ("dyn(true)", "dyn")]
)
def test_the_result_must_be_a_bool(expression: str, type: str) -> None:
    text = f"must evaluate to bool or the unknown type, not {type}"
    assert verdict(expression) == f"selector #0: CEL compile error: {text}"


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (f'{GPU}.nosuch == "x"', "no such key: nosuch"),
        (f'{GPU}["nosuch"] == "x"', "no such key: nosuch"),
        ("[1][2] == 1", "index out of bounds: 2"),
        (f"{GPU}.index / 0 == 1", "division by zero"),
        (f"{GPU}.index % 0 == 1", "modulus by zero"),
        (f'{GPU}.index < "x"', "no such overload"),
        (f"{GPU}.model && {GPU}.healthy", "no such overload"),
        (f"{GPU}.model ? true : false", "no such overload"),
        (f"{GPU}.model.x == 1", "no such key: x"),
        (f"!{GPU}.model", "no such overload"),
        (f"{GPU}.model + 1 == 1", "no such overload"),
        (f"{GPU}.driverVersion == {GPU}.model", "no such overload"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ('semver("1.x").major() == 1', "No Major.Minor.Patch elements found"),
        ('semver("").major() == 1', "Version string empty"),
        ('semver("1.x.0").major() == 1', 'Invalid character(s) found in minor number "x"'),
        ('semver("01.0.0").major() == 1', 'Major number must not contain leading zeroes "01"'),
        (
            'quantity("nope").isInteger()',
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ('quantity("1500m").asInteger() == 1', "cannot convert value to integer"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        # cel-go has maps with such keys.
        ("{[1]: 2}.size() == 1", "unsupported key type: list"),
        ("[1] in dyn({1: 2})", "unsupported key type: list"),
        ('"abc".substring(4) == ""', "index out of range: 4"),
        ("[].min() == 1", "min called on empty list"),
        (
            f"{GPU}.model",
            "CEL result of type string could not be converted to bool: unsupported native "
            "conversion from string to 'bool'",
        ),
        (
            "lists.range(2000).all(i, lists.range(2000).all(j, i + j >= 0))",
            "operation cancelled: actual cost limit exceeded",
        ),
    ],
)
def test_errors_while_evaluating(expression: str, error: str) -> None:
    assert verdict(expression) == f"selector #0: CEL runtime error: {error}"


def test_an_attribute_without_a_known_value_is_an_error() -> None:
    broken = Device("broken", attributes={"odd": DeviceAttribute()})
    with pytest.raises(SelectorError, match="attribute odd: unsupported attribute value"):
        SelectorVerdicts().match([Selector(Cel("true"))], PoolDevice(SLICE, broken))
    old = Device("old", attributes={"v": DeviceAttribute(version_value="1")})
    with pytest.raises(SelectorError, match="attribute v: parse semantic version: No Major"):
        SelectorVerdicts().match([Selector(Cel("true"))], PoolDevice(SLICE, old))


def test_the_number_of_the_selector_is_named() -> None:
    selectors = [Selector(Cel("true")), Selector(Cel("1"))]
    with pytest.raises(SelectorError, match="selector #1: CEL compile error"):
        SelectorVerdicts().match(selectors, PoolDevice(SLICE, DEVICE))
