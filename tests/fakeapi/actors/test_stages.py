"""KWOK Stages: objects change as the files define it; errors in files are named."""

from __future__ import annotations

import logging
import textwrap
from pathlib import Path
from typing import Any

import pytest

from fakeapi.actors.stages import StageError, read_stages

from ..actor_cluster import NODES, PODS, cluster, conditions, node, pod
from ..api_client import Json

EVENTS = "/api/v1/namespaces/default/events"
READY = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {app: a}
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: DoesNotExist}
    - {key: '.status.phase', operator: In, values: [Pending]}
  delay: {durationMilliseconds: 2000}
  next:
    statusTemplate: |
      phase: Running
      startTime: {{ Now }}
      message: on {{ .spec.nodeName }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: gone}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: Exists}
  next:
    finalizers: {empty: true}
    delete: true
"""
NODE_UP = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node-up}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - key: '.status.conditions.[] | select( .type == "Ready" ) | .status'
      operator: NotIn
      values: ['True']
  next:
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      {{ range NodeConditions }}
      - type: {{ .type | Quote }}
        status: {{ .status | Quote }}
        lastHeartbeatTime: {{ $now | Quote }}
      {{ end }}
      {{ $named := false }}
      {{ range .status.addresses }}
        {{ if eq .type "Hostname" }}{{ $named = true }}{{ end }}
      {{ end }}
      addresses:
      {{ with NodeIP }}
      - {type: InternalIP, address: {{ . | Quote }}}
      {{ end }}
      {{ if not $named }}
      - {type: Hostname, address: {{ NodeName | Quote }}}
      {{ end }}
      {{ with NodePort }}
      daemonEndpoints: {kubeletEndpoint: {Port: {{ . }}}}
      {{ end }}
      allocatable:
      {{ with .status.allocatable }}
      {{ YAML . 1 }}
      {{ else }}
        cpu: 1k
      {{ end }}
      nodeInfo:
        kernelVersion: {{ or .status.nodeInfo.kernelVersion (printf "kwok-%s" Version) }}
        osImage: {{ or .status.nodeInfo.osImage `""` }}
"""


def stage(kind: str = "Pod", name: str = "s", **spec: Any) -> Json:
    """A Stage; it selects everything by default."""
    reference = {"apiGroup": "v1", "kind": kind}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {"resourceRef": reference, "selector": {}, **spec},
    }


def expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def pending(**spec: Any) -> Json:
    """A Stage that selects a pod until its phase changes."""
    selector = {"matchExpressions": [expression(".status.phase", "In", "Pending")]}
    return stage(selector=selector, **spec)


def written(path: Path, *stages: Json | str) -> Path:
    import yaml

    parts = [one if isinstance(one, str) else yaml.safe_dump(one) for one in stages]
    file = path / "stages.yaml"
    file.write_text("\n---\n".join(parts), encoding="utf-8")
    return file


async def test_pods_go_from_stage_to_stage(tmp_path: Path) -> None:
    async with cluster(stages=[written(tmp_path, READY)]) as c:
        body = pod()
        body["metadata"] |= {"labels": {"app": "a"}, "finalizers": ["my/finalizer"]}
        await c.create(PODS, body)
        await c.create(PODS, pod("other"))
        await c.advance(1.9)
        assert (await c.read(f"{PODS}/p"))["status"]["phase"] == "Pending"
        await c.advance(0.1)
        status = (await c.read(f"{PODS}/p"))["status"]
        assert (status["phase"], status["message"]) == ("Running", "on n1")
        assert (await c.read(f"{PODS}/other"))["status"]["phase"] == "Pending"
        await c.api.delete(f"{PODS}/p")
        await c.settle()
        assert await c.code(f"{PODS}/p") == 404


