"""What a Stage does when its time has come. Source: pkg/utils/lifecycle/{next,finalizers}.go."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.actors.stages.errors import StageError
from fakeapi.actors.templates import TemplateError, numbered
from fakeapi.decoding import bodies
from fakeapi.types.objects import Json, finalizers_of, mapping, mappings, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeapi.actors.templates import Function, Template

__all__ = ["Apply", "Finalizers", "Patch", "StageEvent", "StageTemplate", "Step"]

_PATCH_TYPES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclasses.dataclass(frozen=True, slots=True)
class StageTemplate:
    """A template, and where it is: the file, the line in it, the Stage and the field."""

    template: Template
    file: str
    first_line: int
    where: str

    def rendered(self, obj: Json, functions: Mapping[str, Function]) -> object:
        """The JSON value that the template makes of the object. Raises StageError."""
        try:
            rendered = self.template.render(numbered(obj), functions)
        except TemplateError as error:
            line = self.first_line + error.line - 1
            raise StageError(f"{self.file}:{line}: {self.where}: {error.message}") from error
        try:
            return bodies.load_yaml(rendered.encode())
        except ValueError as error:
            raise StageError(
                f"{self.file}:{self.first_line}: {self.where}: {error}: {rendered!r}"
            ) from error


@dataclasses.dataclass(frozen=True, slots=True)
class StageEvent:
    """An event about the object."""

    type: str
    reason: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Finalizers:
    """What becomes of the object's finalizers."""

    add: tuple[str, ...]
    remove: tuple[str, ...]
    empty: bool

    def of(self, obj: Json) -> list[str]:
        """The finalizers that the object is to have."""
        present = [] if self.empty else finalizers_of(obj)
        kept = [one for one in present if one not in self.remove]
        return kept + [one for one in self.add if one not in kept]


@dataclasses.dataclass(frozen=True, slots=True)
class Patch:
    """A patch of the object; `kind` is empty for the kind of patch that suits the resource."""

    template: StageTemplate
    root: str
    kind: str
    subresource: str
    user: str

    def content_type(self, *, is_pod_or_node: bool) -> str:
        """The media type of the patch."""
        return _PATCH_TYPES[self.kind or ("strategic" if is_pod_or_node else "merge")]

    def body(self, obj: Json, functions: Mapping[str, Function]) -> object:
        """What is sent, with a check that the object is still that one; None for nothing.

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
    """An object, any, that is made, or patched if it is there."""

    template: StageTemplate
    kind: str
    subresource: str
    user: str

    @property
    def content_type(self) -> str:
        """The media type of the patch."""
        return _PATCH_TYPES[self.kind or "apply"]


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One step; of what it names, all is done in this order."""

    event: StageEvent | None = None
    finalizers: Finalizers | None = None
    delete: bool = False
    patch: Patch | None = None
    apply: Apply | None = None
