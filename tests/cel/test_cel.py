"""Expressions over a device, beyond the recorded ones: results, and errors of both kinds.

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
from scheduler.config import DEFAULT_SCHEDULER_VERSION
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


def verdicts() -> SelectorVerdicts:
    return SelectorVerdicts(frozenset(), DEFAULT_SCHEDULER_VERSION)


def verdict(expression: str) -> bool | str:
    """The verdict on the device, or the text of the error."""
    try:
        device = PoolDevice(SLICE, DEVICE)
        return verdicts().match([Selector(Cel(expression))], device)
    except SelectorError as error:
        return str(error)


@pytest.mark.parametrize(
    "expression",
    [
        "-7 / 2 == -3 && -7 % 2 == -1 && 7u - 2u == 5u && 1.5 * 2.0 == 3.0",
        "1 < 2u && 2.5 > 2 && dyn(1) == 1u && dyn(1) == 1.0 && b'a' < b'b' && false < true",
        'device.attributes["other.example.com"].note.contains(".")',
        "[1, 2, 3].exists_one(i, i > 2) && [4, 5].existsOne(i, v, v == 4)",
        'quantity("1Gi").add(quantity("1Gi")).sub(1).isLessThan(quantity("2Gi"))',
        'sign(quantity("-3k")) == -1 && quantity("3k").asInteger() == 3000',
        '!quantity("1500m").isInteger() && quantity("1500m").asApproximateFloat() == 1.5',
        'isQuantity("1Ki") && !isQuantity("one") && quantity("2").isGreaterThan(quantity("1"))',
        'semver("v1.02", true).minor() == 2 && semver("1.2.3").patch() == 3',
        r"""r'\d' == "\\d" && 'it\'s' == "it's" && "\u00e9" == 'é' && '''a"b''' == 'a"b'""",
        '["a", "b"].join("-") == "a-b" && ["a"].join() == "a" && " a ".trim() == "a"',
        '"aBé".upperAscii() == "ABé" && "aB".lowerAscii() == "ab"',
        "sets.contains([1, 2], [2]) && sets.intersects([1], [1]) && sets.equivalent([1], [1, 1])",
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
        (
            f'{GPU}.model.compareTo("1") > 0',
            53,
            "found no matching overload for 'compareTo' applied to 'any.(string)'",
        ),
        ("device.driver.nosuch()", 21, "undeclared reference to 'nosuch' (in container '')"),
        ("nosuch(1)", 7, "undeclared reference to 'nosuch' (in container '')"),
        ("device.driver && true", 7, "expected type 'bool' but found 'string'"),
        ("for == 1", 1, "reserved identifier: for"),
        ("true true", 6, "Syntax error: extraneous input 'true' expecting <EOF>"),
        ("[1 2]", 4, "Syntax error: extraneous input '2' expecting {']', ','}"),
        ("(1", 3, "Syntax error: missing ')' at '<EOF>'"),
        ('device.attributes["a"', 22, "Syntax error: missing ']' at '<EOF>'"),
        ("{1: 2 3: 4}", 7, "Syntax error: mismatched input '3' expecting {'}', ','}"),
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
        ("[1][2] == 1", "index out of bounds: 2"),
        (f"{GPU}.index / 0 == 1", "division by zero"),
        (f"{GPU}.index % 0 == 1", "modulus by zero"),
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
        (
            "lists.range(1000000000000).size() == 1",
            "lists.range: size 1000000000000 exceeds maximum allowed (1000000)",
        ),
    ],
)
def test_errors_while_evaluating(expression: str, error: str) -> None:
    assert verdict(expression) == f"selector #0: CEL runtime error: {error}"


def test_an_attribute_without_a_known_value_is_an_error() -> None:
    broken = Device("broken", attributes={"odd": DeviceAttribute()})
    with pytest.raises(SelectorError, match="attribute odd: unsupported attribute value"):
        verdicts().match([Selector(Cel("true"))], PoolDevice(SLICE, broken))
    old = Device("old", attributes={"v": DeviceAttribute(version_value="1")})
    with pytest.raises(SelectorError, match="attribute v: parse semantic version: No Major"):
        verdicts().match([Selector(Cel("true"))], PoolDevice(SLICE, old))


def test_the_number_of_the_selector_is_named() -> None:
    selectors = [Selector(Cel("true")), Selector(Cel("1"))]
    with pytest.raises(SelectorError, match="selector #1: CEL compile error"):
        verdicts().match(selectors, PoolDevice(SLICE, DEVICE))
