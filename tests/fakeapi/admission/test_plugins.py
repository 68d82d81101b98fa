"""The selection of admission plugins: flags, defaults, and a server without each of them."""

from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from fakeapi import FakeApiServer, ServerOptions
from fakeapi.admission.runtime_class import includes, merged_tolerations
from fakeapi.admission.selection import ABSENT, KNOWN, AdmissionError, admission_chain
from fakeapi.cli.command import command

from ..api_client import ApiClient
from ..objects import NODES, PODS, PRIORITY_CLASSES, binding, config_map, pod, with_resources

STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
ON = (
    "NamespaceLifecycle", "LimitRanger", "Priority", "DefaultTolerationSeconds",
    "DefaultStorageClass", "StorageObjectInUseProtection", "PodGroupProtection",
    "PersistentVolumeClaimResize", "RuntimeClass", "DefaultIngressClass", "PodTopologyLabels",
    "PodGroupWorkloadExists", "JobValidation", "ResourceQuota",
)  # fmt: skip


def test_the_default_is_upstreams_in_its_order() -> None:
    assert admission_chain().names == ON
    tainting = admission_chain(enable=["TaintNodesByCondition"]).names
    assert set(tainting) - set(ON) == {"TaintNodesByCondition"}


def test_lists_add_take_away_and_replace() -> None:
    chosen = admission_chain(enable=["NamespaceExists"], disable=["Priority,PodSecurity"])
    names = chosen.names
    assert "NamespaceExists" in names
    assert "Priority" not in names
    assert admission_chain("ResourceQuota, Priority").names == ("Priority", "ResourceQuota")
    assert admission_chain("").names == ()


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ({"enable": "Nope"}, 'enable-admission-plugins plugin "Nope" is unknown; known are Name'),
        ({"disable": "Nope"}, 'disable-admission-plugins plugin "Nope" is unknown; known are '),
        ({"plugins": "Nope"}, 'admission-plugins plugin "Nope" is unknown; known are '),
        ({"enable": "NodeRestriction"}, 'plugin "NodeRestriction" is not part of this server'),
        (
            {"enable": "Priority", "disable": "Priority"},
            "[Priority] in enable-admission-plugins and disable-admission-plugins overlapped",
        ),
        ({"plugins": "Priority", "disable": "LimitRanger"}, "admission-plugins is the whole list"),
    ],
)
def test_lists_that_make_no_sense_are_refused(lists: dict[str, str], words: str) -> None:
    with pytest.raises(AdmissionError) as caught:
        admission_chain(**lists)
    assert words in str(caught.value)


def test_every_plugin_of_upstream_is_known_or_known_to_be_absent() -> None:
    names = [plugin.name for plugin in KNOWN]
    assert len(names) == len(set(names))
    assert not ABSENT & set(names)
    assert len(names) + len(ABSENT) == 41


def test_the_command_line_names_the_flag() -> None:
    result = CliRunner().invoke(command, ["--enable-admission-plugins=Priority,Nope"])
    assert result.exit_code == 2
    assert '--enable-admission-plugins plugin "Nope" is unknown' in result.output


async def test_without_plugins_pods_stay_as_they_were_sent(
    session: aiohttp.ClientSession,
) -> None:
    async with FakeApiServer(options=ServerOptions(admission_plugins=())) as server:
        api = ApiClient(session, server.url)
        node = {"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z"}}}
        await api.create(NODES, node)
        spec = {"priorityClassName": "nope", "runtimeClassName": "nope", "priority": 7}
        created = await api.create(PODS, pod("p", spec=spec))
        assert created["spec"]["priority"] == 7
        assert "tolerations" not in created["spec"]
        await api.post(f"{PODS}/p/binding", binding("p"))
        assert "labels" not in (await api.get(f"{PODS}/p")).body["metadata"]
        reply = await api.post("/api/v1/namespaces/nope/configmaps", config_map("c"))
        assert reply.code == 201
        assert (await api.delete("/api/v1/namespaces/kube-public")).code == 200
        reply = await api.delete(f"{PRIORITY_CLASSES}/system-node-critical")
        assert reply.code == 403  # not by a plugin


