"""Manifests are read as strictly as an API server reads them, and fast."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler.explain.cluster import ClusterError
from scheduler.explain.manifests import Manifests, read_manifests
from scheduler.explain.yaml_reader import read_yaml
from tests.explain.test_command import explain

ROOT = Path(__file__).parent.parent.parent
NODE = "kind: Node\napiVersion: v1\nmetadata: {name: n1}\n"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Manifests]:
    def read(*texts: str, suffix: str = "yaml") -> Manifests:
        paths = []
        for number, text in enumerate(texts):
            paths.append(tmp_path / f"{number}.{suffix}")
            paths[-1].write_text(text, encoding="utf-8")
        return read_manifests(paths)

    return read


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a}, {imagee: x}]}",
            'document 1: Pod a: unknown field "spec.containers[1].imagee"; did you mean "image"?',
        ),
        (
            "kind: Pod\nmetadata: {name: a}\nsepc: {}",
            'document 1: Pod a: unknown field "sepc"; did you mean "spec"?',
        ),
        (
            "kind: Node\nmetadata: {name: a}\nspec: {taints: [{efect: a}]}",
            'document 1: Node a: unknown field "spec.taints[0].efect"; did you mean "effect"?',
        ),
        (NODE + "status: {zzz: 1}", 'document 1: Node n1: unknown field "status.zzz"'),
        ("kind: Node\nmetadata: {}", "document 1: Node: metadata.name: expected a name"),
        (
            "kind: Node\nmetadata: {name: A_b}",
            'document 1: Node A_b: metadata.name: "A_b": a lowercase RFC 1123 subdomain must',
        ),
        (NODE + "---\n" + NODE, "document 2: Node n1: is there already: "),
        (
            NODE + "---\nkind: Pod\nmetadata: {name: a}\nspec: {nodeName: m}",
            'document 2: Pod a: spec.nodeName: there is no node "m"',
        ),
        (
            "kind: List\nitems: [{kind: Node, metadata: {name: a}}, {kind: Node}]",
            "document 1, item 2: Node: metadata.name: expected a name",
        ),
        (
            "kind: Pod\napiVersion: v2\nmetadata: {name: a}",
            'document 1: Pod a: apiVersion: expected "v1", got "v2"',
        ),
        ("metadata: {name: a}", "document 1: a: kind: expected the name of a kind"),
        ("kind: List\nitems: [1]", "document 1: List: items[0]: expected an object"),
        ("kind: List\nitems: [{}]", "document 1, item 1: kind: expected the name of a kind"),
        ("kind: Node\nmetadata: {<<: 5}", "line 2: << needs a mapping"),
        ("kind: \x07", "unacceptable character #x0007: control characters are not allowed"),
        ("kind: " + "[" * 800 + "]" * 800, "nested too deeply"),
        ("kind: Node\nkind: Node", "line 2: the key 'kind' is there twice"),
        ("kind: Node\nmetadata: *x", "line 2: unknown anchor 'x'"),
        ("kind: !!int aGk=", "line 1: cannot decode !!str `aGk=` as a !!int"),
        ('{"kind": "Node", "kind": "Node"}', "the key 'kind' is there twice in one object"),
        ('{"kind": "Node",', "Expecting property name enclosed in double quotes"),
    ],
)
def test_an_error_names_the_place_and_the_field(
    read: Callable[..., Manifests], text: str, complaint: str
) -> None:
    with pytest.raises(ClusterError) as caught:
        read(text)
    assert complaint in str(caught.value)


def test_a_duplicate_in_another_file_names_both(read: Callable[..., Manifests]) -> None:
    with pytest.raises(ClusterError, match=r"1\.yaml, document 1: Node n1: .*0\.yaml, document 1"):
        read(NODE, NODE)


def test_pods_of_two_namespaces_may_have_one_name(read: Callable[..., Manifests]) -> None:
    pods = "kind: Pod\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: a, namespace: b}"
    assert [pod.key for pod in read(pods).cluster.pods] == ["default/a", "b/a"]


def test_kinds_without_influence_are_counted(read: Callable[..., Manifests]) -> None:
    text = "kind: ConfigMap\nwhatever: 1\n---\nkind: ConfigMap\n---\n" + NODE
    ((path, counts),) = read(text + "---\napiVersion: x.io/v1\nkind: Service").ignored.items()
    assert path.name == "0.yaml"
    assert counts == {"ConfigMap": 2, "Service": 1}


def test_kinds_without_influence_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(NODE + "---\nkind: ConfigMap\n", encoding="utf-8")
    assert explain("--manifests", str(path)).stderr.splitlines()[0] == (
        f"kubesched-explain: {path}: no decision depends on 1 ConfigMap"
    )


def test_manifests_come_from_standard_input() -> None:
    pod = "kind: Pod\nmetadata: {name: a}"
    assert "default/a" in explain("--manifests", "-", stdin=f"{NODE}---\n{pod}").stdout


def test_typed_lists_and_streams_of_json_are_read(read: Callable[..., Manifests]) -> None:
    listed = {"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}
    text = json.dumps(listed) + "\n" + json.dumps({"kind": "Node", "metadata": {"name": "b"}})
    assert [n.metadata.name for n in read(text, suffix="json").cluster.nodes] == ["a", "b"]


def test_yaml_that_begins_like_json_is_read(read: Callable[..., Manifests]) -> None:
    assert read("{kind: Node, metadata: {name: a}}").cluster.nodes[0].metadata.name == "a"


def test_pods_that_have_ended_are_left_out(read: Callable[..., Manifests]) -> None:
    pod = "kind: Pod\nmetadata: {name: a}\nspec: {nodeName: gone}\nstatus: {phase: Succeeded}"
    assert read(f"{NODE}---\n{pod}").cluster.pods == []


def test_a_bound_pod_without_requests_occupies_its_limits(read: Callable[..., Manifests]) -> None:
    limits = "containers: [{name: c, resources: {limits: {cpu: 2}}}]"
    pod = f"kind: Pod\nmetadata: {{name: a}}\nspec: {{nodeName: n1, {limits}}}"
    (found,) = read(f"{NODE}---\n{pod}").cluster.pods
    assert found.spec.containers[0].resources.requests == {"cpu": 2}


def test_a_nodes_capacity_is_allocatable_by_default(read: Callable[..., Manifests]) -> None:
    (node,) = read(NODE + "status: {capacity: {cpu: 2}}").cluster.nodes
    assert node.status.allocatable == {"cpu": 2}


@pytest.mark.parametrize(
    ("spec", "priority", "policy"),
    [
        ("priorityClassName: high", 10, "Never"),
        ("{priorityClassName: high, priority: 7}", 7, None),
        ("priorityClassName: system-node-critical", 2_000_001_000, None),
        ("{}", 3, None),
    ],
)
def test_a_pod_has_the_priority_of_its_class(
    read: Callable[..., Manifests], spec: str, priority: int, policy: str | None
) -> None:
    spec = spec if spec.startswith("{") else f"{{{spec}}}"
    classes = (
        "kind: PriorityClass\nmetadata: {name: high}\nvalue: 10\npreemptionPolicy: Never\n---\n"
        "kind: PriorityClass\nmetadata: {name: usual}\nvalue: 3\nglobalDefault: true\n---\n"
    )
    (pod,) = read(f"{classes}kind: Pod\nmetadata: {{name: a}}\nspec: {spec}").cluster.pods
    assert (pod.spec.priority, pod.spec.preemption_policy) == (priority, policy)


def test_a_class_that_is_not_there_is_an_error(read: Callable[..., Manifests]) -> None:
    with pytest.raises(ClusterError, match=r"Pod a: spec: no PriorityClass with name x was found"):
        read("kind: Pod\nmetadata: {name: a}\nspec: {priorityClassName: x}")


def test_anchors_and_merges_are_resolved(read: Callable[..., Manifests]) -> None:
    text = (
        "kind: Node\nmetadata: {name: a, labels: &l {x: '1', y: '2'}}\n"
        "status: {allocatable: &s {cpu: 1, pods: 0x10}}\n---\n"
        "kind: List\nitems:\n- {kind: Node, metadata: &m {name: b, labels: {x: yes-no}}}\n"
        "- {kind: Node, metadata: {<<: *m, name: c}}"
    )
    a, b, c = read(text).cluster.nodes
    assert (a.status.allocatable["cpu"], a.status.allocatable["pods"]) == (1, 16)
    assert (c.metadata.name, c.metadata.labels) == ("c", b.metadata.labels)


def test_an_anchor_ends_with_its_document(read: Callable[..., Manifests]) -> None:
    with pytest.raises(ClusterError, match="unknown anchor"):
        read("kind: ConfigMap\ndata: &a {}\n---\nkind: ConfigMap\ndata: *a")


def test_a_whole_number_may_be_written_as_a_float(read: Callable[..., Manifests]) -> None:
    pod = "kind: Pod\nmetadata: {name: a}\nspec: {priority: 1e3}"
    (pod_read,) = read(pod).cluster.pods
    assert pod_read.spec.priority == 1000


def test_quoted_and_repeated_scalars_are_read() -> None:
    text = b"a: ['-', '1', \"true\", '', 1Gi, 1Gi, 1, '1']"
    assert [*read_yaml(text)] == [{"a": ["-", "1", "true", "", "1Gi", "1Gi", 1, "1"]}]


def test_keys_become_strings_as_in_json() -> None:
    assert [*read_yaml(b"{1: a, true: b, 1.5: c}")] == [{"1": "a", "true": "b", "1.5": "c"}]


def test_objects_of_other_versions_are_read(read: Callable[..., Manifests]) -> None:
    text = (
        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n"
        "spec: {podPreemptionPolicy: {disableResizePreemption: [me]}}\n---\n"
        "apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {name: r}\n---\n"
        "apiVersion: scheduling.k8s.io/v1alpha1\nkind: Workload\nmetadata: {name: w}\n"
        "spec: {podGroups: [{name: g, policy: {gang: {minCount: 2}}}]}\n---\n"
        "apiVersion: scheduling.k8s.io/v1alpha2\nkind: Workload\nmetadata: {name: w}\n"
        "spec: {podGroupTemplates: [{name: g}]}\n"
    )
    found = read(text)
    assert {plural for plural, objects in found.cluster.others.items() if objects} == {
        "devicetaintrules",
        "workloads",
    }
    ((_, ignored),) = found.ignored.items()
    assert ignored == {"Workload": 1}


def test_the_fields_include_those_of_the_fake_api_server() -> None:
    """Two independent readings: Kubernetes' OpenAPI documents, and the struct tags of its types.

    The fake API server has all fields of 1.36, and those of 1.35 and 1.37 that a scheduler reads.
    """
    ours = json.loads((ROOT / "scheduler/explain/fields.json").read_text("utf-8"))["types"]
    theirs = json.loads((ROOT / "fakeapi/types/schema.json").read_text("utf-8"))
    by_name: dict[str, list[Any]] = {}
    for name, fields in theirs.items():
        group, _, version_and_kind = name.partition("/")
        by_name[f"{group}.{version_and_kind.removeprefix('v1.')}"] = fields
    for name, fields in ours.items():
        group, _, kind = name.partition(".")
        found = by_name.get(name) or by_name.get(f"{group}.k8s.io.{kind}")
        assert {field[0] for field in found or ()} <= set(fields), name


@pytest.mark.slow
def test_25_000_objects_are_read_in_five_seconds(tmp_path: Path) -> None:
    nodes = [f"kind: Node\nmetadata: {{name: n{i}}}" for i in range(5_000)]
    pods = [
        f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: p{i}\n  labels:\n    app: web\n"
        f"spec:\n  nodeName: n{i % 5000}\n  containers:\n  - name: c\n    image: web:v{i % 9}\n"
        '    resources:\n      requests:\n        cpu: "1"\n        memory: 1Gi\n'
        for i in range(20_000)
    ]
    path = tmp_path / "large.yaml"
    path.write_text("\n---\n".join(nodes + pods), encoding="utf-8")
    started = time.process_time()
    assert len(read_manifests([path]).cluster.pods) == 20_000
    assert time.process_time() - started < 5.0
