"""Rows of all kinds but pods. Cases as in upstream's printers_test.go."""

from typing import Any

import pytest

from fakeapi.kinds.built_in import BUILT_IN
from fakeapi.printing.tables import columns_of, row
from fakeapi.types.kind import KindTable

Json = dict[str, Any]
NOW_SECONDS = 1000.0
KINDS = KindTable(BUILT_IN)
SELECTOR = {
    "matchLabels": {"b": "2"},
    "matchExpressions": [
        {"key": "c", "operator": "In", "values": ["y", "x"]},
        {"key": "a", "operator": "NotIn", "values": ["z"]},
        {"key": "d", "operator": "Exists"},
        {"key": "e", "operator": "DoesNotExist"},
    ],
}
SELECTED = "a notin (z),b=2,c in (x,y),d,!e"
TEMPLATE = {"spec": {"containers": [{"name": "c1", "image": "i1"}, {"name": "c2", "image": "i2"}]}}
TEMPLATED = ["c1,c2", "i1,i2"]
AGE = "16m"


def cells(group: str, plural: str, obj: Json) -> list[object]:
    """Return the cells of an object."""
    kind = next(k for k in BUILT_IN if (k.group, k.plural) == (group, plural))
    metadata = {"name": "x", "creationTimestamp": "1970-01-01T00:00:00Z", **obj.get("metadata", {})}
    made = row(kind, columns_of(kind), {**obj, "metadata": metadata}, NOW_SECONDS)
    found = made["cells"]
    assert isinstance(found, list)
    return found


