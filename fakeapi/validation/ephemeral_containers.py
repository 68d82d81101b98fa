"""What may change at a pod's `ephemeralcontainers` subresource: some may come, none may go.

Source: ValidatePodEphemeralContainersUpdate and validateEphemeralContainers in
pkg/apis/core/validation/validation.go of v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types.errors import FieldError, duplicate, forbidden
from fakeapi.types.objects import Json, mapping, mappings, metadata_of, text
from fakeapi.validation.containers import validate_container, validate_volumes

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["validate_ephemeral_containers"]

_MIRROR: Final = "kubernetes.io/config.mirror"
_FIELD: Final = "spec.ephemeralContainers"
_ONLY: Final = "cannot be set for an Ephemeral Container"
#: What containers have that pods can rely on, in Go's order.
_NOT_FOR_THEM: Final = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe",
    "readinessProbe", "startupProbe", "lifecycle",
)  # fmt: skip


def validate_ephemeral_containers(pod: Json, old: Json) -> list[FieldError]:
    """The ephemeral containers of a pod, whose spec is otherwise what it was."""
    if _MIRROR in mapping(metadata_of(old).get("annotations")):
        return [forbidden("[]", "static pods do not support ephemeral containers")]
    spec = mapping(pod.get("spec"))
    others = [*mappings(spec.get("containers")), *mappings(spec.get("initContainers"))]
    names = {text(container.get("name")) for container in others}
    _, volumes = validate_volumes(mappings(spec.get("volumes")), "spec.volumes")
    claims = {text(claim.get("name")) for claim in mappings(spec.get("resourceClaims"))}
    seen = set(names)
    errors: list[FieldError] = []
    for index, container in enumerate(mappings(spec.get("ephemeralContainers"))):
        path, name = f"{_FIELD}[{index}]", text(container.get("name"))
        errors += validate_container(container, path, volumes, claims)
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        errors += _own_errors(container, path, names)
    return errors + _change_errors(spec, mapping(old.get("spec")))


def _own_errors(container: Json, path: str, names: Collection[str]) -> list[FieldError]:
    """What other containers may have or need not have."""
    errors = []
    target = text(container.get("targetContainerName"))
    if target and target not in names:
        field = f"{path}.targetContainerName"
        errors.append(FieldError("FieldValueNotFound", field, "", target))
    errors += [forbidden(f"{path}.{name}", _ONLY) for name in _NOT_FOR_THEM if container.get(name)]
    for index, mount in enumerate(mappings(container.get("volumeMounts"))):
        errors += [
            forbidden(f"{path}.volumeMounts[{index}].{name}", _ONLY)
            for name in ("subPath", "subPathExpr")
            if mount.get(name)
        ]
    return errors


def _change_errors(spec: Json, old: Json) -> list[FieldError]:
    now = {text(c.get("name")): c for c in mappings(spec.get("ephemeralContainers"))}
    errors = []
    for before in mappings(old.get("ephemeralContainers")):
        name = text(before.get("name"))
        if name not in now:
            why = f'existing ephemeral containers "{name}" may not be removed\n'
            errors.append(forbidden(_FIELD, why))
        elif now[name] != before:
            why = f'existing ephemeral containers "{name}" may not be changed\n'
            errors.append(forbidden(_FIELD, why))
    return errors
