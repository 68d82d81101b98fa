"""What people are told about definitions and custom resources that are accepted all the same.

Source: WarningsOnCreate and WarningsOnUpdate in apiextensions-apiserver
pkg/registry/customresource{,definition}/strategy.go of v0.36.3; that CEL rules are not evaluated is
a warning of our own.
"""

from __future__ import annotations

from typing import Final

from fakeapi.crds.schema_rules import rules_not_evaluated, unknown_formats
from fakeapi.types import names
from fakeapi.types.objects import Json, finalizers_of, mapping, mappings

_STANDARD: Final = ("orphan", "foregroundDeletion", "kubernetes")
_CONFLICTS: Final = "to avoid accidental conflicts with other finalizer writers"
_PREFERRED: Final = f"prefer a domain-qualified finalizer name {_CONFLICTS}"
_WITH_PATH: Final = f"prefer a domain-qualified finalizer name including a path (/) {_CONFLICTS}"


def of_finalizers(obj: Json, old: Json | None = None) -> list[str]:
    """Finalizers of custom resources should have a domain and a path."""
    before = finalizers_of(old) if old is not None else []
    found: list[str] = []
    for name in sorted(set(finalizers_of(obj)) - set(before)):
        said = list(names.qualified_name(name))
        if "/" not in name and name not in _STANDARD:
            said.append(_WITH_PATH if "." in name else _PREFERRED)
        found += [f'metadata.finalizers: "{name}": {why}' for why in said]
    return found


def of_definition(definition: Json, old: Json | None = None) -> list[str]:
    """What the author of a definition should know, though it is accepted."""
    before = _formats(old) if old is not None else []
    found = [f'unrecognized format "{name}"' for name in _formats(definition) if name not in before]
    known = [line for node in _schemas(old or {}) for line in rules_not_evaluated(node)]
    lines = [line for node in _schemas(definition) for line in rules_not_evaluated(node)]
    new = [line for line in dict.fromkeys(lines) if line not in known]
    ignored = "x-kubernetes-validations: this server does not evaluate"
    return found + [f"{ignored} {line}" for line in new]


def _schemas(definition: Json) -> list[Json]:
    versions = mappings(mapping(definition.get("spec")).get("versions"))
    return [mapping(mapping(version.get("schema")).get("openAPIV3Schema")) for version in versions]


def _formats(definition: Json) -> list[str]:
    schemas = _schemas(definition)
    if schemas and all(node == schemas[0] for node in schemas):
        schemas = schemas[:1]
    return [name for node in schemas for name in unknown_formats(node)]