async def test_a_node_comes_up_with_addresses_conditions_and_a_lease(tmp_path: Path) -> None:
    second = node("n2")
    second["status"] = {
        "allocatable": {"cpu": "4", "pods": "110"},
        "addresses": [{"type": "Hostname", "address": "other"}],
    }
    path = written(tmp_path, NODE_UP)
    async with cluster(stages=[path], load=[node("n1"), second]) as c:
        first = await c.read(f"{NODES}/n1")
        assert conditions(first)["Ready"] == "True"
        assert conditions(first)["NetworkUnavailable"] == "False"
        addresses = {one["type"]: one["address"] for one in first["status"]["addresses"]}
        assert addresses == {"InternalIP": "172.16.0.1", "Hostname": "n1"}
        assert first["status"]["allocatable"] == {"cpu": "1k"}
        assert first["status"]["nodeInfo"]["kernelVersion"].startswith("kwok-v")
        other = (await c.read(f"{NODES}/n2"))["status"]
        assert other["allocatable"] == {"cpu": "4", "pods": "110"}
        assert {one["address"] for one in other["addresses"]} == {"other", "172.16.0.2"}
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"
        before = (await c.read(lease))["spec"]["renewTime"]
        await c.advance(10)
        assert (await c.read(lease))["spec"]["renewTime"] > before


async def test_heartbeats_come_again_and_again(tmp_path: Path) -> None:
    beat = stage(
        "Node",
        delay={"durationMilliseconds": 20000, "jitterDurationMilliseconds": 25000},
        next={"statusTemplate": "phase: Running\nconditions: [{type: Ready, status: 'True', "
              "lastHeartbeatTime: {{ Now | Quote }}}]"},
        immediateNextStage=True,
    )  # fmt: skip
    async with cluster(stages=[written(tmp_path, beat)]) as c:
        seen = set()
        for _ in range(100):
            await c.advance(1)
            for one in (await c.read(f"{NODES}/n1"))["status"].get("conditions", ()):
                seen.add(one["lastHeartbeatTime"])
        assert 4 <= len(seen) <= 5


