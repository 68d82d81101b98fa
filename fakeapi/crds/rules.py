"""Rules of CustomResourceDefinitions, as the write pipeline calls them (`KindRules`)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fakeapi.crds import defaulting, definition_rules, definitions, warnings
from fakeapi.types.kind import Kind, KindRules
from fakeapi.types.objects import is_deleting, mapping

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.types.errors import FieldError
    from fakeapi.types.objects import Json


class DefinitionRules(KindRules):
    """Defaults, validation, warnings and deletion of CustomResourceDefinitions."""

    has_free_finalizers = True

    def apply_defaults(self, obj: Json) -> None:
        defaulting.apply_defaults(obj)

    def prepare(self, obj: Json) -> None:
        obj["status"] = dict(mapping(obj.get("status")))
        defaulting.note_storage_version(obj)

    def validate(self, obj: Json, old: Json | None) -> list[FieldError]:
        errors = definition_rules.validate_definition(obj)
        if old is None:
            return errors + definition_rules.validate_new_definition(obj)
        return errors + definition_rules.validate_definition_update(obj, old)

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        return warnings.of_definition(obj, old)

    def marked_for_deletion(self, obj: Json, now: str) -> Json | None:
        return None if is_deleting(obj) else definitions.marked_for_deletion(obj, now)


def with_definition_rules(kinds: Iterable[Kind]) -> tuple[Kind, ...]:
    """Return the kinds, the row of CustomResourceDefinitions with its rules."""
    rules = DefinitionRules()
    return tuple(
        dataclasses.replace(row, rules=rules) if row.resource_key == definitions.RESOURCE else row
        for row in kinds
    )
