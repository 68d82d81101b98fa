"""Objects within objects: whatever has an apiVersion and a kind has proper metadata, too.

Source: apiextensions-apiserver pkg/apiserver/schema/objectmeta/validation.go of v0.36.3.
"""

from __future__ import annotations

from fakeapi.crds import pruning
from fakeapi.types import names
from fakeapi.types.errors import FieldError, invalid, required
from fakeapi.types.objects import Json, mapping, name_of, text
from fakeapi.validation import metadata as metadata_rules


def validate_embedded(value: object, node: Json, path: str = "") -> list[FieldError]:
    """Objects within the object have an apiVersion, a kind and proper metadata."""
    errors: list[FieldError] = []
    for where, embedded in pruning.embedded_resources(value, node, path):
        for name in ("apiVersion", "kind"):
            if name not in embedded:
                errors.append(required(pruning.child_path(where, name)))
            elif embedded[name] == "":
                errors.append(invalid(pruning.child_path(where, name), "", "must not be empty"))
        api_version, kind = text(embedded.get("apiVersion")), text(embedded.get("kind"))
        if api_version.count("/") > 1:
            why = f"unexpected GroupVersion string: {api_version}"
            errors.append(invalid(pruning.child_path(where, "apiVersion"), api_version, why))
        complaints = names.dns_1035_label(kind.lower()) if kind else ()
        if complaints:
            why = "may have mixed case, but should otherwise match: " + ",".join(complaints)
            errors.append(invalid(pruning.child_path(where, "kind"), kind, why))
        if "metadata" in embedded:
            errors += _metadata_errors(embedded, where)
    return errors


def _metadata_errors(embedded: Json, path: str) -> list[FieldError]:
    metadata = mapping(embedded["metadata"])
    named = {**embedded, "metadata": {**metadata, "name": name_of(embedded) or "fakename"}}
    found = metadata_rules.validate_metadata(
        named,
        names.path_segment,
        namespaced=bool(metadata.get("namespace")),
        free_finalizers=True,
    )
    return [
        FieldError(error.reason, pruning.child_path(path, error.field), error.detail, error.value)
        for error in found
    ]