async def test_a_pod_without_a_node_is_not_played(tmp_path: Path) -> None:
    run = pending(next={"statusTemplate": "phase: Running"})
    async with cluster(stages=[written(tmp_path, run)]) as c:
        waiting = pod()
        del waiting["spec"]["nodeName"]
        await c.create(PODS, waiting)
        await c.create(PODS, pod("lost", node="n2"))
        await c.advance(1)
        for name in ("p", "lost"):
            assert (await c.read(f"{PODS}/{name}"))["status"]["phase"] == "Pending"
        target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
        bound = await c.api.post(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": target})
        assert bound.code == 201, bound.body
        await c.create(NODES, node("n2"))
        await c.settle()
        for name in ("p", "lost"):
            assert (await c.read(f"{PODS}/{name}"))["status"]["phase"] == "Running"


async def test_pods_have_addresses_of_their_own_out_of_their_nodes_range(tmp_path: Path) -> None:
    template = """
      phase: Running
      {{ $ips := PodIPsWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" )
         ( or .metadata.name "" ) ( or .metadata.namespace "" ) }}
      {{ with $ips }}
      podIP: {{ index . 0 | Quote }}
      {{ end }}
      hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
    """
    run = pending(next={"statusTemplate": textwrap.dedent(template)})
    nodes = [node("n1"), node("n2")]
    nodes[1]["spec"] = {"podCIDR": "10.5.0.0/24"}
    async with cluster(stages=[written(tmp_path, run)], load=nodes) as c:
        for name in ("a", "b"):
            await c.create(PODS, pod(name))
        await c.create(PODS, pod("c", node="n2"))
        await c.create(PODS, pod("h", spec={"hostNetwork": True}))
        found = {one["metadata"]["name"]: one["status"] for one in await c.items(PODS)}
        assert {name: status["podIP"] for name, status in found.items()} == {
            "a": "10.0.0.2", "b": "10.0.0.3", "c": "10.5.0.1", "h": found["h"]["hostIP"],
        }  # fmt: skip
        await c.api.delete(f"{PODS}/a", gracePeriodSeconds=0)
        await c.create(PODS, pod("d"))
        assert (await c.read(f"{PODS}/d"))["status"]["podIP"] == "10.0.0.2"


async def test_delays_are_read_from_the_object(tmp_path: Path) -> None:
    delay = {
        "durationMilliseconds": 1000,
        "durationFrom": {"expressionFrom": '.metadata.annotations["my/delay"]'},
        "jitterDurationFrom": {"jq": {"expression": ".metadata.deletionTimestamp"}},
    }
    gone = {"matchExpressions": [expression(".metadata.deletionTimestamp", "Exists")]}
    stages = [
        pending(delay=delay, next={"statusTemplate": "phase: Running"}),
        stage(name="gone", selector=gone, delay={**delay, "durationMilliseconds": 60000},
              next={"delete": True}),
    ]  # fmt: skip
    async with cluster(stages=[written(tmp_path, *stages)]) as c:
        for name, value in (("default", "nonsense"), ("own", "1m30s"), ("empty", "")):
            body = pod(name)
            body["metadata"]["annotations"] = {"my/delay": value}
            await c.create(PODS, body)
        running: dict[str, int] = {}
        for second in range(100):
            for one in await c.items(PODS):
                if one["status"]["phase"] == "Running":
                    running.setdefault(one["metadata"]["name"], second)
            await c.advance(1)
        assert running == {"empty": 0, "default": 1, "own": 90}
        await c.api.delete(f"{PODS}/default", gracePeriodSeconds=10)
        await c.advance(9)
        assert await c.code(f"{PODS}/default") == 200
        await c.advance(1)
        assert await c.code(f"{PODS}/default") == 404


async def test_a_change_starts_the_delay_again(tmp_path: Path) -> None:
    run = pending(delay={"durationMilliseconds": 5000}, next={"statusTemplate": "phase: Running"})
    async with cluster(stages=[written(tmp_path, run)]) as c:
        await c.create(PODS, pod())
        await c.advance(4)
        await c.api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
        await c.advance(4)
        assert (await c.read(f"{PODS}/p"))["status"]["phase"] == "Pending"
        await c.advance(1)
        assert (await c.read(f"{PODS}/p"))["status"]["phase"] == "Running"


async def test_a_stage_is_drawn_by_weight(tmp_path: Path) -> None:
    never = pending(name="never", next={"statusTemplate": "phase: Failed"})
    own = {"expressionFrom": '.metadata.annotations["my/weight"]'}
    often = pending(name="often", weight=3, next={"statusTemplate": "phase: Running"})
    seldom = pending(
        name="seldom", weight=1, weightFrom=own, next={"statusTemplate": "phase: Succeeded"}
    )
    async with cluster(stages=[written(tmp_path, never, often, seldom)]) as c:
        for number in range(40):
            await c.create(PODS, pod(f"p{number}"))
        phases = [one["status"]["phase"] for one in await c.items(PODS)]
        assert "Failed" not in phases
        assert 3 <= phases.count("Succeeded") <= 17
        heavy = pod("heavy")
        heavy["metadata"]["annotations"] = {"my/weight": "1000000"}
        await c.create(PODS, heavy)
        assert (await c.read(f"{PODS}/heavy"))["status"]["phase"] == "Succeeded"


async def test_patches_of_each_kind_and_events(tmp_path: Path) -> None:
    unlabelled = [expression(".metadata.labels.done", "DoesNotExist")]
    following = {
        "event": {"type": "Normal", "reason": "Created", "message": "Created container"},
        "finalizers": {"add": [{"value": "a/b"}], "remove": [{"value": "c/d"}]},
        "patches": [
            {"root": "status", "subresource": "status", "template": "phase: Running"},
            {"root": "metadata", "type": "merge", "template": "annotations: {x: '1'}"},
            {"type": "strategic", "template": "spec: {containers: [{name: c, image: z}]}"},
            {
                "root": "metadata",
                "type": "json",
                "template": "- {op: add, path: /labels, value: {done: {{ .metadata.name }} }}",
            },
        ],
    }
    path = written(tmp_path, stage(selector={"matchExpressions": unlabelled}, next=following))
    async with cluster(stages=[path]) as c:
        body = pod()
        body["metadata"]["finalizers"] = ["c/d", "e/f"]
        await c.create(PODS, body)
        found = await c.read(f"{PODS}/p")
        assert found["metadata"]["labels"] == {"done": "p"}
        assert found["metadata"]["annotations"] == {"x": "1"}
        assert found["metadata"]["finalizers"] == ["e/f", "a/b"]
        assert found["spec"]["containers"][0]["image"] == "z"
        assert found["status"]["phase"] == "Running"
        (event,) = await c.items(EVENTS)
        about = {"kind": "Pod", "name": "p", "uid": found["metadata"]["uid"]}
        assert about.items() <= event["involvedObject"].items()
        said = (event["type"], event["reason"], event["message"], event["source"]["component"])
        assert said == ("Normal", "Created", "Created container", "kwok_controller")


async def test_stages_are_for_any_kind_and_apply_others(tmp_path: Path) -> None:
    claim_is_new = {"matchExpressions": [expression(".spec.volumeName", "DoesNotExist")]}
    steps = [
        {
            "apply": {
                "template": textwrap.dedent("""
                    apiVersion: v1
                    kind: PersistentVolume
                    metadata: {name: "pv-{{ .metadata.name }}"}
                    spec:
                      accessModes:
                      {{ YAML .spec.accessModes 1 }}
                      capacity: {storage: {{ .spec.resources.requests.storage }}}
                      hostPath: {path: /x}
                """)
            }
        },
        {"patch": {"root": "spec", "template": "volumeName: pv-{{ .metadata.name }}"}},
        {"patch": {"root": "status", "subresource": "status", "template": "phase: Bound"}},
        {"event": {"type": "Warning", "reason": "Bound", "message": "so it is"}},
    ]
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    path = written(tmp_path, stage("PersistentVolumeClaim", selector=claim_is_new, steps=steps))
    async with cluster(stages=[path]) as c:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        }
        await c.create(claims, {"metadata": {"name": "c"}, "spec": spec})
        claim = await c.read(f"{claims}/c")
        assert (claim["spec"]["volumeName"], claim["status"]["phase"]) == ("pv-c", "Bound")
        volume = await c.read("/api/v1/persistentvolumes/pv-c")
        assert volume["spec"]["capacity"] == {"storage": "1Gi"}
        assert [one["type"] for one in await c.items(EVENTS)] == ["Warning"]


