"""kubectl with the server's own descriptions: discovery, explain, validation, definitions."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .clients import Kubectl, fake_api_process, kubectls

pytestmark = pytest.mark.slow

LABELS = {"app": "a"}
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "c", "image": "one"}]},
        },
    },
}
WIDGETS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                    },
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {
                                        "type": "integer",
                                        "minimum": 1,
                                        "description": "How large it is.",
                                    },
                                    "replicas": {"type": "integer"},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"replicas": {"type": "integer"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}


def deployment(image: str) -> str:
    """The manifest with that image."""
    changed = json.loads(json.dumps(DEPLOYMENT))
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return json.dumps(changed)


def widget(**spec: Any) -> str:
    """The manifest of a Widget."""
    made = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": 3, "replicas": 1, **spec},
    }
    return json.dumps(made)


@pytest.fixture(scope="module", params=kubectls() or [None])
def kubectl(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kubectl]:
    """Run the test with each kubectl that is installed, and a server of its own."""
    if request.param is None:
        pytest.skip("no kubectl")
    directory: Path = tmp_path_factory.mktemp("kubectl")
    with fake_api_process(directory) as kubeconfig:
        yield Kubectl(request.param, kubeconfig, directory)


def test_resources_and_versions_are_discovered(kubectl: Kubectl) -> None:
    resources = kubectl("api-resources", "--no-headers").splitlines()
    rows = {tuple(line.split()) for line in resources}
    assert ("pods", "po", "v1", "true", "Pod") in rows
    assert ("customresourcedefinitions", "crd,crds", "apiextensions.k8s.io/v1", "false",
            "CustomResourceDefinition") in rows  # fmt: skip
    versions = kubectl("api-versions").split()
    assert "autoscaling/v2" in versions
    assert {"v1", "apps/v1", "scheduling.k8s.io/v1"} <= set(versions)


def test_fields_are_explained(kubectl: Kubectl) -> None:
    explained = kubectl("explain", "pod.spec.tolerations")
    for field in ("effect", "key", "operator", "tolerationSeconds", "value"):
        assert field in explained
    assert "<integer>" in explained
    assert "-required-" in kubectl("explain", "pod.spec.containers")
    everything = kubectl("explain", "deployment", "--recursive")
    assert "topologySpreadConstraints" in everything
    assert "One or more containers" in kubectl("explain", "pods")


def test_fields_are_explained_by_the_older_document(kubectl: Kubectl) -> None:
    if kubectl.minor_version < 27:
        pytest.skip("there was no choice yet")
    explained = kubectl("explain", "pod.spec.tolerations", "--output", "plaintext-openapiv2")
    assert "tolerationSeconds" in explained


def test_unknown_fields_are_refused(kubectl: Kubectl) -> None:
    given = json.loads(deployment("one"))
    given["spec"]["bogus"] = 1
    given["spec"]["template"]["spec"]["containers"][0]["port"] = 1
    complaint = kubectl.refused("create", "-f", "-", given=json.dumps(given))
    assert "bogus" in complaint
    assert "port" in complaint
    if kubectl.minor_version >= 25:
        strict = ("create", "--validate=strict", "-f", "-")
        complaint = kubectl.refused(*strict, given=json.dumps(given))
        assert 'strict decoding error: unknown field "spec.bogus"' in complaint


def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    apply = ("apply", "-f", "-")
    assert "created" in kubectl(*apply, given=deployment("one"))
    assert "configured" in kubectl(*apply, given=deployment("two"))
    assert "unchanged" in kubectl(*apply, given=deployment("two"))
    assert "two" in kubectl("get", "deployment/web", "-o", "yaml")
    kubectl(*apply, "--dry-run=server", given=deployment("three"))
    assert "three" not in kubectl("get", "deployment/web", "-o", "yaml")
    compared = kubectl.run("diff", "-f", "-", given=deployment("four"))
    assert compared.returncode == 1, compared.stderr
    assert "four" in compared.stdout
    serverside = (*apply, "--server-side", "--force-conflicts")
    assert "serverside-applied" in kubectl(*serverside, given=deployment("five"))
    kubectl("delete", "deployment/web")


def test_workloads_are_scaled(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=deployment("one"))
    kubectl("scale", "deployment/web", "--replicas=4")
    assert kubectl("get", "deployment/web", "-o", "jsonpath={.spec.replicas}") == "4"
    complaint = kubectl.refused("scale", "deployment/web", "--current-replicas=9", "--replicas=1")
    assert "Expected replicas to be 9, was 4" in complaint
    kubectl("delete", "deployment/web")


def test_a_definition_is_applied_and_its_kind_used(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=json.dumps(WIDGETS))
    kubectl("wait", "--for=condition=Established", "crd/widgets.example.com")
    assert "widgets" in kubectl("api-resources", "--api-group=example.com")
    assert "created" in kubectl("apply", "-f", "-", given=widget())
    assert kubectl("get", "wd").split() == ["NAME", "SIZE", "w", "3"]
    assert "How large it is." in kubectl("explain", "widget.spec")
    assert "configured" in kubectl("apply", "-f", "-", given=widget(size=4))
    kubectl("scale", "widget/w", "--replicas=5")
    assert kubectl("get", "wd/w", "-o", "jsonpath={.spec.replicas}") == "5"
    patch = ("patch", "widget/w", "--type=merge", "-p", '{"spec":{"size":0}}')
    assert "should be greater than or equal to 1" in kubectl.refused(*patch)
    assert "Size:" in kubectl("describe", "widget/w")
    kubectl("delete", "crd/widgets.example.com")
    assert "widgets" in kubectl.refused("get", "widgets")
    assert "widgets" not in kubectl("api-resources", "--cached=false")


def test_invalid_definitions_are_refused_with_the_reason(kubectl: Kubectl) -> None:
    given = json.loads(json.dumps(WIDGETS))
    given["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].pop("type")
    complaint = kubectl.refused("create", "-f", "-", given=json.dumps(given))
    assert "spec.validation.openAPIV3Schema.properties[spec].type" in complaint
    assert "must not be empty for specified object fields" in complaint
