"""The dump of a cluster becomes a working cluster: references, states, all or nothing."""

import io
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakeapi import FakeApiServer, LoadError, ManualClock, ServerOptions

from ..api_client import ApiClient
from ..custom_resources import DEFINITIONS, WIDGETS, definition
from ..objects import CONFIG_MAPS, NODES, PODS, PRIORITY_CLASSES, config_map, pod
from ..state_files import everything, serving

Json = dict[str, Any]

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
OLD = "00000000-0000-4000-8000-00000000000"


def dumped(kind: str, name: str, uid: int, api_version: str = "v1", **parts: Any) -> Json:
    """An object as `kubectl get -o yaml` shows it; metadata beyond the usual is in `meta`."""
    metadata = {
        "name": name,
        "uid": f"{OLD}{uid}",
        "resourceVersion": str(700 + uid),
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "generation": 3,
        "selfLink": "/somewhere",
        "managedFields": [{"manager": "kubectl", "operation": "Update"}],
        **parts.pop("meta", {}),
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def owned_by(kind: str, name: str, uid: int | None, api_version: str = "v1") -> Json:
    reference = {"apiVersion": api_version, "kind": kind, "name": name, "controller": True}
    if uid is not None:
        reference["uid"] = f"{OLD}{uid}"
    return {"ownerReferences": [reference]}


def stored(server: FakeApiServer, plural: str, name: str, group: str = "") -> Any:
    revision = next(
        (
            revision
            for collection in server._registry.store.collections()
            if collection.resource == (group, plural)
            for key, revision in collection.revisions.items()
            if key.rpartition("/")[2] == name
        ),
        None,
    )
    return None if revision is None else revision.object


def loaded(*objects: Json, **options: Any) -> FakeApiServer:
    return FakeApiServer(clock=ManualClock(), load=objects, **options)


RUNNING = {"phase": "Running", "podIP": "10.0.0.1", "qosClass": "BestEffort"}
POD_SPEC = {"nodeName": "n1", "containers": [{"name": "c", "image": "x"}]}


def test_owners_are_named_by_their_new_uids_in_any_order() -> None:
    child = dumped("Pod", "p", 3, meta=owned_by("ReplicaSet", "r", 2, "apps/v1"), spec=POD_SPEC)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": POD_SPEC["containers"]}}
    middle = dumped(
        "ReplicaSet",
        "r",
        2,
        "apps/v1",
        meta=owned_by("ConfigMap", "top", 1),
        spec={"selector": {"matchLabels": {"a": "b"}}, "template": template},
    )
    top = dumped("ConfigMap", "top", 1)
    server = loaded(child, middle, top)
    found = [
        stored(server, "configmaps", "top")["metadata"],
        stored(server, "replicasets", "r", "apps")["metadata"],
        stored(server, "pods", "p")["metadata"],
    ]
    for owner, owned in itertools.pairwise(found):
        assert owned["ownerReferences"][0]["uid"] == owner["uid"]
        assert not owner["uid"].startswith(OLD)
        assert int(owner["resourceVersion"]) < int(owned["resourceVersion"])
        assert not {"generation", "selfLink"} & owner.keys() or owner["generation"] == 1
        assert owner["creationTimestamp"] != "2020-01-01T00:00:00Z"
        managers = {entry["manager"] for entry in owned["managedFields"]}
        assert managers == {"kubesched-fakeapi"}


def test_an_owner_that_is_not_loaded_keeps_its_uid() -> None:
    server = loaded(dumped("ConfigMap", "c", 1, meta=owned_by("Node", "elsewhere", 9)))
    reference = stored(server, "configmaps", "c")["metadata"]["ownerReferences"][0]
    assert reference["uid"] == f"{OLD}9"


def test_a_namesake_of_an_owner_is_not_the_owner() -> None:
    owner = dumped("ConfigMap", "o", 5)
    server = loaded(owner, dumped("ConfigMap", "c", 1, meta=owned_by("ConfigMap", "o", 4)))
    reference = stored(server, "configmaps", "c")["metadata"]["ownerReferences"][0]
    assert reference["uid"] == f"{OLD}4"


@pytest.mark.parametrize("uid", [None, 7])
def test_an_owner_written_by_hand_is_found_by_its_name(uid: int | None) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o"}}
    meta = {"name": "c", "namespace": "default", **owned_by("ConfigMap", "o", uid)}
    server = loaded({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}, owner)
    reference = stored(server, "configmaps", "c")["metadata"]["ownerReferences"][0]
    assert reference["uid"] == stored(server, "configmaps", "o")["metadata"]["uid"]


def test_owners_in_a_circle_name_each_other_still() -> None:
    one = dumped("ConfigMap", "one", 1, meta=owned_by("ConfigMap", "two", 2))
    two = dumped("ConfigMap", "two", 2, meta=owned_by("ConfigMap", "one", 1))
    server = loaded(one, two)
    for owned, owner in (("one", "two"), ("two", "one")):
        reference = stored(server, "configmaps", owned)["metadata"]["ownerReferences"][0]
        assert reference["uid"] == stored(server, "configmaps", owner)["metadata"]["uid"]


def test_a_long_line_of_owners_is_no_problem() -> None:
    line = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"c{number}", **owned_by("ConfigMap", f"c{number + 1}", None)},
        }
        for number in range(1500)
    ]
    line.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c1500"}})
    server = loaded(*line)
    versions = [
        int(stored(server, "configmaps", f"c{number}")["metadata"]["resourceVersion"])
        for number in (0, 750, 1500)
    ]
    assert versions == sorted(versions, reverse=True)