async def test_stages_of_a_custom_resource_begin_when_it_is_defined(tmp_path: Path) -> None:
    shine = stage(name="shine", next={"patches": [{"root": "spec", "template": "colour: red"}]})
    shine["spec"]["resourceRef"] = {"apiGroup": "example.com/v1", "kind": "Lamp"}
    async with cluster(stages=[written(tmp_path, shine)]) as c:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True,
                   "schema": {"openAPIV3Schema": schema}}  # fmt: skip
        names = {"plural": "lamps", "kind": "Lamp"}
        definition = {
            "metadata": {"name": "lamps.example.com"},
            "spec": {"group": "example.com", "scope": "Cluster", "names": names,
                     "versions": [version]},
        }  # fmt: skip
        await c.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        await c.advance(2, step_seconds=1)
        lamp = {"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "l"}}
        await c.create("/apis/example.com/v1/lamps", lamp)
        assert (await c.read("/apis/example.com/v1/lamps/l"))["spec"] == {"colour": "red"}


async def test_cel_selects(tmp_path: Path) -> None:
    pytest.importorskip("cel")
    pytest.importorskip("re2")
    wanted = {"matchExpressions": [{"cel": {"expression": "self.status.phase == 'Pending'"}}]}
    run = stage(
        selector=wanted,
        delay={"durationFrom": {"cel": {"expression": "duration('3s')"}}},
        next={"statusTemplate": "phase: Running"},
    )
    async with cluster(stages=[written(tmp_path, run)]) as c:
        await c.create(PODS, pod())
        await c.advance(2)
        assert (await c.read(f"{PODS}/p"))["status"]["phase"] == "Pending"
        await c.advance(1)
        assert (await c.read(f"{PODS}/p"))["status"]["phase"] == "Running"


async def test_a_template_that_fails_is_logged_with_its_place_and_not_retried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = pending(next={"statusTemplate": "phase: Running\nhostIP: {{ index .spec.nope 1 }}\n"})
    path = written(tmp_path, broken)
    with caplog.at_level(logging.WARNING, "fakeapi.actors"):
        async with cluster(stages=[path]) as c:
            await c.create(PODS, pod())
            await c.advance(100, step_seconds=10)
            assert (await c.read(f"{PODS}/p"))["status"]["phase"] == "Pending"
    (record,) = caplog.records
    assert "index of untyped nil" in record.getMessage()
    assert record.getMessage().startswith(f"{path}:")


async def test_an_object_whose_patch_is_refused_waits_for_a_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    template = 'dnsPolicy: {{ or .metadata.annotations.policy "ClusterFirst" }}'
    move = pending(next={"patches": [{"root": "spec", "template": template}]})
    async with cluster(stages=[written(tmp_path, move)]) as c:
        body = pod()
        body["metadata"]["annotations"] = {"policy": "Nonsense"}
        await c.create(PODS, body)
        await c.advance(60, step_seconds=10)
        (record,) = caplog.records
        assert "stage s: default/p:" in record.getMessage()


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("{{ Now }}", "{{ range .x }}", ":17: .*unexpected EOF"),
        ("{{ Now }}", "{{ Nowhere }}", ':16: Stage "ready": .*"Nowhere" not defined'),
        ("{{ Now }}", "{{ NodePort }}", '"NodePort" not defined'),
        ("{{ Now }}", "{{ $x }}", 'statusTemplate: undefined variable "\\$x"'),
        ("delete: true", "erase: true", ':29: Stage "gone": spec.next.erase: no such field'),
        ("delete: true", "delete: 'yes'", "spec.next.delete: expected true or false"),
        ("apiGroup: v1, kind: Pod", "apiGroup: v1", "resourceRef.kind: required"),
        ("'.status.phase'", "'.a[] | foo(.x)'", "foo/1 is not defined"),
        ("operator: Exists", "operator: Is", 'expected one of In, NotIn, .*, not "Is"'),
        ("operator: Exists", "operator: In", "values: required for In"),
        ("values: [Pending]", "values: [1]", r"values\[0\]: expected a string"),
        ("durationMilliseconds: 2000", "durationMilliseconds: -1", "not negative"),
        ("durationMilliseconds: 2000", "durationFrom: {expressionFrom: '.a['}", "durationFrom"),
        ("delete: true", "patches: [{type: x, template: a}]", "expected one of json, merge"),
        ("delete: true", "steps: []", "spec.next.steps: no such field"),
        ("kind: Stage", "kind: Pod", "expected a Stage of kwok.x-k8s.io/v1alpha1"),
    ],
)
def test_an_error_in_a_file_has_its_place(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    path = written(tmp_path, READY.replace(old, new))
    with pytest.raises(StageError, match=complaint) as caught:
        read_stages(path)
    assert str(caught.value).startswith(f"{path}:")


def test_a_directory_is_read_but_for_its_kustomization(tmp_path: Path) -> None:
    written(tmp_path, READY)
    (tmp_path / "kustomization.yaml").write_text("kind: Kustomization", encoding="utf-8")
    assert [one.name for one in read_stages(tmp_path)] == ["ready", "gone"]
