"""The objects that the replay creates for a row of the trace mean the same when read back."""

from conformance.replay.amounts import (
    Amounts,
    allocatable,
    capacity_of_row,
    demand_of_row,
    requested,
)
from conformance.replay.objects import node_object, pod_object
from tests.conformance.replay.evidence import CPU_ONLY, T4, held_node, held_pod, task


def test_a_gpu_counts_a_thousand_of_the_extended_resource() -> None:
    node = node_object(T4)
    assert node["status"]["allocatable"] == {  # type: ignore[index]
        "cpu": "8000m",
        "memory": "16384Mi",
        "example.com/gpu-milli": "2000",
        "pods": "110",
    }
    assert node["metadata"] == {
        "name": "node-t4",
        "labels": {"kubernetes.io/hostname": "node-t4", "example.com/gpu-model": "T4"},
    }


def test_a_node_without_gpus_has_neither_resource_nor_label() -> None:
    node = str(node_object(CPU_ONLY))
    assert "example.com" not in node


def test_a_pod_asks_for_its_gpus_times_their_share() -> None:
    pod = pod_object(task("p", cpu_milli=500, memory_mib=10, gpus=2, gpu_milli=460))
    (container,) = pod["spec"]["containers"]  # type: ignore[index]
    assert container["resources"] == {
        "requests": {"cpu": "500m", "memory": "10Mi", "example.com/gpu-milli": "920"},
        "limits": {"example.com/gpu-milli": "920"},
    }
    assert pod["metadata"] == {
        "name": "p", "namespace": "default", "labels": {"example.com/qos": "LS"},
    }  # fmt: skip


def test_the_models_become_a_required_node_affinity() -> None:
    pod = pod_object(task("p", gpus=1, gpu_milli=1000, models=("T4", "P100")))
    affinity = pod["spec"]["affinity"]["nodeAffinity"]  # type: ignore[index]
    assert affinity == {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {
                            "key": "example.com/gpu-model",
                            "operator": "In",
                            "values": ["T4", "P100"],
                        }
                    ]
                }
            ]
        }
    }


def test_a_pod_for_any_node_has_no_affinity_no_priority_and_no_node() -> None:
    assert set(pod_object(task("p"))["spec"]) == {"containers"}  # type: ignore[call-overload]


def test_the_amounts_survive_the_way_through_quantities() -> None:
    pod = task("p", cpu_milli=11900, memory_mib=1025, gpus=1, gpu_milli=470)
    assert requested(held_pod(pod)) == demand_of_row(pod) == Amounts(11900, 1025 << 20, 470, 1)
    assert allocatable(held_node(T4)) == capacity_of_row(T4) == Amounts(8000, 1 << 34, 2000, 110)


def test_quantities_of_other_forms_are_read_as_exactly() -> None:
    node = held_node(CPU_ONLY)
    node.status.allocatable = {"cpu": "1.5", "memory": "1Gi", "pods": "3"}
    assert allocatable(node) == Amounts(1500, 1 << 30, 0, 3)


def test_resources_that_are_not_requested_are_not_compared() -> None:
    full_of_memory = Amounts(1000, -5, 0, 1)
    assert Amounts(1000, 0, 0, 1).fits_in(full_of_memory)
    assert not Amounts(1000, 1, 0, 1).fits_in(full_of_memory)