def test_uids_are_kept_on_request() -> None:
    owned = dumped("ConfigMap", "c", 1, meta=owned_by("ConfigMap", "o", 2))
    server = loaded()
    server.load([owned, dumped("ConfigMap", "o", 2)], keep_uids=True)
    found = stored(server, "configmaps", "c")["metadata"]
    assert (found["uid"], found["ownerReferences"][0]["uid"]) == (f"{OLD}1", f"{OLD}2")


def test_volumes_stay_bound_to_their_claims() -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/x"},
        "claimRef": {
            "kind": "PersistentVolumeClaim",
            "namespace": "default",
            "name": "c",
            "uid": f"{OLD}2",
        },
    }
    volume = dumped("PersistentVolume", "v", 1, spec=spec, status={"phase": "Bound"})
    claim = dumped(
        "PersistentVolumeClaim",
        "c",
        2,
        meta={"namespace": "default"},
        spec={
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": "v",
        },
        status={
            "phase": "Bound",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
        },
    )
    server = loaded(volume, claim)
    found = stored(server, "persistentvolumes", "v"), stored(server, "persistentvolumeclaims", "c")
    assert [one["status"]["phase"] for one in found] == ["Bound", "Bound"]
    assert found[1]["status"]["capacity"] == {"storage": "1Gi"}
    assert found[0]["spec"]["claimRef"]["uid"] == found[1]["metadata"]["uid"]


def test_jobs_select_their_pods_by_the_new_uid() -> None:
    labels = {"batch.kubernetes.io/controller-uid": f"{OLD}1"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never", "containers": POD_SPEC["containers"]},
    }
    job = dumped(
        "Job", "j", 1, "batch/v1", spec={"selector": {"matchLabels": labels}, "template": template}
    )
    server = loaded(dumped("Pod", "p", 2, meta={"labels": labels}, spec=POD_SPEC), job)
    found = stored(server, "jobs", "j", "batch")
    new = {"batch.kubernetes.io/controller-uid": found["metadata"]["uid"]}
    assert found["spec"]["selector"]["matchLabels"] == new
    assert new.items() <= found["spec"]["template"]["metadata"]["labels"].items()
    assert stored(server, "pods", "p")["metadata"]["labels"] == new