@pytest.mark.parametrize(
    ("plugin", "object_path", "value", "expected"),
    [
        ("LimitRanger", PODS, pod("p"), 201),
        ("LimitPodHardAntiAffinityTopology", PODS, None, 403),
        ("NamespaceExists", "/api/v1/namespaces/nope/configmaps", config_map("c"), 404),
    ],
)
async def test_a_plugin_alone(
    session: aiohttp.ClientSession, plugin: str, object_path: str, value: Any, expected: int
) -> None:
    term = {"topologyKey": "zone", "labelSelector": {}}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    async with FakeApiServer(options=ServerOptions(admission_plugins=[plugin])) as server:
        api = ApiClient(session, server.url)
        reply = await api.post(object_path, value or pod("p", spec={"affinity": anti}))
        assert reply.code == expected
        if plugin == "LimitPodHardAntiAffinityTopology":
            assert reply.message == (
                'pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has '
                "TopologyKey zone but only key kubernetes.io/hostname is allowed"
            )


async def test_pods_tolerate_the_devices_they_ask_for(session: aiohttp.ClientSession) -> None:
    async with FakeApiServer(
        options=ServerOptions(enable_admission_plugins="ExtendedResourceToleration")
    ) as server:
        api = ApiClient(session, server.url)
        asked = {"example.com/b": "1", "example.com/a": "1", "cpu": "1"}
        spec = with_resources(requests=asked, limits=asked)
        created = await api.create(PODS, pod("p", spec=spec))
        added = created["spec"]["tolerations"][2:]
        assert [(t["key"], t["operator"], t["effect"]) for t in added] == [
            ("example.com/a", "Exists", "NoSchedule"),
            ("example.com/b", "Exists", "NoSchedule"),
        ]


