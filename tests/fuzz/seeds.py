"""Valid objects, one of each important kind, from which requests are made."""

from __future__ import annotations

from typing import Any, Final

from tests.fakeapi import custom_resources

_CONTAINER: Final = {
    "name": "c",
    "image": "x",
    "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}, "limits": {"cpu": "1"}},
    "ports": [{"containerPort": 80, "hostPort": 80}],
}
_POD_SPEC: Final = {
    "containers": [_CONTAINER],
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": "b"}},
            "matchLabelKeys": ["app"],
        }
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                ]
            }
        }
    },
    "volumes": [{"name": "v", "emptyDir": {}}],
    "schedulingGates": [{"name": "example.com/g"}],
}
_SELECTED: Final = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [_CONTAINER]}},
}
_JOB_TEMPLATE: Final = {"spec": {"containers": [_CONTAINER], "restartPolicy": "Never"}}
#: What each kind has besides its metadata.
SEEDS: Final[dict[str, dict[str, Any]]] = {
    "Pod": {"spec": _POD_SPEC},
    "Node": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
    "ConfigMap": {"data": {"a": "b"}, "binaryData": {"c": "YQ=="}},
    "Secret": {"data": {"a": "YQ=="}, "type": "Opaque"},
    "Namespace": {},
    "Service": {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    "Event": {"involvedObject": {"namespace": "default", "name": "a"}, "reason": "x"},
    "LimitRange": {
        "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}]}
    },
    "ResourceQuota": {"spec": {"hard": {"pods": "100", "requests.cpu": "50"}}},
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "PersistentVolume": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/x"},
        }
    },
    "ReplicationController": {
        "spec": {"selector": {"a": "b"}, "replicas": 1, "template": _SELECTED["template"]}
    },
    "PodTemplate": {"template": _SELECTED["template"]},
    "Deployment": {"spec": _SELECTED},
    "ReplicaSet": {"spec": _SELECTED},
    "DaemonSet": {"spec": _SELECTED},
    "StatefulSet": {"spec": {**_SELECTED, "serviceName": "s"}},
    "Job": {"spec": {"template": _JOB_TEMPLATE}},
    "CronJob": {
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _JOB_TEMPLATE}}}
    },
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    "PriorityClass": {"value": 10},
    "StorageClass": {"provisioner": "example.com/p", "volumeBindingMode": "WaitForFirstConsumer"},
    "CSINode": {"spec": {"drivers": [{"name": "d", "nodeID": "n", "topologyKeys": ["z"]}]}},
    "CSIDriver": {"spec": {"storageCapacity": True}},
    "RuntimeClass": {"handler": "h", "overhead": {"podFixed": {"cpu": "10m"}}},
    "Lease": {"spec": {"holderIdentity": "x", "leaseDurationSeconds": 15}},
    "Binding": {"target": {"kind": "Node", "name": "n1"}},
    "Eviction": {},
    "Scale": {"spec": {"replicas": 2}},
    "DeleteOptions": {"propagationPolicy": "Background", "preconditions": {"uid": "x"}},
    "CustomResourceDefinition": custom_resources.definition(),
    "Widget": {"spec": {"size": 1, "parts": [{"name": "a"}], "tags": ["a"]}},
}
