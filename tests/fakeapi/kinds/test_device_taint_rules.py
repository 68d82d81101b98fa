"""DeviceTaintRules, as a kube-apiserver v1.36.3 writes them."""

import copy

import pytest

from fakeapi.kinds.device_taint_rules import KINDS
from fakeapi.types.objects import Json

RULES = KINDS[0].rules
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def rule(selector: Json | None = None, **taint: str) -> Json:
    spec: Json = {"taint": {"key": "a", "effect": "NoSchedule", **taint}}
    return {"spec": spec if selector is None else {"deviceSelector": selector, **spec}}


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        (rule(), []),
        (rule({}), []),
        (rule({"driver": "a_b"}), ["spec.deviceSelector.driver"]),
        (rule({"pool": "a/"}), ["spec.deviceSelector.pool"]),
        (rule({"device": "A.b"}), ["spec.deviceSelector.device"]),
        (rule({"deviceClassName": "A"}), ["spec.deviceSelector.deviceClassName"]),
        (rule({"selectors": [{}]}), ["spec.deviceSelector.selectors[0].cel"]),
        (rule(effect="Bad"), ["spec.taint.effect"]),
        (rule(key="", effect="None"), ["spec.taint.key"]),
    ],
)
def test_the_selector_and_the_taint_are_checked(given: Json, fields: list[str]) -> None:
    assert sorted({error.field for error in RULES.validate(given)}) == fields


@pytest.mark.parametrize(
    ("changes", "time"),
    [
        ({"value": "b"}, NOW),
        ({"effect": "NoExecute"}, LATER),
        ({"effect": "NoExecute", "timeAdded": "2026-01-01T12:00:00Z"}, "2026-01-01T12:00:00Z"),
    ],
)
def test_the_time_of_a_taint_is_that_of_its_effect(changes: dict[str, str], time: str) -> None:
    old = rule()
    RULES.prepare(old, NOW)
    new = copy.deepcopy(old)
    new["spec"]["taint"].update(changes)  # type: ignore[index]
    RULES.prepare_update(new, old, LATER)
    assert new["spec"]["taint"]["timeAdded"] == time  # type: ignore[index]
