"""Validation of containers, their ports, environment and mounts, and of the pod's volumes.

Source: pkg/apis/core/validation/validation.go of Kubernetes v1.36.3. Not checked: probes, lifecycle
hooks, security contexts and the inner fields of volume sources that scheduling does not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types import names
from fakeapi.types.errors import FieldError, duplicate, forbidden, invalid, required
from fakeapi.types.objects import Json, integer, mapping, mappings, text
from fakeapi.validation.checks import (
    choice_errors,
    each,
    port_errors,
    required_name_errors,
)
from fakeapi.validation.resources import validate_container_resources

if TYPE_CHECKING:
    from collections.abc import Collection

_POLICIES: Final = {
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
}
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("lifecycle", *_PROBES)
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
#: Fields that environment variables may refer to, and those that only other references may.
_FIELD_PATHS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_LABELLED_PATHS: Final = (
    "metadata.annotations", "metadata.labels", "spec.host", "spec.restartPolicy",
    "spec.schedulerName", "status.phase",
)  # fmt: skip
MORE_THAN_ONE: Final = "may not specify more than 1 volume type"
#: Volume sources that upstream's errors spell differently from the API.
NAMED_OTHERWISE: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
#: The field that each of these volume sources must have.
_SOURCE_FIELDS: Final = {
    "persistentVolumeClaim": "claimName",
    "ephemeral": "volumeClaimTemplate",
    "hostPath": "path",
    "csi": "driver",
    "secret": "secretName",
    "configMap": "name",
}


def validate_volumes(volumes: list[Json], field: str) -> tuple[list[FieldError], dict[str, Json]]:
    """Return the errors of a pod's volumes, and the valid volumes by name."""
    errors: list[FieldError] = []
    good: dict[str, Json] = {}
    for index, volume in enumerate(volumes):
        path = f"{field}[{index}]"
        own = _source_errors(volume, path)
        name = text(volume.get("name"))
        own += required_name_errors(name, f"{path}.name", names.dns_label)
        if name in good:
            own.append(duplicate(f"{path}.name", name))
        if own:
            errors += own
        else:
            good[name] = volume
    return errors, good


def _source_errors(volume: Json, path: str) -> list[FieldError]:
    sources = [name for name in volume if name != "name"]
    errors: list[FieldError] = [
        forbidden(f"{path}.{NAMED_OTHERWISE.get(name, name)}", MORE_THAN_ONE)
        for name in sources[1:]
    ]
    for name, part in _SOURCE_FIELDS.items():
        source = volume.get(name)
        if isinstance(source, dict) and source.get(part) in (None, ""):
            errors.append(required(f"{path}.{name}.{part}"))
    return errors


