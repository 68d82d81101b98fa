"""Namespaces.

Source: pkg/registry/core/namespace of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types import names
from fakeapi.types.columns import AGE, NAME, Column
from fakeapi.types.kind import ALL_VERBS, NAME_FIELDS, Kind, KindRules, value_at
from fakeapi.types.objects import (
    Json,
    child,
    is_deleting,
    keep_field,
    mapping,
    name_of,
    set_defaults,
    texts,
    with_metadata,
)

_NAMESPACE_FINALIZER: Final = "kubernetes"


def _set_defaults(namespace: Json) -> None:
    name = name_of(namespace)
    if name:
        labels = child(child(namespace, "metadata"), "labels")
        labels["kubernetes.io/metadata.name"] = name
    set_defaults(child(namespace, "status"), phase="Active")


def _prepare(namespace: Json, now: str) -> None:
    namespace["status"] = {"phase": "Active"}
    finalizers = texts(child(namespace, "spec").get("finalizers"))
    if _NAMESPACE_FINALIZER not in finalizers:
        child(namespace, "spec")["finalizers"] = [*finalizers, _NAMESPACE_FINALIZER]


def _prepare_update(new: Json, old: Json, now: str) -> None:
    keep_field(child(new, "spec"), mapping(old.get("spec")), "finalizers")


def _is_held(namespace: Json) -> bool:
    return bool(mapping(namespace.get("spec")).get("finalizers"))


def _marked_for_deletion(namespace: Json, finalizers: list[str], now: str) -> Json | None:
    """Return the namespace as terminating; it goes when its spec.finalizers are empty."""
    if is_deleting(namespace):
        return namespace if _is_held(namespace) else None
    marked = with_metadata(namespace, deletionTimestamp=now, finalizers=finalizers or None)
    marked["status"] = {**mapping(namespace.get("status")), "phase": "Terminating"}
    return marked


KINDS: Final = (
    Kind(
        "", "v1", "namespaces", "Namespace", namespaced=False, schema="core/v1.Namespace",
        short_names=("ns",), subresources=("finalize", "status"), returns_deleted=True,
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        fields={**NAME_FIELDS, "status.phase": value_at("status", "phase")},
        columns=(NAME, Column("Status", ".status.phase"), AGE),
        rules=KindRules(
            check_name=names.dns_label, set_defaults=_set_defaults, prepare=_prepare,
            prepare_update=_prepare_update, marked_for_deletion=_marked_for_deletion,
            is_held=_is_held,
        ),
    ),
)  # fmt: skip