CASES: list[tuple[str, str, Json, list[object]]] = [
    ("", "nodes", {}, ["x", "Unknown", "<none>", AGE, "", *["<none>"] * 2, *["<unknown>"] * 3]),
    (
        "",
        "nodes",
        {
            "metadata": {
                "labels": {
                    "node-role.kubernetes.io/worker": "",
                    "node-role.kubernetes.io/": "",
                    "kubernetes.io/role": "edge",
                }
            },
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "False"}],
                "addresses": [
                    {"type": "ExternalIP", "address": "1.1.1.1"},
                    {"type": "InternalIP", "address": "10.0.0.1"},
                ],
                "nodeInfo": {
                    "kubeletVersion": "v1.36.3",
                    "osImage": "os",
                    "kernelVersion": "6.1",
                    "architecture": "amd64",
                    "containerRuntimeVersion": "cri",
                },
            },
        },
        [
            "x",
            "NotReady,SchedulingDisabled",
            "edge,worker",
            AGE,
            "v1.36.3",
            "10.0.0.1",
            "1.1.1.1",
            "os",
            "6.1 (amd64)",
            "cri",
        ],
    ),
    (
        "",
        "events",
        {
            "firstTimestamp": "1970-01-01T00:15:00Z",
            "lastTimestamp": "1970-01-01T00:16:00Z",
            "count": 6,
            "type": "Warning",
            "reason": "R",
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.x"},
            "source": {"component": "kubelet", "host": "n1"},
            "message": " text\n",
        },
        ["40s", "Warning", "R", "pod/p", "spec.x", "kubelet, n1", "text", "100s", 6, "x"],
    ),
    (
        "",
        "events",
        {
            "eventTime": "1970-01-01T00:15:00.000000Z",
            "series": {"count": 3, "lastObservedTime": "1970-01-01T00:16:00.000000Z"},
            "involvedObject": {"kind": "Node"},
            "source": {},
            "reportingComponent": "sched",
        },
        ["40s", "", "", "node", "", "sched", "", "100s", 3, "x"],
    ),
    ("", "events", {}, ["<unknown>", "", "", "", "", "", "", "<unknown>", 1, "x"]),
    ("", "namespaces", {"status": {"phase": "Active"}}, ["x", "Active", AGE]),
    ("", "configmaps", {"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}, ["x", 3, AGE]),
    ("", "secrets", {"type": "Opaque", "data": {"a": ""}}, ["x", "Opaque", 1, AGE]),
    ("", "serviceaccounts", {}, ["x", AGE]),
    (
        "",
        "services",
        {
            "spec": {
                "type": "NodePort",
                "clusterIPs": ["10.0.0.9"],
                "ports": [
                    {"port": 80, "protocol": "TCP"},
                    {"port": 53, "nodePort": 30053, "protocol": "UDP"},
                ],
                "selector": {"b": "2", "a": "1"},
            }
        },
        ["x", "NodePort", "10.0.0.9", "<none>", "80/TCP,53:30053/UDP", AGE, "a=1,b=2"],
    ),
    (
        "",
        "services",
        {"spec": {"type": "LoadBalancer"}},
        ["x", "LoadBalancer", "<none>", "<pending>", "<none>", AGE, "<none>"],
    ),
    (
        "",
        "services",
        {
            "spec": {"type": "LoadBalancer", "externalIPs": ["8.8.8.8"]},
            "status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "a.b"}]}},
        },
        ["x", "LoadBalancer", "<none>", "2.2.2.2,a.b,8.8.8.8", "<none>", AGE, "<none>"],
    ),
    (
        "",
        "services",
        {"spec": {"type": "ExternalName", "externalName": "e.org"}},
        ["x", "ExternalName", "<none>", "e.org", "<none>", AGE, "<none>"],
    ),
    ("", "endpoints", {}, ["x", "<none>", AGE]),
    (
        "",
        "endpoints",
        {
            "subsets": [
                {
                    "addresses": [{"ip": "1.1.1.1"}, {"ip": "::1"}],
                    "ports": [{"port": 80}, {"port": 81}],
                }
            ]
        },
        ["x", "1.1.1.1:80,[::1]:80,1.1.1.1:81 + 1 more...", AGE],
    ),
    (
        "discovery.k8s.io",
        "endpointslices",
        {
            "addressType": "IPv4",
            "ports": [{"port": 80}, {"name": "web"}, {}],
            "endpoints": [{"addresses": ["1.1.1.1"]}],
        },
        ["x", "IPv4", "80,web,*", "1.1.1.1", AGE],
    ),
    (
        "",
        "resourcequotas",
        {"status": {"hard": {"pods": "4", "limits.cpu": "2"}, "used": {"pods": "1"}}},
        ["x", "pods: 1/4", "limits.cpu: 0/2", AGE],
    ),
    (
        "apps",
        "deployments",
        {
            "spec": {"replicas": 5, "selector": SELECTOR, "template": TEMPLATE},
            "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 3},
        },
        ["x", "1/5", 2, 3, AGE, *TEMPLATED, SELECTED],
    ),
    ("apps", "deployments", {}, ["x", "0/0", 0, 0, AGE, "", "", ""]),
    (
        "apps",
        "replicasets",
        {"spec": {"replicas": 3, "template": TEMPLATE}, "status": {"replicas": 2}},
        ["x", 3, 2, 0, AGE, *TEMPLATED, "<none>"],
    ),
    (
        "",
        "replicationcontrollers",
        {"spec": {"replicas": 3, "selector": {"a": "b"}}, "status": {"readyReplicas": 1}},
        ["x", 3, 0, 1, AGE, "", "", "a=b"],
    ),
    (
        "apps",
        "statefulsets",
        {"spec": {"replicas": 3, "template": TEMPLATE}, "status": {"readyReplicas": 2}},
        ["x", "2/3", AGE, *TEMPLATED],
    ),
    (
        "apps",
        "daemonsets",
        {
            "spec": {
                "selector": SELECTOR,
                "template": {"spec": {**TEMPLATE["spec"], "nodeSelector": {"n": "1"}}},
            },
            "status": {"desiredNumberScheduled": 4, "numberReady": 2, "numberAvailable": 1},
        },
        ["x", 4, 0, 2, 0, 1, "n=1", AGE, *TEMPLATED, SELECTED],
    ),
    (
        "batch",
        "jobs",
        {
            "spec": {"completions": 2},
            "status": {"succeeded": 1, "startTime": "1970-01-01T00:15:00Z"},
        },
        ["x", "Running", "1/2", "100s", AGE, "", "", "<none>"],
    ),
    (
        "batch",
        "jobs",
        {
            "spec": {"parallelism": 3},
            "status": {
                "conditions": [
                    {"type": "Suspended", "status": "False"},
                    {"type": "Complete", "status": "True"},
                ],
                "startTime": "1970-01-01T00:00:00Z",
                "completionTime": "1970-01-01T00:00:05Z",
            },
        },
        ["x", "Complete", "0/1 of 3", "5s", AGE, "", "", "<none>"],
    ),
    (
        "batch",
        "jobs",
        {"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}},
        ["x", "Terminating", "0/1", "", AGE, "", "", "<none>"],
    ),
    (
        "batch",
        "cronjobs",
        {
            "spec": {
                "schedule": "* * * * *",
                "suspend": False,
                "jobTemplate": {"spec": {"template": TEMPLATE}},
            },
            "status": {"active": [{}, {}], "lastScheduleTime": "1970-01-01T00:15:00Z"},
        },
        ["x", "* * * * *", "<none>", "False", 2, "100s", AGE, *TEMPLATED, "<none>"],
    ),
    (
        "policy",
        "poddisruptionbudgets",
        {"spec": {"minAvailable": 22}, "status": {"disruptionsAllowed": 5}},
        ["x", "22", "N/A", 5, AGE],
    ),
    (
        "policy",
        "poddisruptionbudgets",
        {"spec": {"maxUnavailable": "30%"}},
        ["x", "N/A", "30%", 0, AGE],
    ),
    (
        "apps",
        "controllerrevisions",
        {
            "metadata": {
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "DaemonSet",
                        "name": "foo",
                        "controller": True,
                    }
                ]
            },
            "revision": 7,
        },
        ["x", "daemonset.apps/foo", 7, AGE],
    ),
    (
        "autoscaling",
        "horizontalpodautoscalers",
        {
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                "minReplicas": 2,
                "maxReplicas": 10,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"averageUtilization": 80}},
                    },
                    {"type": "Pods", "pods": {"target": {"averageValue": "100m"}}},
                    {"type": "Object", "object": {"target": {"value": "1"}}},
                ],
            },
            "status": {
                "currentReplicas": 4,
                "currentMetrics": [
                    {"type": "Resource", "resource": {"current": {"averageUtilization": 50}}}
                ],
            },
        },
        ["x", "Deployment/d", "cpu: 50%/80%, <unknown>/100m + 1 more...", "2", 10, 4, AGE],
    ),
    (
        "",
        "persistentvolumes",
        {
            "spec": {
                "capacity": {"storage": "4Gi"},
                "accessModes": ["ReadOnlyMany", "ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": "ns", "name": "c"},
                "storageClassName": "fast",
                "volumeMode": "Block",
            },
            "status": {"phase": "Bound"},
        },
        ["x", "4Gi", "RWO,ROX", "Retain", "Bound", "ns/c", "fast", "<unset>", "", AGE, "Block"],
    ),
    (
        "",
        "persistentvolumeclaims",
        {
            "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
            "spec": {
                "volumeName": "v",
                "storageClassName": "new",
                "volumeAttributesClassName": "a",
            },
            "status": {
                "phase": "Bound",
                "accessModes": ["ReadWriteOncePod"],
                "capacity": {"storage": "1Gi"},
            },
        },
        ["x", "Bound", "v", "1Gi", "RWOP", "old", "a", AGE, "<unset>"],
    ),
    (
        "",
        "persistentvolumeclaims",
        {"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}, "status": {"phase": "Pending"}},
        ["x", "Terminating", "", "", "", "", "<unset>", AGE, "<unset>"],
    ),
    (
        "storage.k8s.io",
        "storageclasses",
        {
            "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "p",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        ["x (default)", "p", "Delete", "WaitForFirstConsumer", False, AGE],
    ),
    ("storage.k8s.io", "csinodes", {"spec": {"drivers": [{}, {}]}}, ["x", 2, AGE]),
    (
        "storage.k8s.io",
        "csidrivers",
        {
            "spec": {
                "attachRequired": False,
                "tokenRequests": [{"audience": "a"}, {"audience": "b"}],
            }
        },
        ["x", False, False, False, "a,b", False, "<none>", AGE],
    ),
    (
        "storage.k8s.io",
        "csistoragecapacities",
        {"storageClassName": "s", "capacity": "1Gi"},
        ["x", "s", "1Gi"],
    ),
    (
        "storage.k8s.io",
        "volumeattachments",
        {
            "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
            "status": {"attached": True},
        },
        ["x", "a", "v", "n", True, AGE],
    ),
    (
        "scheduling.k8s.io",
        "priorityclasses",
        {"value": 5, "preemptionPolicy": "Never"},
        ["x", 5, False, AGE, "Never"],
    ),
    ("scheduling.k8s.io", "workloads", {}, ["x", AGE]),
    (
        "scheduling.k8s.io",
        "podgroups",
        {
            "spec": {
                "schedulingPolicy": {"gang": {}},
                "podGroupTemplateRef": {"workload": {"workloadName": "w"}},
            },
            "status": {"conditions": [{"type": "PodGroupScheduled", "status": "False"}]},
        },
        ["x", "Gang", "w", "Unschedulable", AGE],
    ),
    ("coordination.k8s.io", "leases", {"spec": {"holderIdentity": "me"}}, ["x", "me", AGE]),
    ("node.k8s.io", "runtimeclasses", {"handler": "h"}, ["x", "h", AGE]),
    ("resource.k8s.io", "deviceclasses", {}, ["x", AGE]),
    ("resource.k8s.io", "resourceclaims", {}, ["x", "pending", AGE]),
    (
        "resource.k8s.io",
        "resourceclaims",
        {
            "metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"},
            "status": {"allocation": {}, "reservedFor": [{}]},
        },
        ["x", "deleted,allocated,reserved", AGE],
    ),
    (
        "resource.k8s.io",
        "resourceslices",
        {"spec": {"nodeName": "n", "driver": "d", "pool": {"name": "p"}}},
        ["x", "n", "d", "p", AGE],
    ),
    (
        "rbac.authorization.k8s.io",
        "rolebindings",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "name": "u"},
                {"kind": "Group", "name": "g"},
                {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
            ],
        },
        ["x", "Role/r", AGE, "u", "g", "n/s"],
    ),
    (
        "networking.k8s.io",
        "ingresses",
        {
            "spec": {"rules": [{"host": h} for h in "abcd"], "tls": [{}], "ingressClassName": "c"},
            "status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}]}},
        },
        ["x", "c", "a,b,c + 1 more...", "2.2.2.2", "80, 443", AGE],
    ),
    ("networking.k8s.io", "ingresses", {}, ["x", "<none>", "*", "", "80", AGE]),
    (
        "networking.k8s.io",
        "ingressclasses",
        {"spec": {"controller": "c", "parameters": {"apiGroup": "g", "kind": "K", "name": "n"}}},
        ["x", "c", "K.g/n", AGE],
    ),
    ("networking.k8s.io", "networkpolicies", {"spec": {"podSelector": {}}}, ["x", "<none>", AGE]),
]


@pytest.mark.parametrize(
    ("group", "plural", "obj", "expected"),
    CASES,
    ids=[f"{plural}-{index}" for index, (_, plural, _, _) in enumerate(CASES)],
)
def test_the_row_of(group: str, plural: str, obj: Json, expected: list[object]) -> None:
    assert cells(group, plural, obj) == expected


def test_every_kind_makes_a_row_of_an_empty_object() -> None:
    """A bookmark in a watch of tables is such an object."""
    for kind in BUILT_IN:
        assert row(kind, columns_of(kind), {"metadata": {}}, NOW_SECONDS)["cells"], kind.kind