def validate_containers(
    containers: list[Json], field: str, volumes: dict[str, Json], claims: Collection[str]
) -> list[FieldError]:
    """Return the errors of the regular containers."""
    if not containers:
        return [required(field)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        path = f"{field}[{index}]"
        errors += validate_container(container, path, volumes, claims)
        name = text(container.get("name"))
        errors += _handler_errors(container, path)
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
    return errors + _host_port_errors(containers, field)


def validate_init_containers(
    containers: list[Json],
    field: str,
    regular: list[Json],
    volumes: dict[str, Json],
    claims: Collection[str],
) -> list[FieldError]:
    """Return the errors of init containers; only sidecars may have probes and hooks."""
    errors: list[FieldError] = []
    seen = {text(container.get("name")) for container in regular}
    for index, container in enumerate(containers):
        path = f"{field}[{index}]"
        errors += validate_container(container, path, volumes, claims)
        name = text(container.get("name"))
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        elif name:
            seen.add(name)
        errors += _host_port_errors([container], field)
        if container.get("restartPolicy") != "Always":
            why = "may not be set for init containers without restartPolicy=Always"
            errors += [forbidden(f"{path}.{hook}", why) for hook in _HOOKS if hook in container]
        else:
            errors += _handler_errors(container, path)
    return errors


def validate_images(containers: list[Json], field: str) -> list[FieldError]:
    """Return the errors of images with spaces around; templates may have such images."""
    why = "must not have leading or trailing whitespace"
    images = [text(container.get("image")) for container in containers]
    return [
        invalid(f"{field}[{index}].image", image, why)
        for index, image in enumerate(images)
        if image != image.strip()
    ]


def _handler_errors(container: Json, path: str) -> list[FieldError]:
    """Return the errors of hooks and probes that have no handler or several."""
    hooks = [(f"{path}.{name}", container[name]) for name in _PROBES if name in container]
    lifecycle = mapping(container.get("lifecycle"))
    hooks += [
        (f"{path}.lifecycle.{name}", lifecycle[name])
        for name in ("postStart", "preStop")
        if name in lifecycle
    ]
    errors = []
    for field, hook in hooks:
        handlers = [kind for kind in _HANDLERS if kind in mapping(hook)]
        if not handlers:
            errors.append(required(field, "must specify a handler type"))
        errors += [
            forbidden(f"{field}.{kind}", "may not specify more than 1 handler type")
            for kind in handlers[1:]
        ]
    return errors


def validate_container(
    container: Json, path: str, volumes: dict[str, Json], claims: Collection[str]
) -> list[FieldError]:
    """Return the errors of one container of any list; duplicate names are not checked."""
    errors = required_name_errors(text(container.get("name")), f"{path}.name", names.dns_label)
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    for name, policies in _POLICIES.items():
        errors += choice_errors(text(container.get(name)), f"{path}.{name}", policies)
    if "ports" in container:
        errors += _port_errors(mappings(container["ports"]), f"{path}.ports")
    if "env" in container:
        errors += each(mappings(container["env"]), f"{path}.env", _environment_errors)
    if "volumeMounts" in container or "volumeDevices" in container:
        errors += _mount_errors(container, path, volumes)
    resources = mapping(container.get("resources"))
    return errors + validate_container_resources(resources, f"{path}.resources", claims)


def _port_errors(ports: list[Json], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path = f"{field}[{index}]"
        name = text(port.get("name"))
        if name:
            complaints = names.port_name(name)
            errors += [invalid(f"{path}.name", name, why) for why in complaints]
            if not complaints and name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
        if port.get("containerPort"):
            errors += port_errors(port["containerPort"], f"{path}.containerPort")
        else:
            errors.append(required(f"{path}.containerPort"))
        if port.get("hostPort"):
            errors += port_errors(port["hostPort"], f"{path}.hostPort")
        errors += choice_errors(text(port.get("protocol")), f"{path}.protocol", PROTOCOLS)
    return errors


def _host_port_errors(containers: list[Json], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(mappings(container.get("ports"))):
            number = integer(port.get("hostPort"))
            if number:
                key = f"{text(port.get('protocol'))}/{text(port.get('hostIP'))}/{number}"
                if key in seen:
                    path = f"{field}[{index}].ports[{position}].hostPort"
                    errors.append(duplicate(path, key))
                seen.add(key)
    return errors


def _environment_errors(variable: Json, path: str) -> list[FieldError]:
    name = text(variable.get("name"))
    errors = required_name_errors(name, f"{path}.name", names.environment_name)
    if "valueFrom" in variable and variable.get("value"):
        why = "may not be specified when `value` is not empty"
        errors.append(invalid(f"{path}.valueFrom", "", why))
    reference = mapping(variable.get("valueFrom")).get("fieldRef")
    if isinstance(reference, dict):
        errors += _field_errors(reference, f"{path}.valueFrom.fieldRef")
    return errors


def _field_errors(reference: Json, path: str) -> list[FieldError]:
    """Return the errors of a reference to a field of the pod."""
    name = text(reference.get("fieldPath"))
    if not name:
        return [required(f"{path}.fieldPath")]
    base, _, subscript = name.partition("[")
    if subscript and base in ("metadata.annotations", "metadata.labels"):
        return []
    if name not in _FIELD_PATHS and name not in _LABELLED_PATHS:
        why = f"error converting fieldPath: field label not supported: {name}"
        return [invalid(f"{path}.fieldPath", name, why)]
    return choice_errors(name, f"{path}.fieldPath", _FIELD_PATHS)


def _mount_errors(container: Json, path: str, volumes: dict[str, Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for list_name, place in (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")):
        for index, mount in enumerate(mappings(container.get(list_name))):
            field = f"{path}.{list_name}[{index}]"
            name, target = text(mount.get("name")), text(mount.get(place))
            if not name:
                errors.append(required(f"{field}.name"))
            if name not in volumes:
                errors.append(FieldError("FieldValueNotFound", f"{field}.name", "", name))
            if not target:
                errors.append(required(f"{field}.{place}"))
            if target in seen:
                errors.append(invalid(f"{field}.{place}", target, "must be unique"))
            seen.add(target)
    return errors
