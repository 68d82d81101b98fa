"""A captured case has no identifier of the cluster in it, whatever the identifiers look like."""

import json
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.api import Json
from conformance.capture.anonymise import Anonymiser
from conformance.capture.build import captured, document_of

#: A cluster with an identifier in each kept field that may have one: `@N`, or `@N/` before a slash.
CLUSTER: Final = """
- {apiVersion: v1, kind: Namespace, metadata: {name: "@1", labels: {"@2": "@3", "@4/a": "@5"}}}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: "@6"}, value: 5}
- apiVersion: storage.k8s.io/v1
  kind: StorageClass
  metadata: {name: "@7"}
  provisioner: kubernetes.io/no-provisioner
  parameters: {secret: "@8"}
  allowedTopologies: [{matchLabelExpressions: [{key: "@4/a", values: ["@9"]}]}]
- apiVersion: v1
  kind: Node
  metadata: {name: "@10", labels: {kubernetes.io/hostname: "@10", node-role.kubernetes.io/@11: "", "@4.kubernetes.io/a": x, "@4kubernetes.io/a": x}, annotations: {"@12": "@13"}}
  spec: {taints: [{key: "@4/team", value: "@14", effect: NoSchedule}, {key: "@42", value: "@43", effect: NoSchedule}]}
  status: {allocatable: {cpu: "4", pods: "110", "@4/fpga": "1", "@4kubernetes.io/gpu": "1"}, images: [{names: ["@15/web:v2", "@15/web"], sizeBytes: 5}]}
- {apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: "@10"}, spec: {drivers: [{name: ebs.csi.aws.com, nodeID: "@16", topologyKeys: ["@4/rack"]}]}}
- apiVersion: v1
  kind: PersistentVolume
  metadata: {name: "@17"}
  spec: {storageClassName: "@7", claimRef: {namespace: "@1", name: "@18", uid: "@19"}, local: {path: "/@20/data"}, csi: {driver: ebs.csi.aws.com, volumeHandle: "@21", volumeAttributes: {a: "@22"}}}
- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: "@18", namespace: "@1"}, spec: {volumeName: "@17", storageClassName: "@7", selector: {matchLabels: {"@2": "@3"}}}}
- {apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {extendedResourceName: "@4/fpga", config: [{opaque: {driver: gpu, parameters: {a: "@23"}}}]}}
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: "@24"}
  spec: {driver: gpu, nodeName: "@10", pool: {name: "@25"}, devices: [{name: gpu-0, nodeName: "@10", nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: ["@10"]}]}]}}]}
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaim
  metadata: {name: "@26", namespace: "@1"}
  spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}], config: [{opaque: {driver: gpu, parameters: {a: "@27"}}}]}}
  status:
    reservedFor: [{resource: pods, name: "@28", uid: "@29"}]
    allocation: {devices: {results: [{driver: gpu, pool: "@25", device: gpu-0, request: gpu}]}, nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: "@4/rack", operator: In, values: ["@9"]}]}]}}
- {apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: "@30", namespace: "@1"}, spec: {podGroupTemplateRef: {workload: {workloadName: "@31", podGroupTemplateName: "@32"}}, schedulingConstraints: {topology: [{key: "@4/rack"}]}}}
- {apiVersion: apps/v1, kind: StatefulSet, metadata: {name: "@33", namespace: "@1"}, spec: {serviceName: "@34", selector: {matchLabels: {"@2": "@3"}}, template: {metadata: {labels: {"@2": "@3"}}}}}
- {apiVersion: v1, kind: Service, metadata: {name: "@34", namespace: "@1"}, spec: {selector: {"@2": "@3"}, ports: [{name: "@35", port: 80, targetPort: "@36"}]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: "@37", namespace: "@1", labels: {"@2": "@3"}, annotations: {"@12": "@13"}, ownerReferences: [{kind: StatefulSet, name: "@33", controller: true, uid: "@38"}]}
  spec:
    schedulerName: "@39"
    priorityClassName: "@6"
    nodeSelector: {"@4/rack": "@9"}
    tolerations: [{key: "@4/team", operator: Equal, value: "@14"}]
    schedulingGroup: {podGroupName: "@30"}
    affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: "@4/rack", namespaces: ["@1"], labelSelector: {matchExpressions: [{key: "@2", operator: In, values: ["@3"]}]}}]}}
    containers:
    - {name: "@40", image: "@15/web", env: [{name: A, value: "@41"}], command: ["@41"], resources: {requests: {"@4/fpga": "1"}}, ports: [{hostPort: 80, hostIP: "@44"}]}
    volumes:
    - {name: "@45", persistentVolumeClaim: {claimName: "@18"}}
    - {name: "@46", csi: {driver: ebs.csi.aws.com, volumeAttributes: {a: "@22"}, nodePublishSecretRef: {name: "@47"}}}
    - {name: "@48", ephemeral: {volumeClaimTemplate: {metadata: {labels: {"@2": "@3"}, annotations: {"@12": "@13"}}, spec: {storageClassName: "@7"}}}}
    - {name: "@49", iscsi: {targetPortal: "@50", iqn: "@51", lun: 0, initiatorName: "@52", chapAuthDiscovery: true, secretRef: {name: "@47"}}}
    - {name: "@53", rbd: {monitors: ["@54"], image: "@55", pool: "@56", user: "@57", keyring: "@58"}}
    - {name: "@59", azureDisk: {diskName: "@60", diskURI: "@61"}}
    - {name: "@62", hostPath: {path: "/@63"}}
  status:
    conditions:
    - type: PodScheduled
      status: "False"
      reason: Unschedulable
      message: '0/1 nodes are available: 1 Insufficient @4/fpga, 1 node(s) had untolerated taint {@42: @43}, persistentvolumeclaim "@18" not found, pod @1/@37 of @30 waits for "@1/@26" on @10. preemption: 0/1 nodes'
"""  # noqa: E501
CONFIG: Final = """
clientConnection: {kubeconfig: "/@1/kubeconfig"}
leaderElection: {leaderElect: true, resourceName: "@2"}
profiles:
- schedulerName: "@39"
  pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: "@4/rack", operator: Exists}]}]}}}}]
extenders: [{urlPrefix: "https://@5.example", tlsConfig: {caFile: "/@6"}, managedResources: [{name: "@4/fpga"}]}]
"""  # noqa: E501


