"""Validation of objects before they are stored, with upstream's causes and words.

`validate_create` and `validate_update` check the metadata, and call the rules of the kind
(`KindRules`). The modules here have the rules of pods, and rules that several kinds share.

Source: pkg/apis/*/validation and apimachinery pkg/api/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.types.kind import NO_UPDATE_RULES
from fakeapi.validation import metadata

if TYPE_CHECKING:
    from fakeapi.types.errors import FieldError
    from fakeapi.types.kind import Kind
    from fakeapi.types.objects import Json

__all__ = ["validate_create", "validate_update"]


def validate_create(kind: Kind, obj: Json) -> list[FieldError]:
    """Return the errors of a new object."""
    errors = _metadata_errors(kind, obj, kind.rules.check_name)
    if kind.structure is not None:
        return errors + kind.structure.validate(obj)
    return errors + kind.rules.validate(obj) + kind.rules.validate_create(obj)


def validate_update(kind: Kind, obj: Json, old: Json, *, subresource: str = "") -> list[FieldError]:
    """Return the errors of a new state of an object.

    Upstream checks the metadata of an update twice, once for all kinds and once for the kind, and
    reports both.
    """
    errors = _metadata_errors(kind, obj, metadata.any_name)
    changes = metadata.validate_metadata_update(obj, old)
    errors += changes if kind.rules.checks_metadata_once else changes * 2
    if kind.structure is not None:
        return errors + kind.structure.validate(obj, old, subresource=subresource)
    if subresource:
        rules = kind.rules.subresources.get(subresource, NO_UPDATE_RULES)
        return errors + rules.validate(obj, old)
    return errors + kind.rules.validate(obj) + kind.rules.validate_update(obj, old)


def _metadata_errors(kind: Kind, obj: Json, check_name: metadata.NameRule) -> list[FieldError]:
    is_free = kind.structure is not None or kind.rules.has_free_finalizers
    return metadata.validate_metadata(
        obj, check_name, namespaced=kind.namespaced, free_finalizers=is_free
    )
