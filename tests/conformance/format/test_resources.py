"""Quantities and requests as the suite computes them."""

from typing import Any

import pytest

from conformance.format.resources import NANO, nano_units, pod_requests, shown

QUANTITIES = [
    ("0", 0),
    ("100m", NANO // 10),
    ("0.1", NANO // 10),
    ("1e3", 1000 * NANO),
    ("1E3", 1000 * NANO),
    ("1E", 10**18 * NANO),
    ("1.5Gi", 3 * 2**29 * NANO),
    ("2k", 2000 * NANO),
    ("5n", 5),
    ("0.1n", 1),
    ("-1", -NANO),
    (".5", NANO // 2),
    ("5.", 5 * NANO),
]


@pytest.mark.parametrize(("quantity", "nano"), QUANTITIES)
def test_quantities_are_exact_and_rounded_up(quantity: str, nano: int) -> None:
    assert nano_units(quantity) == nano


@pytest.mark.parametrize("quantity", ["", "x", "1x", "1..2", "Gi"])
def test_other_texts_are_refused(quantity: str) -> None:
    with pytest.raises(ValueError):
        nano_units(quantity)


@pytest.mark.parametrize(("nano", "text"), [(NANO, "1"), (NANO + 1, "1001m"), (0, "0")])
def test_amounts_are_shown_in_units_or_thousandths(nano: int, text: str) -> None:
    assert shown(nano) == text


def _container(cpu: int, *, is_sidecar: bool = False) -> dict[str, Any]:
    restart = {"restartPolicy": "Always"} if is_sidecar else {}
    return {"resources": {"requests": {"cpu": str(cpu)}}, **restart}


#: Init containers, containers, further fields of the spec, and the sum.
PODS: list[tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any], int]] = [
    ([], [_container(1), _container(2)], {}, 3),
    ([_container(5)], [_container(1), _container(2)], {}, 5),
    ([_container(2, is_sidecar=True)], [_container(1)], {}, 3),
    ([_container(2, is_sidecar=True), _container(5)], [_container(1)], {}, 7),
    ([_container(5), _container(2, is_sidecar=True)], [_container(1)], {}, 5),
    ([_container(5)], [_container(1)], {"resources": {"requests": {"cpu": "4"}}}, 4),
    ([], [_container(1)], {"overhead": {"cpu": "1"}}, 2),
]


@pytest.mark.parametrize(("init", "containers", "more", "cpu"), PODS)
def test_requests_of_a_pod(
    init: list[dict[str, Any]], containers: list[dict[str, Any]], more: dict[str, Any], cpu: int
) -> None:
    spec = {"initContainers": init, "containers": containers, **more}
    assert pod_requests({"spec": spec}) == {"cpu": cpu * NANO}