def _filled(template: str, form: str) -> str:
    """Return a template with an identifier of some form, which has `@`, for each of its numbers."""
    for number in range(70, 0, -1):
        template = template.replace(f"@{number}", form.replace("@", f"zq{number:02}"))
    return template


#: `@` with what may make a reader believe that a name is Kubernetes' own.
FORMS = st.tuples(
    st.sampled_from(["", "system-", "kube-", "kubernetes.io.", "node.", "default-"]),
    st.sampled_from(["", "-system", "-0", ".k8s.io", "kubernetes.io", ".kubernetes.io", "-5"]),
).map("@".join)


@given(FORMS)
def test_no_identifier_of_a_cluster_is_left(form: str) -> None:
    found: list[Json] = msgspec.yaml.decode(_filled(CLUSTER, form), type=list[dict[str, object]])
    config = msgspec.yaml.decode(_filled(CONFIG, form), type=dict[str, object])
    document = document_of(captured(found, config=config), "incident")
    assert "zq" not in json.dumps(document)


def test_the_form_of_what_refers_to_others_stays() -> None:
    """Selectors of nodes stay lists of terms, and equal images with and without a tag equal."""
    found = msgspec.yaml.decode(_filled(CLUSTER, "@"), type=list[dict[str, object]])
    kept = {str(each["kind"]): each for each in captured(found).cluster}
    (device,) = kept["ResourceSlice"]["spec"]["devices"]  # type: ignore[index]
    (term,) = device["nodeSelector"]["nodeSelectorTerms"]
    node = kept["Node"]["metadata"]["name"]  # type: ignore[index]
    assert term["matchFields"][0]["values"] == [node]
    assert device["nodeName"] == node
    allocatable = kept["Node"]["status"]["allocatable"]  # type: ignore[index]
    assert kept["DeviceClass"]["spec"]["extendedResourceName"] in allocatable  # type: ignore[index]


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical", "kube-system"])
def test_names_of_kubernetes_itself_stay(name: str) -> None:
    assert Anonymiser().name(name) == name


@pytest.mark.parametrize(
    "key",
    [
        *("kubernetes.io/hostname", "topology.kubernetes.io/zone", "node.kubernetes.io/not-ready"),
        *("node-role.kubernetes.io/control-plane", "kubernetes.io/metadata.name"),
    ],
)
def test_keys_of_kubernetes_itself_stay(key: str) -> None:
    assert Anonymiser().key(key) == key


def test_an_image_without_a_tag_is_the_latest() -> None:
    pods: list[Json] = [
        {"kind": "Pod", "metadata": {"name": name}, "spec": {"image": image}}
        for name, image in (("a", "a.example/web"), ("b", "a.example/web:latest"))
    ]
    one, other = Anonymiser().objects(pods)
    assert one["spec"] == other["spec"]


@pytest.mark.parametrize(
    "message",
    [
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).",
        "0/3 nodes are available: 3 pod has unbound immediate PersistentVolumeClaims.",
    ],
)
def test_the_own_words_of_a_message_stay_if_something_has_such_a_name(message: str) -> None:
    anonymiser = Anonymiser()
    for word in ("node", "nodes", "pod", "cpu", "affinity", "selector", "s", "Insufficient", "had"):
        anonymiser.name(word)
    assert anonymiser.message(message) == message
