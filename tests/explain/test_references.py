"""Input that lacks a kind that pods refer to: a warning, and answers marked as unsure."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import convert

from scheduler.api.core import Pod
from scheduler.explain.cli import main
from scheduler.explain.cluster import Cluster
from scheduler.explain.references import MissingKinds

NODE = {
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "4", "pods": "10"}},
}


def _pod(name: str, spec: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c"}], **(spec or {})},
    }


def _with_claim(name: str) -> dict[str, Any]:
    source = {"persistentVolumeClaim": {"claimName": name}}
    return _pod(name, {"volumes": [{"name": "data", **source}]})


def _claim(name: str, **spec: str) -> dict[str, Any]:
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def _explained(*objects: Mapping[str, Any], arguments: tuple[str, ...] = ()) -> Result:
    dump = json.dumps({"kind": "List", "items": [NODE, *objects]})
    result = CliRunner().invoke(main, ["--manifests", "-", *arguments], input=dump)
    assert result.exit_code == 0, result.output
    return result


def test_a_dump_without_claims_is_a_warning_with_the_number_of_pods() -> None:
    result = _explained(_with_claim("a"), _with_claim("b"), _pod("plain"))
    assert result.stderr == (
        "kubesched-explain: no PersistentVolumeClaims in the input: 2 pods refer to some; "
        "what is said of them is unsure\n"
    )


def test_only_the_answers_that_depend_on_the_missing_kind_are_unsure() -> None:
    result = _explained(_with_claim("a"), _pod("plain"), arguments=("-o", "json"))
    unsure = {pod["pod"]: pod["unsure"] for pod in json.loads(result.stdout)["pods"]}
    assert unsure == {"default/a": ["PersistentVolumeClaims"], "default/plain": []}


def test_the_answer_itself_is_marked() -> None:
    headline = _explained(_with_claim("a")).stdout.splitlines()[0]
    assert headline.endswith("(unsure: no PersistentVolumeClaims in the input)")


def test_only_the_pods_that_are_explained_count() -> None:
    objects = _with_claim("a"), _pod("plain")
    assert _explained(*objects, arguments=("--pod", "plain")).stderr == ""
    assert "1 pod refers" in _explained(*objects, arguments=("--pod", "a")).stderr


def test_an_api_server_that_lists_no_claims_has_none() -> None:
    pod = convert({"metadata": {"name": "a"}, "spec": _with_claim("a")["spec"]}, Pod)
    cluster = Cluster([], [pod], {})
    assert list(MissingKinds(cluster, unread=[]).warnings([pod])) == []
    (warning,) = MissingKinds(cluster, unread=["persistentvolumeclaims"]).warnings([pod])
    assert warning.startswith("no PersistentVolumeClaims in the input: 1 pod refers")


def _affinity(selector: Mapping[str, Any]) -> dict[str, Any]:
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": selector}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@pytest.mark.parametrize(
    ("objects", "missing"),
    [
        ([_with_claim("a"), _claim("a", volumeName="v")], "PersistentVolumes"),
        ([_with_claim("a"), _claim("a", storageClassName="fast")], "StorageClasses"),
        ([_with_claim("a"), _claim("other")], ""),
        # A claim that is not the pod's own rejects the pod, and is no end of the command.
        (
            [
                _pod(
                    "a",
                    {"volumes": [{"name": "b", "emptyDir": {}}, {"name": "v", "ephemeral": {}}]},
                ),
                _claim("a-v", volumeName="v"),
            ],
            "PersistentVolumes",
        ),
        ([_pod("a", _affinity({"matchLabels": {"team": "x"}}))], "Namespaces"),
        ([_pod("a", _affinity({}))], ""),
        (
            [_pod("a", {"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]})],
            "ResourceClaims ResourceSlices DeviceClasses",
        ),
    ],
)
def test_every_kind_that_a_pod_refers_to_is_named(
    objects: list[dict[str, Any]], missing: str
) -> None:
    lines = _explained(*objects).stderr.splitlines()
    assert [line.split()[2] for line in lines] == missing.split()


def test_the_dump_command_names_all_kinds_that_decisions_depend_on() -> None:
    command = CliRunner().invoke(main, ["--dump-command"]).stdout
    assert command.startswith("kubectl get nodes,pods,")
    assert command.endswith(" -A -o json\n")
    kinds = command.split()[2].split(",")
    assert {"persistentvolumeclaims", "storageclasses.storage.k8s.io", "namespaces"} <= set(kinds)
    assert "resourceslices.resource.k8s.io" in kinds


def test_the_dump_command_names_the_kinds_of_plugins() -> None:
    arguments = ["--dump-command", "--plugin", "tests.explain.reads_quota:ReadsQuota"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "configmaps,quotas.example.com -A" in result.stdout
