"""Validation of embedded objects, and of lists that are sets or maps.

Source: apiextensions-apiserver pkg/apiserver/schema/{objectmeta/validation.go,listtype} of v0.36.3.
"""

from __future__ import annotations

import msgspec

from fakeapi.crds import pruning
from fakeapi.crds.pruning import below, items_of
from fakeapi.types import names
from fakeapi.types.errors import FieldError, duplicate, invalid, required
from fakeapi.types.objects import Json, mapping, name_of, text, texts
from fakeapi.validation import metadata as metadata_rules


def validate_embedded(value: object, node: Json, path: str = "") -> list[FieldError]:
    """Return the errors of embedded objects: apiVersion, kind and metadata."""
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
    errors = metadata_rules.validate_metadata(
        named,
        names.path_segment,
        namespaced=bool(metadata.get("namespace")),
        free_finalizers=True,
    )
    return [
        FieldError(error.reason, pruning.child_path(path, error.field), error.detail, error.value)
        for error in errors
    ]


def validate_lists(value: object, node: Json | None, path: str = "") -> list[FieldError]:
    """Return the errors of duplicates in the lists of a value."""
    if node is None:
        return []
    errors: list[FieldError] = []
    if isinstance(value, dict):
        for key, item in value.items():
            is_field = key in mapping(node.get("properties"))
            where = (f"{path}.{key}" if path else key) if is_field else f"{path}[{key}]"
            errors += validate_lists(item, below(node, key)[0], where)
    elif isinstance(value, list):
        list_type = text(node.get("x-kubernetes-list-type"))
        if list_type == "set":
            repeated = _repeated(value)
            errors += [duplicate(f"{path}[{index}]", value[index]) for index in repeated]
        elif list_type == "map":
            errors += _validate_map(value, texts(node.get("x-kubernetes-list-map-keys")), path)
        for index, item in enumerate(value):
            errors += validate_lists(item, items_of(node), f"{path}[{index}]")
    return errors


def _repeated(values: list[object]) -> list[int]:
    """Return the index of the second occurrence of each value that occurs again."""
    seen: dict[bytes, int] = {}
    indexes = []
    for index, value in enumerate(values):
        form = msgspec.json.encode(value, order="deterministic")
        seen[form] = seen.get(form, 0) + 1
        if seen[form] == 2:
            indexes.append(index)
    return indexes


def _validate_map(value: list[object], keys: list[str], path: str) -> list[FieldError]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            why = "must be an object for an array of list-type map"
            return [invalid(f"{path}[{index}]", item, why)]
    elements: list[object] = [
        {key: mapping(item)[key] for key in keys if key in mapping(item)} for item in value
    ]
    return [duplicate(f"{path}[{index}]", elements[index]) for index in _repeated(elements)]
