"""Values of expressions as attributes (v1.37), and the errors of selectors.

The table is that of upstream's `TestEvaluateDerivedAttributes`, and some more errors.
"""

import pytest

from scheduler.api.dynamic_resources import (
    CELDeviceSelector,
    Device,
    DeviceAttribute,
    DeviceSelector,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from scheduler.config import SchedulerVersion
from scheduler.devices.pools import PoolDevice
from scheduler.devices.selectors import SelectorError, SelectorVerdicts

A = 'device.attributes["driver-a"]'
DEVICE = Device(
    "dev",
    attributes={
        "flag": DeviceAttribute(bool_value=True),
        "number": DeviceAttribute(int_value=42),
        "text": DeviceAttribute(string_value="hello"),
        "version": DeviceAttribute(version_value="1.0.0"),
        "flags": DeviceAttribute(bool_values=(True, False)),
        "numbers": DeviceAttribute(int_values=(1, 2, 3)),
        "texts": DeviceAttribute(string_values=("hello", "world")),
        "versions": DeviceAttribute(version_values=("1.0.0", "2.0.0-rc.1+b")),
    },
)
POOL_DEVICE = PoolDevice(
    ResourceSlice(spec=ResourceSliceSpec("driver-a", ResourcePool("p"), devices=(DEVICE,))), DEVICE
)
VERDICTS = SelectorVerdicts(frozenset(), SchedulerVersion.V1_37)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("true", DeviceAttribute(bool_value=True)),
        ("42", DeviceAttribute(int_value=42)),
        ('"hello"', DeviceAttribute(string_value="hello")),
        ('semver("1.0.0")', DeviceAttribute(version_value="1.0.0")),
        ("[true, false]", DeviceAttribute(bool_values=(True, False))),
        ("[1, 2, 3]", DeviceAttribute(int_values=(1, 2, 3))),
        ('["hello", "world"]', DeviceAttribute(string_values=("hello", "world"))),
        ('[semver("1.0.0")]', DeviceAttribute(version_values=("1.0.0",))),
        ("[]", DeviceAttribute(string_values=())),
        *((f'{A}["{name}"]', value) for name, value in DEVICE.attributes.items()),
    ],
)
def test_a_value_of_an_expression_is_an_attribute(expression: str, value: DeviceAttribute) -> None:
    assert VERDICTS.derived("d", expression, POOL_DEVICE) == value


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (f"[dyn({A}.version), dyn({A}.text)]", "list element at index 1 to be semver, got string"),
        (f"[dyn({A}.flag), dyn({A}.text)]", "expected list element at index 1 to be bool"),
        (f"[dyn({A}.number), dyn({A}.text)]", "expected list element at index 1 to be int"),
        (f"[dyn({A}.text), dyn({A}.number)]", "index 1 to be string, got int64"),
        (f'{A}["{{nosuch}}"]', r"no such key: \{nosuch\}"),
        (f'{A}.number + "hello"', "no such overload"),
        ("dyn(null)", "unsupported CEL return type: structpb.NullValue"),
        ("[dyn(1.5)]", "unsupported list element type: float64"),
    ],
)
def test_a_value_that_is_no_attribute_is_an_error(expression: str, error: str) -> None:
    with pytest.raises(SelectorError, match=error) as caught:
        VERDICTS.derived("d", expression, POOL_DEVICE)
    where = "evaluate derived attribute d on device driver-a/p/dev failed: "
    assert str(caught.value).startswith(where)


def test_an_expression_of_a_derived_attribute_must_be_able_to_be_one() -> None:
    with pytest.raises(SelectorError) as caught:
        VERDICTS.derived("d", '{"a": 1}', POOL_DEVICE)
    assert str(caught.value) == (
        "compile derived attribute d failed: must evaluate to a primitive scalar (string, integer, "
        "boolean, semver) or a list of these scalars, not map(string, int)"
    )


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (
            f"{A}.nosuch == 1",
            "selector #0 on device driver-a/p/dev: CEL runtime error: no such key: nosuch. "
            "consider using CEL optional chaining (.? followed by orValue()) or guarding the check "
            "with has() for optional fields",
        ),
        (
            f"{A}.number / 0 == 1",
            "selector #0 on device driver-a/p/dev: CEL runtime error: division by zero",
        ),
    ],
)
def test_errors_of_v1_37_name_the_device(expression: str, error: str) -> None:
    with pytest.raises(SelectorError) as caught:
        VERDICTS.match([DeviceSelector(CELDeviceSelector(expression))], POOL_DEVICE)
    assert str(caught.value) == error