def claim(size: str) -> dict[str, Any]:
    asked = {"requests": {"storage": size}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": asked, "storageClassName": "gold"}
    return {"metadata": {"name": "c"}, "spec": spec}


async def test_a_claim_has_the_finalizer_of_the_protection_controller(api: ApiClient) -> None:
    created = await api.create(CLAIMS, claim("1Gi"))
    assert created["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    path = f"{CLAIMS}/{created['metadata']['name']}"
    assert (await api.request("DELETE", path)).body["metadata"]["deletionTimestamp"]
    assert (await api.get(path)).code == 200, "without a controller it stays"
    await api.patch(path, {"metadata": {"finalizers": None}})
    assert (await api.get(path)).code == 404


async def test_storage_is_not_protected_if_the_plugin_is_off(
    session: aiohttp.ClientSession,
) -> None:
    off = ServerOptions(disable_admission_plugins="StorageObjectInUseProtection")
    async with FakeApiServer(options=off) as server:
        api = ApiClient(session, server.url)
        created = await api.create(CLAIMS, claim("1Gi"))
        assert "finalizers" not in created["metadata"]


@pytest.mark.parametrize("expandable", [True, False])
async def test_claims_grow_if_they_are_bound_and_may(api: ApiClient, expandable: bool) -> None:
    await api.create(
        STORAGE_CLASSES,
        {"metadata": {"name": "gold"}, "provisioner": "p", "allowVolumeExpansion": expandable},
    )
    await api.create(CLAIMS, claim("1Gi"))
    more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    reply = await api.patch(f"{CLAIMS}/c", more)
    assert reply.code in (403, 422)  # the spec of a claim that is not bound is fixed anyway
    await api.patch(f"{CLAIMS}/c", {"spec": {"volumeName": "v"}})
    await api.patch(f"{CLAIMS}/c/status", {"status": {"phase": "Bound"}})
    reply = await api.patch(f"{CLAIMS}/c", more)
    assert reply.code == (200 if expandable else 403)
    if not expandable:
        assert reply.message.endswith(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions "
            "the pvc must support resize"
        )


async def test_an_ingress_without_a_class_gets_the_default_one(api: ApiClient) -> None:
    mark = {"ingressclass.kubernetes.io/is-default-class": "true"}
    metadata = {"name": "usual", "annotations": mark}
    await api.create(
        "/apis/networking.k8s.io/v1/ingressclasses",
        {"metadata": metadata, "spec": {"controller": "example.com/c"}},
    )
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    created = await api.create(
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        {"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}},
    )
    assert created["spec"]["ingressClassName"] == "usual"


async def test_nothing_is_created_in_a_namespace_that_is_going(api: ApiClient) -> None:
    metadata = {"name": "going", "finalizers": ["example.com/held"]}
    await api.create("/api/v1/namespaces", {"metadata": metadata})
    await api.create("/api/v1/namespaces/going/configmaps", config_map("old"))
    await api.delete("/api/v1/namespaces/going")
    reply = await api.post("/api/v1/namespaces/going/configmaps", config_map("new"))
    assert (reply.code, reply.causes) == (403, [("NamespaceTerminating", "metadata.namespace")])
    assert reply.message == (
        'configmaps "new" is forbidden: unable to create new content in namespace going because '
        "it is being terminated"
    )


#: Upstream's TestIsSuperset and TestMergeTolerations, pkg/util/tolerations/tolerations_test.go.
def _toleration(name: str) -> dict[str, object]:
    parts = name.split("-")
    effects = {"nosched": "NoSchedule", "noexec": "NoExecute", "prefnosched": "PreferNoSchedule"}
    made: dict[str, object] = {"operator": "Exists"}
    if parts[0] != "all":
        made["key"] = parts[0]
    for part in parts[1:]:
        if part in effects:
            made["effect"] = effects[part]
        elif part.isdigit():
            made["tolerationSeconds"] = int(part)
        else:
            made |= {"operator": "Equal", "value": part}
    return made


TOLERATIONS = (
    "all", "all-nosched", "all-noexec", "foo", "foo-bar",
    "foo-nosched", "foo-bar-nosched", "foo-baz-nosched", "faz-nosched",
    "faz-baz-nosched", "foo-prefnosched", "foo-noexec", "foo-bar-noexec",
    "foo-noexec-10", "foo-noexec-0", "foo-bar-noexec-10",
)  # fmt: skip


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("all", " ".join(TOLERATIONS)),
        ("all-nosched",
         "foo-nosched foo-bar-nosched foo-baz-nosched faz-nosched faz-baz-nosched"),
        ("all-noexec", "foo-noexec foo-bar-noexec foo-noexec-10 foo-noexec-0 foo-bar-noexec-10"),
        ("foo", " ".join(name for name in TOLERATIONS if name.startswith("foo"))),
        ("foo-bar", "foo-bar-nosched foo-bar-noexec foo-bar-noexec-10"),
        ("foo-nosched", "foo-bar-nosched foo-baz-nosched"),
        ("foo-bar-nosched", ""),
        ("faz-nosched", "faz-baz-nosched"),
        ("faz-baz-nosched", ""),
        ("foo-prefnosched", ""),
        ("foo-noexec", "foo-bar-noexec foo-noexec-10 foo-noexec-0 foo-bar-noexec-10"),
        ("foo-bar-noexec", "foo-bar-noexec-10"),
        ("foo-noexec-10", "foo-noexec-0 foo-bar-noexec-10"),
        ("foo-noexec-0", ""),
        ("foo-bar-noexec-10", ""),
    ],
)  # fmt: skip
def test_a_toleration_includes_narrower_ones(wide: str, narrow: str) -> None:
    found = {name for name in TOLERATIONS if includes(_toleration(wide), _toleration(name))}
    assert found == {wide, *narrow.split()}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("foo-bar-nosched faz-baz-nosched foo-noexec-10", "foo-prefnosched foo-baz-nosched",
         "foo-bar-nosched faz-baz-nosched foo-noexec-10 foo-prefnosched foo-baz-nosched"),
        ("foo-bar-nosched faz-baz-nosched foo-noexec-10",
         "foo-bar-nosched faz-baz-nosched foo-noexec-10",
         "foo-bar-nosched faz-baz-nosched foo-noexec-10"),
        ("foo-bar-nosched foo-baz-nosched", "foo-nosched faz-baz-nosched",
         "foo-nosched faz-baz-nosched"),
        ("foo-bar-nosched foo-baz-nosched foo-noexec-10", "all", "all"),
        ("all", "foo-bar-nosched foo-baz-nosched foo-noexec-10", "all"),
    ],
)  # fmt: skip
def test_tolerations_are_merged(first: str, second: str, expected: str) -> None:
    merged = merged_tolerations([_toleration(name) for name in [*first.split(), *second.split()]])
    assert merged == [_toleration(name) for name in expected.split()]
