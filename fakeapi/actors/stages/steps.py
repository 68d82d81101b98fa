"""Steps of a Stage. Source: pkg/utils/lifecycle/{next,finalizers}.go of KWOK."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.actors.stages.fields import StageError
from fakeapi.actors.templates import TemplateError, numbered
from fakeapi.decoding.parsing import load_yaml
from fakeapi.types.objects import Json, finalizers_of, mapping, mappings, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeapi.actors.templates import Function, Template

_PATCH_TYPES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclasses.dataclass(frozen=True, slots=True)
class StageTemplate:
    """A template with its file, its line, and its Stage and field (`where`)."""

    template: Template
    file: str
    first_line: int
    where: str

    def rendered(self, obj: Json, functions: Mapping[str, Function]) -> object:
        """Execute the template and read the output as YAML. Raises StageError."""
        try:
            rendered = self.template.render(numbered(obj), functions)
        except TemplateError as error:
            line = self.first_line + error.line - 1
            raise StageError(f"{self.file}:{line}: {self.where}: {error.message}") from error
        try:
            return load_yaml(rendered.encode())
        except ValueError as error:
            raise StageError(
                f"{self.file}:{self.first_line}: {self.where}: {error}: {rendered!r}"
            ) from error


@dataclasses.dataclass(frozen=True, slots=True)
class StageEvent:
    """An event to record for the object."""

    type: str
    reason: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Finalizers:
    """A change of the object's finalizers."""

    add: tuple[str, ...]
    remove: tuple[str, ...]
    empty: bool

    def of(self, obj: Json) -> list[str]:
        """Return the finalizers of the object after the change."""
        present = [] if self.empty else finalizers_of(obj)
        kept = [one for one in present if one not in self.remove]
        return kept + [one for one in self.add if one not in kept]


@dataclasses.dataclass(frozen=True, slots=True)
class Patch:
    """A patch of the object; an empty `kind` is the resource's default kind of patch."""

    template: StageTemplate
    root: str
    kind: str
    subresource: str
    user: str

    def content_type(self, *, is_pod_or_node: bool) -> str:
        return _PATCH_TYPES[self.kind or ("strategic" if is_pod_or_node else "merge")]

    def body(self, obj: Json, functions: Mapping[str, Function]) -> object:
        """Return the patch, which fails for an object of another uid; None if it is empty.

        Raises StageError.
        """
        value = self.template.rendered(obj, functions)
        uid = mapping(obj.get("metadata")).get("uid")
        if value is None:
            return None
        if self.kind == "json":
            prefix = f"/{self.root}" if self.root else ""
            operations = [
                {**one, "path": prefix + text(one.get("path"))} for one in mappings(value)
            ]
            return [{"op": "test", "path": "/metadata/uid", "value": uid}, *operations]
        found: Json = {self.root: value} if self.root else mapping(value)
        return {**found, "metadata": {**mapping(found.get("metadata")), "uid": uid}}


@dataclasses.dataclass(frozen=True, slots=True)
class Apply:
    """An object of any kind to create, or to patch if it exists."""

    template: StageTemplate
    kind: str
    subresource: str
    user: str

    @property
    def content_type(self) -> str:
        return _PATCH_TYPES[self.kind or "apply"]


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One step; its parts are executed in this order."""

    event: StageEvent | None = None
    finalizers: Finalizers | None = None
    delete: bool = False
    patch: Patch | None = None
    apply: Apply | None = None
