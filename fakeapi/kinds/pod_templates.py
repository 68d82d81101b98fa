"""PodTemplates: defaults and validation of the pods in workloads.

Source: pkg/apis/core/v1/defaults.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.kinds.persistent_volumes import set_claim_spec_defaults
from fakeapi.types.kind import Generation, Kind, KindRules
from fakeapi.types.objects import Json, child, labels_of, mapping, mappings, set_defaults, text
from fakeapi.validation.checks import choice_errors
from fakeapi.validation.metadata import validate_labels
from fakeapi.validation.pods import validate_spec

if TYPE_CHECKING:
    from fakeapi.types.errors import FieldError

_PERMISSIONS: Final = 0o644
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS: Final = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}


def set_template_defaults(spec: Json) -> None:
    """Set the defaults of the pod template in the spec of a workload."""
    template = spec.get("template")
    if isinstance(template, dict):
        set_pod_spec_defaults(child(template, "spec"))


def set_pod_spec_defaults(spec: Json) -> None:
    """Set the defaults that the specs of pods and of pod templates share."""
    set_defaults(
        spec,
        dnsPolicy="ClusterFirst",
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        schedulerName="default-scheduler",
    )
    if "securityContext" not in spec:
        spec["securityContext"] = {}
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for list_name in ("containers", "initContainers", "ephemeralContainers"):
        for container in mappings(spec.get(list_name)):
            _container(container)
    for volume in mappings(spec.get("volumes")):
        _volume(volume)


def _container(container: Json) -> None:
    if not container.get("imagePullPolicy"):
        latest = _image_tag(text(container.get("image"))) == "latest"
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    set_defaults(
        container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File"
    )
    for probe_name in _PROBES:
        probe = container.get(probe_name)
        if isinstance(probe, dict):
            _handler(probe)
            for name, value in _PROBE_DEFAULTS.items():
                if not probe.get(name):
                    probe[name] = value
    for hook in mapping(container.get("lifecycle")).values():
        _handler(mapping(hook))
    for variable in mappings(container.get("env")):
        _field_reference(mapping(variable.get("valueFrom")).get("fieldRef"))


def _handler(handler: Json) -> None:
    request = handler.get("httpGet")
    if isinstance(request, dict):
        set_defaults(request, path="/", scheme="HTTP")


def _field_reference(reference: object) -> None:
    if isinstance(reference, dict):
        set_defaults(reference, apiVersion="v1")


def _image_tag(image: str) -> str:
    """Return the tag of an image reference, `latest` if it has neither tag nor digest."""
    reference, at, _ = image.partition("@")
    tag = reference.rpartition("/")[2].partition(":")[2]
    return tag or ("" if at else "latest")


def _volume(volume: Json) -> None:
    sources = [value for name, value in volume.items() if name != "name" and value is not None]
    if not sources:
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        source = volume.get(name)
        if isinstance(source, dict) and "defaultMode" not in source:
            source["defaultMode"] = _PERMISSIONS
    host_path = volume.get("hostPath")
    if isinstance(host_path, dict):
        set_defaults(host_path, type="")
    for item in mappings(mapping(volume.get("downwardAPI")).get("items")):
        _field_reference(item.get("fieldRef"))
    for projection in mappings(mapping(volume.get("projected")).get("sources")):
        token = projection.get("serviceAccountToken")
        if isinstance(token, dict) and "expirationSeconds" not in token:
            token["expirationSeconds"] = 3600
        for item in mappings(mapping(projection.get("downwardAPI")).get("items")):
            _field_reference(item.get("fieldRef"))
    claim = mapping(mapping(volume.get("ephemeral")).get("volumeClaimTemplate")).get("spec")
    if isinstance(claim, dict):
        set_claim_spec_defaults(claim)
    image = volume.get("image")
    if isinstance(image, dict) and not image.get("pullPolicy"):
        latest = _image_tag(text(image.get("reference"))) == "latest"
        image["pullPolicy"] = "Always" if latest else "IfNotPresent"


def template_errors(template: Json) -> list[FieldError]:
    """Return the errors of the template of a workload whose pods always restart."""
    spec = mapping(template.get("spec"))
    field = "spec.template"
    errors = validate_labels(labels_of(template), f"{field}.metadata.labels")
    errors += validate_spec(spec, f"{field}.spec", is_pod=False)
    policy = text(spec.get("restartPolicy"))
    return errors + choice_errors(policy, f"{field}.spec.restartPolicy", ("Always",))


KINDS: Final = (
    Kind(
        "", "v1", "podtemplates", "PodTemplate", schema="core/v1.PodTemplate",
        generation=Generation.CONTENT, returns_deleted=True,
        rules=KindRules(set_defaults=set_template_defaults),
    ),
)  # fmt: skip
