"""The smallest value with a property is the one that a person would write by hand."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, find, settings
from hypothesis.strategies import SearchStrategy

from conformance import strategies
from conformance.format.short_forms import entries_of
from tests.thoroughness import examples, thorough_only

pytestmark = pytest.mark.slow

_FAST = settings(
    max_examples=examples(5000),
    derandomize=True,  # from another seed it may end at another small value
    suppress_health_check=[*HealthCheck],
)


def _smallest(strategy: SearchStrategy[Any], condition: Callable[[Any], bool]) -> Any:
    return find(strategy, condition, settings=_FAST)


def _spec(pod: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = pod["spec"]
    return spec


def test_a_node() -> None:
    (entry,) = entries_of([_smallest(strategies.nodes(), lambda _: True)])
    assert entry == {"node": {"name": "a"}}


def test_a_tainted_node() -> None:
    node = _smallest(strategies.nodes(), lambda node: "taints" in node["spec"])
    assert entries_of([node]) == [{"node": {"name": "a", "taints": ["dedicated=db:NoSchedule"]}}]


def test_a_pod() -> None:
    assert entries_of([_smallest(strategies.pods(), lambda _: True)]) == [{"pod": {"name": "p"}}]


@pytest.mark.parametrize(
    ("has", "expected"),
    [
        (lambda pod: "tolerations" in pod["spec"], {"tolerations": [{"key": "dedicated"}]}),
        (lambda pod: "nodeSelector" in pod["spec"], {"node_selector": {"disk": "ssd"}}),
        (
            lambda pod: "ports" in pod["spec"]["containers"][0],
            {"host_ports": [80]},
        ),
        (
            lambda pod: "topologySpreadConstraints" in pod["spec"],
            {
                "spec": {
                    "topologySpreadConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "DoNotSchedule",
                            "labelSelector": {"matchLabels": {"tier": "front"}},
                        }
                    ]
                }
            },
        ),
        (
            lambda pod: "podAntiAffinity" in pod["spec"].get("affinity", {}),
            {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
                        ]
                    }
                }
            },
        ),
    ],
)
def test_a_pod_with_one_feature(
    has: Callable[[dict[str, Any]], bool], expected: dict[str, Any]
) -> None:
    (entry,) = entries_of([_smallest(strategies.pods(), has)])
    if "tolerations" in expected:
        assert [{"key": t["key"]} for t in entry["pod"].pop("tolerations")] == expected.pop(
            "tolerations"
        )
    assert entry == {"pod": {"name": "p", **expected}}


@thorough_only
def test_a_cluster_with_two_pods_on_one_node() -> None:
    def crowded(cluster: strategies.Cluster) -> bool:
        used = [_spec(pod)["nodeName"] for pod in cluster.pods if "nodeName" in _spec(pod)]
        return len(used) > len({*used})

    cluster = _smallest(strategies.clusters(), crowded)
    assert entries_of(cluster.objects) == [
        {"node": {"name": "a"}},
        {"pod": {"name": "p1", "node": "a"}},
        {"pod": {"name": "p2", "node": "a"}},
    ]


@thorough_only
def test_a_case() -> None:
    case = _smallest(
        strategies.cases(nodes_max=2, pods_max=2),
        lambda case: any("pod" in step.get("delete", {}) for step in case.raw["steps"]),
    )
    assert yaml.safe_load(
        """
        name: drawn
        source: conformance.strategies.cases
        cluster: [node: {name: a}]
        steps:
        - create: [pod: {name: p1}]
        - delete: {pod: p1}
        - advance: 15s
        """
    ) == dict(case.raw)


def test_a_configuration() -> None:
    assert _smallest(strategies.configurations(), lambda _: True) == {}
    assert _smallest(strategies.configurations(), lambda config: "parallelism" in config) == {
        "parallelism": 16
    }