def test_claims_stay_reserved_for_their_pods() -> None:
    claim = dumped(
        "ResourceClaim",
        "c",
        1,
        "resource.k8s.io/v1",
        spec={
            "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example"}}]}
        },
        status={
            "reservedFor": [{"resource": "pods", "name": "p", "uid": f"{OLD}2"}],
            "allocation": {},
        },
    )
    server = loaded(claim, dumped("Pod", "p", 2, spec=POD_SPEC))
    (reserved,) = stored(server, "resourceclaims", "c", "resource.k8s.io")["status"]["reservedFor"]
    assert reserved["uid"] == stored(server, "pods", "p")["metadata"]["uid"]


def test_nodes_and_pods_keep_their_state() -> None:
    conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2020-01-01T00:00:00Z"}]
    node = dumped(
        "Node",
        "n1",
        1,
        spec={"podCIDR": "10.0.0.0/24"},
        status={"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}, "conditions": conditions},
    )
    one = dumped("Pod", "p", 2, meta={"namespace": "team"}, spec=POD_SPEC, status=RUNNING)
    server = loaded(
        one, node, options=ServerOptions(enable_admission_plugins=["TaintNodesByCondition"])
    )
    found = stored(server, "nodes", "n1")
    assert found["status"]["allocatable"] == {"cpu": "4"}
    assert found["status"]["conditions"][0]["status"] == "True"
    assert "taints" not in found["spec"]  # it was admitted where it came from
    found = stored(server, "pods", "p")
    assert found["spec"]["nodeName"] == "n1"
    assert {key: found["status"][key] for key in RUNNING} == RUNNING


def test_dumped_objects_skip_admission() -> None:
    spec = {**POD_SPEC, "priorityClassName": "not-dumped", "priority": 7, "tolerations": []}
    server = loaded(dumped("Pod", "p", 1, spec=spec))
    found = stored(server, "pods", "p")["spec"]
    assert (found["priority"], "tolerations" in found) == (7, False)


def test_match_label_keys_are_not_merged_twice() -> None:
    selector = {
        "matchLabels": {"app": "a"},
        "matchExpressions": [
            {"key": "tier", "operator": "Exists"},
            {"key": "hash", "operator": "In", "values": ["1"]},
        ],
    }
    term = {"topologyKey": "zone", "labelSelector": selector, "matchLabelKeys": ["hash"]}
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        "matchLabelKeys": ["hash"],
    }
    spec = {
        **POD_SPEC,
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "topologySpreadConstraints": [spread],
    }
    labels = {"app": "a", "hash": "1"}
    found = stored(loaded(dumped("Pod", "p", 1, meta={"labels": labels}, spec=spec)), "pods", "p")
    terms = found["spec"]["affinity"]["podAntiAffinity"]
    (kept,) = terms["requiredDuringSchedulingIgnoredDuringExecution"]
    assert kept["labelSelector"] == selector
    assert found["spec"]["topologySpreadConstraints"][0]["labelSelector"] == selector


def test_objects_of_the_dump_replace_the_systems_own_objects() -> None:
    before = dumped("Namespace", "default", 1, status={"phase": "Active"})
    server = loaded(before, dumped("ConfigMap", "c", 2, data={"a": "1"}))
    uid = stored(server, "configmaps", "c")["metadata"]["uid"]
    owned = dumped("ConfigMap", "d", 3, meta=owned_by("ConfigMap", "c", 2))
    server.load([dumped("ConfigMap", "c", 2, data={"a": "2"}), owned])
    found = stored(server, "configmaps", "c")
    assert (found["metadata"]["uid"], found["data"]) == (uid, {"a": "2"})
    assert stored(server, "configmaps", "d")["metadata"]["ownerReferences"][0]["uid"] == uid


def test_custom_resources_may_come_before_their_definition() -> None:
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": 1},
    }
    made = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        **definition(),
    }
    server = loaded(widget, made)
    assert stored(server, "widgets", "w", "example.com")["spec"] == {"size": 1, "color": "red"}


