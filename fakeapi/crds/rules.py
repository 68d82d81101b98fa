"""Rules of CustomResourceDefinitions, as the write pipeline calls them (`KindRules`).

Source: pkg/registry/customresourcedefinition/strategy.go of apiextensions-apiserver v0.36.3;
warnings of rules and patterns that are not enforced are our own.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fakeapi.crds import cel_rules, definition_rules, definitions, formats, patterns
from fakeapi.crds.pruning import schemas_in
from fakeapi.types.kind import Kind, KindRules
from fakeapi.types.objects import is_deleting, mapping, mappings, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.types.errors import FieldError
    from fakeapi.types.objects import Json


class DefinitionRules(KindRules):
    """Defaults, validation, warnings and deletion of CustomResourceDefinitions."""

    has_free_finalizers = True

    def apply_defaults(self, obj: Json) -> None:
        definitions.apply_defaults(obj)

    def prepare(self, obj: Json) -> None:
        obj["status"] = dict(mapping(obj.get("status")))
        definitions.note_storage_version(obj)

    def validate(self, obj: Json, old: Json | None) -> list[FieldError]:
        errors = definition_rules.validate_definition(obj)
        if old is None:
            return errors + definition_rules.validate_new_definition(obj)
        return errors + definition_rules.validate_definition_update(obj, old)

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        before = [] if old is None else _warnings(old)
        return [warning for warning in _warnings(obj) if warning not in before]

    def marked_for_deletion(self, obj: Json, now: str) -> Json | None:
        return None if is_deleting(obj) else definitions.marked_for_deletion(obj, now)


def _warnings(definition: Json) -> list[str]:
    """Return a warning for each format, rule and pattern that is not enforced."""
    found: list[str] = []
    for version in mappings(mapping(definition.get("spec")).get("versions")):
        root = mapping(mapping(version.get("schema")).get("openAPIV3Schema"))
        for node in schemas_in(root):
            declared, pattern = text(node.get("format")), text(node.get("pattern"))
            if declared and not formats.is_known(declared, text(node.get("type"))):
                found.append(f'unrecognized format "{declared}"')
            rules = cel_rules.not_evaluated(node)
            found += [f"{cel_rules.RULES}: this server does not evaluate {rule}" for rule in rules]
            if pattern and not patterns.is_available():
                found.append("pattern: not enforced without pip install 'kubesched[cel]'")
            elif pattern and patterns.compiled(pattern) is None:
                found.append(f'pattern: this server does not enforce "{pattern}"')
    return list(dict.fromkeys(found))


def with_definition_rules(kinds: Iterable[Kind]) -> tuple[Kind, ...]:
    """Return the kinds, the row of CustomResourceDefinitions with its rules."""
    rules = DefinitionRules()
    return tuple(
        dataclasses.replace(row, rules=rules) if row.resource_key == definitions.RESOURCE else row
        for row in kinds
    )
