"""Memory of a scheduler for a large cluster: its objects, without HTTP.

Pods and nodes arrive as the JSON a list brings, are decoded, kept by the informers' stores, counted
by the cache and copied to the snapshot, in a process of its own.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from scheduler.api.core import Node, Pod
from scheduler.assembly.part_sharing import PartSharing
from scheduler.cache import Cache
from scheduler.client.store import Store
from scheduler.snapshot import PodInfo, Snapshot

__all__ = ["resident_mebibytes"]

_DEPLOYMENTS = 1000


def resident_mebibytes(nodes_total: int, pods_total: int) -> float:
    """Return the resident memory of a process with so many objects."""
    command = [sys.executable, "-m", "tests.bench.memory", str(nodes_total), str(pods_total)]
    return float(subprocess.run(command, check=True, capture_output=True).stdout)


def _node(number: int) -> bytes:
    labels = {
        "kubernetes.io/hostname": f"node-{number}",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "kubernetes.io/arch": "amd64",
    }
    offered = {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return msgspec.json.encode(
        {
            "metadata": {"name": f"node-{number}", "uid": f"uid-n-{number}", "labels": labels},
            "status": {"allocatable": offered, "capacity": offered},
        }
    )


def _pod(number: int, nodes_total: int) -> bytes:
    """A running pod as the API has it, with all that decoding leaves out."""
    app = f"app-{number % _DEPLOYMENTS}"
    container = {
        "name": "main",
        "image": f"registry.example.com/team/{app}:v1.2.3",
        "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}},
        "terminationMessagePath": "/dev/termination-log",
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
    }
    labels = {"app": app, "pod-template-hash": f"{number % _DEPLOYMENTS:08x}"}
    return msgspec.json.encode(
        {
            "metadata": {
                "name": f"{app}-{number:06d}",
                "namespace": f"team-{number % 50}",
                "uid": f"00000000-0000-4000-8000-{number:012d}",
                "resourceVersion": str(number),
                "labels": labels,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "name": f"{app}-1",
                        "uid": f"uid-{app}",
                        "controller": True,
                    }
                ],
            },
            "spec": {
                "nodeName": f"node-{number % nodes_total}",
                "schedulerName": "default-scheduler",
                "priority": 0,
                "containers": [container],
                "volumes": [{"name": "token", "projected": {"sources": []}}],
                "tolerations": [
                    {
                        "key": "node.kubernetes.io/not-ready",
                        "operator": "Exists",
                        "effect": "NoExecute",
                    }
                ],
            },
            "status": {
                "phase": "Running",
                "startTime": "2026-01-01T00:00:01Z",
                "conditions": [{"type": "PodScheduled", "status": "True"}],
                "containerStatuses": [{"name": "main", "ready": True}],
            },
        }
    )


def _main(nodes_total: int, pods_total: int) -> None:
    cache, snapshot, share = Cache(), Snapshot(), PartSharing()
    nodes: Store[Node] = Store()
    pods: Store[Pod] = Store()
    read_node, read_pod = msgspec.json.Decoder(Node), msgspec.json.Decoder(Pod)
    for number in range(nodes_total):
        node = read_node.decode(_node(number))
        nodes.put(node)
        cache.add_node(node)
    for number in range(pods_total):
        pod = share(read_pod.decode(_pod(number, nodes_total)))
        pods.put(pod)
        cache.add_pod(PodInfo(pod))
    cache.update_snapshot(snapshot)
    print(_resident_kibibytes() / 1024)


def _resident_kibibytes() -> int:
    for line in _status_lines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError("no VmRSS in /proc/self/status")


def _status_lines() -> Iterator[str]:
    yield from Path("/proc/self/status").read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
