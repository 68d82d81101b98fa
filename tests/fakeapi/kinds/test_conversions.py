"""Fields that have the same value twice, and fields that only requests have."""

from __future__ import annotations

from typing import Any

import pytest

from fakeapi.kinds.built_in import BUILT_IN
from fakeapi.types.kind import KindTable

KINDS = KindTable(BUILT_IN)


def set_defaults(group: str, plural: str, obj: dict[str, Any]) -> None:
    kind = KINDS.find(group, "v1", plural)
    assert kind is not None
    kind.rules.set_defaults(obj)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"podIP": "1.1.1.1"}, {"podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}]}),
        ({"podIPs": [{"ip": "1.1.1.1"}]}, {"podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}]}),
        (
            {"podIP": "2.2.2.2", "podIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}]},
            {"podIP": "2.2.2.2", "podIPs": [{"ip": "2.2.2.2"}]},
        ),
        ({"phase": "Running"}, {"phase": "Running"}),
    ],
)
def test_the_address_of_a_pod_is_the_first_of_its_addresses(given: Any, expected: Any) -> None:
    pod = {"status": given}
    set_defaults("", "pods", pod)
    assert pod["status"] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"podCIDR": "a"}, {"podCIDR": "a", "podCIDRs": ["a"]}),
        ({"podCIDRs": ["a", "b"]}, {"podCIDR": "a", "podCIDRs": ["a", "b"]}),
        ({"podCIDR": "c", "podCIDRs": ["a", "b"]}, {"podCIDR": "c", "podCIDRs": ["c"]}),
        ({}, {}),
    ],
)
def test_the_range_of_a_node_is_the_first_of_its_ranges(given: Any, expected: Any) -> None:
    node = {"spec": given}
    set_defaults("", "nodes", node)
    assert node["spec"] == expected


def test_strings_of_a_secret_become_data() -> None:
    secret: dict[str, Any] = {"stringData": {"a": "b"}, "data": {"a": "eA==", "c": "ZA=="}}
    set_defaults("", "secrets", secret)
    assert secret == {"type": "Opaque", "data": {"a": "Yg==", "c": "ZA=="}}


def test_claim_templates_have_a_kind() -> None:
    stateful_set: dict[str, Any] = {"spec": {"volumeClaimTemplates": [{"metadata": {}}]}}
    set_defaults("apps", "statefulsets", stateful_set)
    template = stateful_set["spec"]["volumeClaimTemplates"][0]
    assert (template["kind"], template["apiVersion"]) == ("PersistentVolumeClaim", "v1")


def test_a_daemon_set_always_has_a_template_generation() -> None:
    daemon_set: dict[str, Any] = {"metadata": {"name": "d"}}
    set_defaults("apps", "daemonsets", daemon_set)
    annotations = daemon_set["metadata"]["annotations"]
    assert annotations == {"deprecated.daemonset.template.generation": "0"}
