"""Reads Stages from YAML files; all errors that do not depend on an object are found here."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import yaml

from fakeapi.actors.stages import fields
from fakeapi.actors.stages.fields import FieldsError, StageError
from fakeapi.actors.stages.functions import function_names
from fakeapi.actors.stages.selection import (
    Amount,
    CelQuery,
    Delay,
    JqQuery,
    QueryError,
    Requirement,
    Selector,
)
from fakeapi.actors.stages.steps import Apply, Finalizers, Patch, StageEvent, StageTemplate, Step
from fakeapi.actors.templates import TemplateError, parse
from fakeapi.decoding.parsing import load_yaml_documents
from fakeapi.types.gotext import quoted
from fakeapi.types.objects import (
    Json,
    integer,
    mapping,
    mappings,
    metadata_of,
    sequence,
    text,
    texts,
)

if TYPE_CHECKING:
    from pathlib import Path

    from fakeapi.actors.stages.selection import Expression

_VERSION: Final = "kwok.x-k8s.io/v1alpha1"
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_LISTS: Final = ("List", "StageList")
_Path = tuple[str | int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """One Stage; without a selector it matches no object."""

    name: str
    api_version: str
    kind: str
    selector: Selector | None
    weight: Amount
    delay: Delay
    steps: tuple[Step, ...]
    immediate_next: bool


def read_stages(path: Path) -> list[Stage]:
    """Read the Stages of a YAML file, or of the files of a directory except kustomization.yaml.

    Raises StageError.
    """
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.suffix in (".yaml", ".yml"))
        wanted = [one for one in files if one.stem != "kustomization"]
        if not wanted:
            raise StageError(f"{path}: expected files that end in .yaml or .yml")
        return [stage for one in wanted for stage in read_stages(one)]
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise StageError(f"{path}: {error.strerror or error}") from error
    try:
        documents = load_yaml_documents(raw)
        nodes = list(yaml.compose_all(raw.decode(), yaml.SafeLoader))
    except (ValueError, yaml.YAMLError) as error:
        raise StageError(f"{path}: {error}") from error
    found: list[Stage] = []
    for document, node in zip(documents, nodes, strict=False):
        if document is not None:
            found += _stages_of(_Source(str(path), node), document)
    return found


def _stages_of(source: _Source, document: object) -> list[Stage]:
    value = mapping(document)
    if value.get("kind") in _LISTS:
        items = enumerate(sequence(value.get("items")))
        return [_Reader(source.at("items", index), item).stage() for index, item in items]
    return [_Reader(source, value).stage()]


@dataclasses.dataclass(frozen=True, slots=True)
class _Source:
    """A document in a file, or the item of a List at the path `base`."""

    file: str
    node: yaml.Node | None
    base: _Path = ()

    def at(self, *path: str | int) -> _Source:
        return dataclasses.replace(self, base=(*self.base, *path))

    def line(self, path: _Path, *, content: bool = False) -> int:
        return fields.line_of(self.node, (*self.base, *path), content=content)


class _Reader:
    """Reads one document as a Stage."""

    def __init__(self, source: _Source, document: object) -> None:
        self._source = source
        self._document = mapping(document)
        self._spec = mapping(self._document.get("spec"))
        self._name = text(metadata_of(self._document).get("name"))

    def stage(self) -> Stage:
        """Return the Stage. Raises StageError."""
        if self._document.get("kind") != "Stage" or self._document.get("apiVersion") != _VERSION:
            line = self._source.line((), content=False)
            raise StageError(f"{self._source.file}:{line}: expected a Stage of {_VERSION}")
        try:
            fields.check(self._document)
            return self._checked()
        except FieldsError as error:
            where = f"{self._source.file}:{self._source.line(error.path)}"
            path = fields.shown(error.path)
            raise StageError(
                f"{where}: Stage {quoted(self._name)}: {path}: {error.message}"
            ) from error

    def _checked(self) -> Stage:
        reference = mapping(self._spec.get("resourceRef"))
        kind = text(reference.get("kind"))
        if not kind:
            raise FieldsError(("spec", "resourceRef", "kind"), "required")
        return Stage(
            name=self._name,
            api_version=text(reference.get("apiGroup")) or "v1",
            kind=kind,
            selector=self._selector(),
            weight=Amount(
                integer(self._spec.get("weight")), self._from(self._spec, ("spec",), "weightFrom")
            ),
            delay=self._delay(),
            steps=self._steps(kind),
            immediate_next=bool(self._spec.get("immediateNextStage")),
        )

    def _selector(self) -> Selector | None:
        if self._spec.get("selector") is None:
            return None
        selector = mapping(self._spec["selector"])
        path: _Path = ("spec", "selector", "matchExpressions")
        expressions = mappings(selector.get("matchExpressions"))
        return Selector(
            mapping(selector.get("matchLabels")),
            mapping(selector.get("matchAnnotations")),
            [self._requirement(one, (*path, index)) for index, one in enumerate(expressions)],
        )

    def _requirement(self, expression: Json, path: _Path) -> Requirement:
        if expression.get("cel") is not None:
            if expression.get("jq") is not None or expression.get("key"):
                raise FieldsError(path, "cel and jq exclude each other")
            written = text(mapping(expression["cel"]).get("expression"))
            return Requirement(_query(CelQuery, written, (*path, "cel", "expression")), "")
        if expression.get("jq") is not None:
            expression, path = mapping(expression["jq"]), (*path, "jq")
        operator = fields.choice(text(expression.get("operator")), _OPERATORS, (*path, "operator"))
        values = texts(expression.get("values"))
        if bool(values) != (operator in ("In", "NotIn")):
            wanted = "must be empty" if values else "required"
            raise FieldsError((*path, "values"), f"{wanted} for {operator}")
        query = _query(JqQuery, text(expression.get("key")), (*path, "key"))
        return Requirement(query, operator, frozenset(values))

    def _from(self, parent: Json, path: _Path, name: str) -> Expression | None:
        """Return a query in CEL or jq; `expressionFrom` is the old name of `jq.expression`."""
        source, path = mapping(parent.get(name)), (*path, name)
        if not source:
            return None
        for field, language in (("cel", CelQuery), ("jq", JqQuery)):
            if source.get(field) is not None:
                written = text(mapping(source[field]).get("expression"))
                return _query(language, written, (*path, field))
        return _query(JqQuery, text(source.get("expressionFrom")), (*path, "expressionFrom"))

    def _delay(self) -> Delay:
        if self._spec.get("delay") is None:
            return Delay(Amount())
        delay, path = mapping(self._spec["delay"]), ("spec", "delay")
        duration = Amount(
            integer(delay.get("durationMilliseconds")) / 1000,
            self._from(delay, path, "durationFrom"),
        )
        jitter, jitter_from = (
            delay.get("jitterDurationMilliseconds"),
            self._from(delay, path, "jitterDurationFrom"),
        )
        if jitter is None and jitter_from is None:
            return Delay(duration)
        longest = None if jitter is None else integer(jitter) / 1000
        return Delay(duration, Amount(longest, jitter_from))

    def _steps(self, kind: str) -> tuple[Step, ...]:
        steps = mappings(self._spec.get("steps"))
        if steps:
            return tuple(
                self._step(step, ("spec", "steps", index), kind) for index, step in enumerate(steps)
            )
        return tuple(self._next_steps(kind))

    def _step(self, step: Json, path: _Path, kind: str) -> Step:
        patch, apply = step.get("patch"), step.get("apply")
        return Step(
            event=_event(step.get("event")),
            finalizers=_finalizers(step.get("finalizers")),
            delete=step.get("delete") is True,
            patch=None if patch is None else self._patch(patch, (*path, "patch"), kind),
            apply=None if apply is None else self._apply(apply, (*path, "apply"), kind),
        )

    def _next_steps(self, kind: str) -> list[Step]:
        """Return the steps that `next` is short for."""
        following, path = mapping(self._spec.get("next")), ("spec", "next")
        found = []
        if following.get("event") is not None:
            found.append(Step(event=_event(following["event"])))
        if following.get("finalizers") is not None:
            found.append(Step(finalizers=_finalizers(following["finalizers"])))
        patches = mappings(following.get("patches"))
        for index, patch in enumerate(patches):
            found.append(Step(patch=self._patch(patch, (*path, "patches", index), kind)))
        if patches and following.get("statusTemplate"):
            raise FieldsError(
                (*path, "statusTemplate"), "patches and statusTemplate exclude each other"
            )
        if following.get("statusTemplate"):
            found.append(Step(patch=self._status_patch(following, kind)))
        if following.get("delete") is True:
            found.append(Step(delete=True))
        return found

    def _status_patch(self, following: Json, kind: str) -> Patch:
        template = self._template(following, ("spec", "next"), "statusTemplate", kind)
        subresource = following.get("statusSubresource")
        return Patch(
            template=template,
            root="status",
            kind="",
            subresource="status" if subresource is None else text(subresource),
            user=text(mapping(following.get("statusPatchAs")).get("username")),
        )

    def _patch(self, value: object, path: _Path, kind: str) -> Patch:
        patch = mapping(value)
        return Patch(
            template=self._template(patch, path, "template", kind),
            root=text(patch.get("root")),
            kind=fields.choice(
                text(patch.get("type")), ("json", "merge", "strategic", ""), (*path, "type")
            ),
            subresource=text(patch.get("subresource")),
            user=text(mapping(patch.get("impersonation")).get("username")),
        )

    def _apply(self, value: object, path: _Path, kind: str) -> Apply:
        apply = mapping(value)
        return Apply(
            template=self._template(apply, path, "template", kind),
            kind=fields.choice(
                text(apply.get("type")), ("apply", "merge", "strategic", ""), (*path, "type")
            ),
            subresource=text(apply.get("subresource")),
            user=text(mapping(apply.get("impersonation")).get("username")),
        )

    def _template(self, parent: Json, path: _Path, name: str, kind: str) -> StageTemplate:
        """Parse a template, stripped as KWOK does it. Raises StageError."""
        written, path = text(parent.get(name)), (*path, name)
        stripped = written.lstrip()
        skipped = written[: len(written) - len(stripped)].count("\n")
        first_line = self._source.line(path, content=True) + skipped
        where = f"Stage {quoted(self._name)}: {fields.shown(path)}"
        try:
            template = parse(stripped.rstrip(), function_names(kind))
        except TemplateError as error:
            line = first_line + error.line - 1
            raise StageError(f"{self._source.file}:{line}: {where}: {error.message}") from error
        return StageTemplate(template, self._source.file, first_line, where)


def _event(value: object) -> StageEvent | None:
    if value is None:
        return None
    event = mapping(value)
    return StageEvent(
        text(event.get("type")), text(event.get("reason")), text(event.get("message"))
    )


def _finalizers(value: object) -> Finalizers | None:
    if value is None:
        return None
    change = mapping(value)
    add, remove = (
        tuple(text(one.get("value")) for one in mappings(change.get(name)))
        for name in ("add", "remove")
    )
    return Finalizers(add, remove, change.get("empty") is True)


def _query(language: type[CelQuery | JqQuery], written: str, path: _Path) -> Expression:
    """Compile an expression. Raises FieldsError."""
    if not written:
        raise FieldsError(path, "required")
    try:
        return language(written)
    except QueryError as error:
        raise FieldsError(path, f"{written}: {error}") from error
