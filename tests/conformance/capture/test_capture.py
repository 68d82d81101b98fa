"""A cluster becomes a case that has the same verdicts, with or without pseudonyms."""

import asyncio
import json
from pathlib import Path

import pytest

from conformance.api import ApiClient, Json
from conformance.capture.build import captured, document_of
from conformance.capture.cluster import read_objects
from conformance.connection import Connection
from conformance.errors import InputError
from conformance.format.case import case_of
from conformance.format.validation import problem_in
from conformance.outcome import Verdict
from conformance.run.observation import observe
from conformance.targets import target_kind
from conformance.targets.target import TargetOptions
from fakeapi import FakeApiServer

from ..cases import run_one, write_cases

#: An incident: a secret of each kind, and pods that find a node or none.
INCIDENT = """
area: incident
cases:
- name: acme
  source: nowhere
  cluster:
  - object: {apiVersion: v1, kind: Namespace, metadata: {name: acme-pay, labels: {acme.com/tier: gold}}}
  - node: {name: acme-node-a, cpu: 2, labels: {acme.com/rack: r1, topology.kubernetes.io/zone: acme-east}, images: {acme.com/bank:v1: 1000}}
  - node: {name: acme-node-b, cpu: 4, resources: {acme.com/fpga: 1}, labels: {acme.com/rack: r2}, taints: ["acme.com/team=pay:NoSchedule"]}
  - node: {name: acme-node-c, cpu: 4, labels: {acme.com/rack: r2, cores: "16"}}
  - node: {name: acme-node-d, cpu: 4, labels: {acme.com/rack: r2, cores: "16"}}
  - pod: {name: acme-db, namespace: acme-pay, node: acme-node-c, labels: {app: acme-db}, cpu: 1, priority: 100}
  - object: {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: acme-fast}, provisioner: ebs.csi.aws.com, volumeBindingMode: WaitForFirstConsumer}
  - object: {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: acme-data, namespace: acme-pay}, spec: {accessModes: [ReadWriteOnce], storageClassName: acme-missing, resources: {requests: {storage: 1Gi}}}}
  - object: {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: acme-budget, namespace: acme-pay}, spec: {minAvailable: 1, selector: {matchLabels: {app: acme-db}}}}
  steps:
  - create:
    - pod:
        name: acme-web
        namespace: acme-pay
        labels: {app: acme-web}
        annotations: {acme.com/secret: hunter2}
        cpu: 1
        image: acme.com/web:v2
        affinity:
          podAntiAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: kubernetes.io/hostname, labelSelector: {matchExpressions: [{key: app, operator: In, values: [acme-db]}]}}
        node_affinity:
          required:
          - matchExpressions: [{key: acme.com/rack, operator: In, values: [r1, r2]}, {key: cores, operator: Gt, values: ["8"]}]
    - pod: {name: acme-fpga, namespace: acme-pay, resources: {acme.com/fpga: 1}, labels: {app: acme-fpga}}
    - pod: {name: acme-none, namespace: acme-pay, node_selector: {acme.com/rack: r9}}
    - pod: {name: acme-claims, namespace: acme-pay, spec: {volumes: [{name: acme-vol, persistentVolumeClaim: {claimName: acme-gone}}]}}
    - pod: {name: acme-gated, namespace: acme-pay, scheduling_gates: [acme.com/wait]}
"""  # noqa: E501


def _objects(tmp_path: Path) -> list[Json]:
    (case,) = write_cases(tmp_path, INCIDENT)
    seen = observe(case, target_kind(TargetOptions()))
    assert seen.outcome.verdict is Verdict.PASSED, seen.outcome.reason
    return seen.objects()


def _replayed(document: Json) -> tuple[Verdict, str]:
    assert problem_in(document) is None
    (raw,) = document["cases"]  # type: ignore[misc]
    case = case_of(raw, area="captured", origin="test")
    outcome = run_one(case, TargetOptions(), timeout_seconds=60.0)
    return outcome.verdict, outcome.reason


@pytest.mark.parametrize("anonymises", [True, False])
def test_pods_without_a_node_have_the_same_messages_again(
    tmp_path: Path, *, anonymises: bool
) -> None:
    found = captured(_objects(tmp_path), anonymises=anonymises)
    assert len(found.expectations) == 4
    assert [*map(sorted, found.expectations)].count(["pod", "unschedulable"]) == 3
    document = document_of(found, "incident")
    assert _replayed(document) == (Verdict.PASSED, "")


def test_a_bound_pod_is_decided_again_without_what_came_later(tmp_path: Path) -> None:
    found = captured(_objects(tmp_path), names=["acme-pay/acme-web"], anonymises=False)
    assert found.expectations == [{"pod": "acme-pay/acme-web", "bound_to": "acme-node-d"}]
    assert _replayed(document_of(found, "incident")) == (Verdict.PASSED, "")


def test_no_name_label_or_image_of_the_cluster_is_left(tmp_path: Path) -> None:
    text = json.dumps(document_of(captured(_objects(tmp_path)), "incident"))
    assert "acme" not in text
    for secret in ("hunter2", "r9", "gold", '"app"'):
        assert secret not in text
    for kept in ("topology.kubernetes.io/zone", "kubernetes.io/hostname", "ebs.csi.aws.com", "16"):
        assert kept in text


def test_equal_values_have_equal_pseudonyms_in_selectors_and_messages(tmp_path: Path) -> None:
    objects = _objects(tmp_path)
    found = captured(objects, names=["acme-pay/acme-web", "acme-pay/acme-fpga"])
    fpga, web = sorted(found.waiting, key=lambda pod: "affinity" in pod["spec"])  # type: ignore[operator]
    nodes = {each["metadata"]["name"]: each for each in found.cluster if each["kind"] == "Node"}  # type: ignore[index]
    (rack,) = web["spec"]["affinity"]["nodeAffinity"][  # type: ignore[index]
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"][0]["matchExpressions"][:1]
    values = {node["metadata"]["labels"][rack["key"]] for node in nodes.values()}  # type: ignore[index]
    assert values == set(rack["values"])
    (resource,) = fpga["spec"]["containers"][0]["resources"]["limits"]  # type: ignore[index]
    assert any(resource in node["status"]["allocatable"] for node in nodes.values())  # type: ignore[index]
    messages = [str(each.get("unschedulable")) for each in found.expectations]
    assert any(f"Insufficient {resource}" in message for message in messages)


def test_names_that_do_not_exist_and_clusters_without_waiting_pods_are_refused(
    tmp_path: Path,
) -> None:
    objects = _objects(tmp_path)
    with pytest.raises(InputError, match="there is no pod default/nobody"):
        captured(objects, names=["default/nobody"])
    with pytest.raises(InputError, match="no pod waits for a node"):
        captured([each for each in objects if each["kind"] == "Node"])


def test_objects_are_read_from_a_server() -> None:
    async def read() -> list[Json]:
        async with (
            FakeApiServer() as server,
            ApiClient(Connection(server.url)) as api,
        ):
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
            await api.create(node)
            return await read_objects(api)

    kinds = [each["kind"] for each in asyncio.run(read())]
    assert kinds.count("Node") == 1
    assert "Namespace" in kinds
