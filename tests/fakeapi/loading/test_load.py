"""Manifests: files, directories, Lists, dumps of a cluster, and errors of invalid ones."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fakeapi import FakeApiServer, LoadError

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  priorityClassName: high
  containers: [{name: c, image: x}]
"""
CLASS = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
"""


def stored(server: FakeApiServer, plural: str, name: str, namespace: str = "default") -> Any:
    """An object straight from the store; these tests need no HTTP."""
    group = "scheduling.k8s.io" if plural == "priorityclasses" else ""
    revision = server._registry.store.get((group, plural), namespace, name)
    return None if revision is None else revision.object


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_the_order_of_documents_does_not_matter(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", f"---\n{POD}---\n# nothing\n---\n{CLASS}")
    server = FakeApiServer(load=[path])
    assert stored(server, "pods", "p")["spec"]["priority"] == 1000


def test_json_is_taken_too(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.json", '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}'
    )
    assert stored(FakeApiServer(load=[path]), "configmaps", "c") is not None


def test_a_directory_is_searched_for_manifests(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub" / "z.yml", CLASS)
    write(tmp_path / "a.yaml", POD)
    write(tmp_path / "notes.txt", "not a manifest")
    assert stored(FakeApiServer(load=[tmp_path]), "pods", "p") is not None


def test_a_directory_without_manifests_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "notes.txt", "not a manifest")
    with pytest.raises(LoadError, match=r"expected files that end in \.json, \.yaml, \.yml"):
        FakeApiServer(load=[tmp_path])


def test_objects_of_a_program_are_taken_as_they_are() -> None:
    server = FakeApiServer(load=[yaml.safe_load(CLASS), yaml.safe_load(POD)])
    assert stored(server, "pods", "p") is not None
    assert server.load([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}]) == 1
    assert stored(server, "nodes", "n", "") is not None


@pytest.mark.parametrize(
    "listed",
    [
        {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(CLASS), yaml.safe_load(POD)]},
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClassList",
            "items": [{"metadata": {"name": "high"}, "value": 1000}],
        },
    ],
)
def test_lists_are_taken_apart(listed: dict[str, Any]) -> None:
    assert stored(FakeApiServer(load=[listed]), "priorityclasses", "high", "") is not None


def test_a_dump_of_a_cluster_is_cleaned_and_keeps_its_state() -> None:
    dumped = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "team",
            "uid": "11111111-2222-3333-4444-555555555555",
            "resourceVersion": "77",
            "generation": 3,
            "creationTimestamp": "2020-01-01T00:00:00Z",
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "x"}]},
        "status": {"phase": "Running", "qosClass": "BestEffort", "podIP": "10.0.0.1"},
    }
    server = FakeApiServer(load=[dumped])
    found = stored(server, "pods", "p", "team")
    assert found["metadata"]["uid"] != dumped["metadata"]["uid"]  # type: ignore[index]
    entries = found["metadata"]["managedFields"]  # type: ignore[index]
    assert {entry["manager"] for entry in entries} == {"kubesched-fakeapi"}
    assert found["metadata"]["generation"] == 1
    assert found["status"]["phase"] == "Running"
    assert stored(server, "namespaces", "team", "") is not None


def test_objects_that_each_server_makes_may_be_in_the_dump() -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "default", "labels": {"team": "core"}, "resourceVersion": "9"},
        "status": {"phase": "Active"},
    }
    server = FakeApiServer(load=[namespace])
    assert stored(server, "namespaces", "default", "")["metadata"]["labels"]["team"] == "core"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "PATH: line 2, column 1: while parsing a flow node"),
        ("just text", "PATH: document 1: expected an object with kind and apiVersion"),
        ("kind: Pod", "PATH: document 1: apiVersion: expected a string"),
        ("apiVersion: v1", "PATH: document 1: kind: expected a string"),
        ("apiVersion: v1\nkind: Pod", "PATH: document 1: metadata: expected an object"),
        (
            "apiVersion: v9\nkind: Pod\nmetadata: {name: p}",
            "PATH: document 1: kind: no Pod in v9 is served",
        ),
        (
            f"{CLASS}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\n"
            "spec: {containers: 3}",
            "PATH: document 2: Pod p: json: cannot unmarshal number into Go struct field "
            "PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {}",
            'PATH: document 1: Pod p: Pod "p" is invalid: spec.containers: Required value',
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndat: {a: b}",
            'PATH: document 1: ConfigMap c: unknown field "dat"',
        ),
        (
            "apiVersion: v1\nkind: List\nitems: [3]",
            "PATH: document 1: items[0]: expected an object",
        ),
        (f"{CLASS}---\n{CLASS.replace('1000', '7')}", "PATH: document 2: PriorityClass high: "),
        (
            POD,
            'PATH: document 1: Pod p: pods "p" is forbidden: no PriorityClass with name high was '
            "found",
        ),
    ],
)
def test_bad_manifests_are_named_by_file_document_and_field(
    tmp_path: Path, text: str, message: str
) -> None:
    path = write(tmp_path / "bad.yaml", text)
    with pytest.raises(LoadError) as caught:
        FakeApiServer(load=[path])
    shown = str(caught.value)
    assert shown.startswith(message.replace("PATH", str(path)))
    assert "\n" not in shown


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"nope\.yaml: No such file or directory"):
        FakeApiServer(load=[tmp_path / "nope.yaml"])


def test_the_same_object_twice_is_one_too_many(tmp_path: Path) -> None:
    one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
    path = write(tmp_path / "a.yaml", f"{one}---\n{one}")
    with pytest.raises(LoadError, match='document 2: ConfigMap c: configmaps "c" already exists'):
        FakeApiServer(load=[path])
