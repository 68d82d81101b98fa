"""`kubectl get -o yaml` of one cluster, loaded into another: the same cluster, uids of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakeapi.background import BackgroundServer

from .clients import Kubectl, kubectls

SECONDS = 30.0
RESOURCES = (
    "namespaces,nodes,priorityclasses,configmaps,persistentvolumes,persistentvolumeclaims,"
    "replicasets,pods"
)
SET_BY_SERVERS = ("uid", "resourceVersion", "creationTimestamp", "generation")
CLUSTER = """
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {zone: a}}
status:
  capacity: {cpu: "4", pods: "10"}
  allocatable: {cpu: "4", pods: "10"}
  conditions: [{type: Ready, status: "True"}]
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  hostPath: {path: /x}
  claimRef: {kind: PersistentVolumeClaim, namespace: team, name: c}
status: {phase: Bound}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c, namespace: team}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
  volumeName: v
status: {phase: Bound, accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: r, namespace: team}
spec:
  replicas: 1
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec: {containers: [{name: c, image: x}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: team
  labels: {app: a, hash: "1"}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, controller: true}]
spec:
  nodeName: n1
  priorityClassName: high
  containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [hash],
     labelSelector: {matchLabels: {app: a}}}
status: {phase: Running, podIP: 10.0.0.7}
"""


def neutral(dump: str) -> Any:
    """A dump with numbers in place of uids, and without what no two clusters have in common."""
    listed = yaml.safe_load(dump)
    listed["items"].sort(key=lambda item: (item["kind"], item["metadata"]["name"]))
    text = json.dumps(listed)
    for number, item in enumerate(listed["items"]):
        text = text.replace(item["metadata"]["uid"], f"uid {number}")
    listed = json.loads(text)
    for item in listed["items"]:
        for name in SET_BY_SERVERS[1:]:
            item["metadata"].pop(name, None)
        item["status"] = {
            key: value for key, value in item.get("status", {}).items() if not key.endswith("Time")
        }
    return listed


def dumped(program: str, server: BackgroundServer, home: Path) -> str:
    home.mkdir(exist_ok=True)
    config = home / "config"
    config.write_text(server.kubeconfig, encoding="utf-8")
    return Kubectl(program, config, home)("get", RESOURCES, "--all-namespaces", "-o", "yaml")


@pytest.mark.skipif(not kubectls(), reason="no kubectl here")
@pytest.mark.parametrize("program", kubectls())
def test_a_dump_by_kubectl_is_the_cluster(tmp_path: Path, program: str) -> None:
    manifest, dump = tmp_path / "cluster.yaml", tmp_path / "dump.yaml"
    manifest.write_text(CLUSTER, encoding="utf-8")
    with BackgroundServer(load=[manifest]) as server:
        before = dumped(program, server, tmp_path / "one")
    dump.write_text(before, encoding="utf-8")
    with BackgroundServer(load=[dump]) as server:
        after = dumped(program, server, tmp_path / "two")
    assert neutral(after) == neutral(before)
    assert yaml.safe_load(after)["items"] != yaml.safe_load(before)["items"]


def test_a_dump_is_piped_into_the_server() -> None:
    command = [sys.executable, "-m", "fakeapi", "--load", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(CLUSTER)
        process.stdin.close()
        process.stdin = None
        assert process.stdout.readline().startswith("http://")
        process.terminate()
        process.communicate(timeout=SECONDS)
    assert process.returncode == 0


def test_an_error_in_piped_input_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fakeapi", "--load", "-"],
        input=CLUSTER + "---\nkind: Pod\n",
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    message = "kubesched-fakeapi: standard input: document 8: apiVersion: expected a string\n"
    assert (done.returncode, done.stderr) == (1, message)