@pytest.mark.parametrize(
    "bad",
    [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "NO"}},
        {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
    ],
)
async def test_all_or_nothing_on_a_running_server(bad: Json) -> None:
    good = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "new"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            **definition(),
        },
    ]
    async with serving() as (server, api):
        version = server.resource_version
        with pytest.raises(LoadError, match="object 3"):
            server.load([*good, bad])
        assert server.resource_version == version
        assert (await api.get(WIDGETS)).code == 404
        assert server.load(good) == 3
        assert (await api.get(WIDGETS)).code == 200
        assert (await api.get(CONFIG_MAPS)).names == ["a"]


async def dump(api: ApiClient, *paths: str) -> Json:
    """Return the output of `kubectl get -o yaml` for several resources: one List of objects."""
    items = []
    for listed in (await everything(api, *paths)).values():
        kind = listed["kind"].removesuffix("List")
        items += [
            {"apiVersion": listed["apiVersion"], "kind": kind, **item} for item in listed["items"]
        ]
    return {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {"resourceVersion": ""},
        "items": items,
    }


def without_what_a_server_sets(listed: Json) -> Json:
    copied: Json = json.loads(json.dumps(listed))
    for item in copied["items"]:
        for name in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
            item["metadata"].pop(name, None)
    return copied


@pytest.mark.parametrize("suffix", ["yaml", "json"])
async def test_a_dump_of_ours_loads_as_it_was(tmp_path: Path, suffix: str) -> None:
    paths = (DEFINITIONS, WIDGETS, PODS, NODES, PRIORITY_CLASSES, CONFIG_MAPS)
    async with serving() as (_, api):
        await api.create(DEFINITIONS, definition())
        await api.create(
            WIDGETS,
            {
                "apiVersion": "example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "w"},
                "spec": {"size": 1},
            },
        )
        await api.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 5})
        await api.create(NODES, {"metadata": {"name": "n1"}})
        await api.create(PODS, pod("p", spec={"priorityClassName": "high"}))
        await api.create(CONFIG_MAPS, config_map("c", {"a": "b"}))
        before = await dump(api, *paths)
    path = tmp_path / f"dump.{suffix}"
    write(path, before)
    async with serving(load=[path]) as (_, api):
        after = await dump(api, *paths)
    assert without_what_a_server_sets(after) == without_what_a_server_sets(before)


def write(path: Path, value: Json) -> None:
    is_json = path.suffix == ".json"
    text = json.dumps(value, indent="\t") if is_json else yaml.safe_dump(value)
    path.write_text(text, encoding="utf-8")


def standard_input(text: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")


def test_the_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
    monkeypatch.setattr(sys, "stdin", standard_input(text))
    assert stored(FakeApiServer(load=["-"]), "configmaps", "c") is not None
    monkeypatch.setattr(sys, "stdin", standard_input("kind: Pod"))
    with pytest.raises(
        LoadError, match=r"^standard input: document 1: apiVersion: expected a stri"
    ):
        FakeApiServer(load=["-"])


def test_json_may_have_tabs_and_several_documents(tmp_path: Path) -> None:
    path = tmp_path / "a"
    one = '{\n\t"apiVersion": "v1",\n\t"kind": "ConfigMap",\n\t"metadata": {"name": "NAME"}\n}\n'
    path.write_text(one.replace("NAME", "a") + one.replace("NAME", "b"), encoding="utf-8")
    server = FakeApiServer(load=[path])
    assert stored(server, "configmaps", "a") is not None
    assert stored(server, "configmaps", "b") is not None


def test_a_yaml_mapping_in_braces_is_no_broken_json(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}", encoding="utf-8")
    assert stored(FakeApiServer(load=[path]), "configmaps", "c") is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": ', "Expecting value: line 1 column 7"),
        ('{"a": NaN}', "NaN is no JSON value"),
        ('{} {"apiVersion": 3}', "document 1: apiVersion: expected a string"),
        ("[1]", "document 1: expected an object with kind and apiVersion"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_bad_json_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LoadError) as caught:
        FakeApiServer(load=[path])
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)
