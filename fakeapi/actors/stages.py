"""KWOK Stages: what becomes of pods and nodes that match, and when.

Of a `Stage` (kwok.x-k8s.io/v1alpha1) this takes `resourceRef` to v1 Pod and Node, `selector` with
matchLabels, matchAnnotations and matchExpressions (keys are plain paths, `.status.phase` or
`.metadata.annotations["x"]`; In, NotIn, Exists, DoesNotExist), `weight`,
`delay.durationMilliseconds` and `jitterDurationMilliseconds`, and `next` with statusTemplate,
finalizers and delete. Of templates: `{{ Now }}` and a path, `{{ .metadata.name }}`. Everything else
is refused by name.
"""

from __future__ import annotations

import dataclasses
import random
import re
from typing import TYPE_CHECKING, Final

import yaml

from .. import times
from ..objects import (
    Json,
    finalizers_of,
    integer,
    mapping,
    mappings,
    metadata_of,
    sequence,
    text,
    texts,
)
from ..selectors import LabelSelector, Requirement, label_selector_of
from .client import STRATEGIC
from .controller import Context, Controller
from .resources import NODES, PODS, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .informer import Informer

__all__ = ["Stage", "StageError", "StagePlayer", "read_stages"]

_KINDS: Final = {"Pod": PODS, "Node": NODES}
_FIELDS: Final = {
    "spec": ("resourceRef", "selector", "weight", "delay", "next"),
    "spec.selector": ("matchLabels", "matchAnnotations", "matchExpressions"),
    "spec.delay": ("durationMilliseconds", "jitterDurationMilliseconds"),
    "spec.next": ("statusTemplate", "finalizers", "delete"),
    "spec.next.finalizers": ("add", "remove", "empty"),
}
_PATH: Final = re.compile(r'\.([A-Za-z0-9_-]+)|\["([^"\]]+)"\]', re.ASCII)
_WHOLE_PATH: Final = re.compile(r'((\.[A-Za-z0-9_-]+)|(\.?\["[^"\]]+"\]))+', re.ASCII).fullmatch
_ACTION: Final = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


class StageError(Exception):
    """A Stage says something that is not understood; the message names it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """One Stage that has been judged; `spec` is as it was written."""

    name: str
    resource: Resource
    spec: Json

    def matches(self, obj: Json) -> bool:
        """Whether the object is in this stage."""
        selector = mapping(self.spec.get("selector"))
        metadata = metadata_of(obj)
        for field, values in (("matchLabels", "labels"), ("matchAnnotations", "annotations")):
            wanted = label_selector_of({"matchLabels": selector.get(field) or {}})
            if not wanted.matches(mapping(metadata.get(values))):
                return False
        return all(_holds(one, obj) for one in mappings(selector.get("matchExpressions")))

    def delay_seconds(self, chance: random.Random) -> float:
        """How long an object stays; with jitter, anything up to that."""
        delay = mapping(self.spec.get("delay"))
        least = integer(delay.get("durationMilliseconds"))
        most = max(integer(delay.get("jitterDurationMilliseconds")), least)
        return (least + chance.random() * (most - least)) / 1000


def read_stages(path: Path) -> list[Stage]:
    """The Stages of a YAML file. Raises StageError, or OSError."""
    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise StageError(f"{path}: {error}") from error
    return [parse_stage(document) for document in documents if document is not None]


def parse_stage(document: object) -> Stage:
    """Judge one Stage. Raises StageError."""
    stage = mapping(document)
    name = text(metadata_of(stage).get("name"))
    version = "kwok.x-k8s.io/v1alpha1"
    if stage.get("kind") != "Stage" or stage.get("apiVersion") != version:
        raise StageError(f"{name or 'document'}: expected a Stage of {version}")
    for path, known in _FIELDS.items():
        value: object = stage
        for part in path.split("."):
            value = mapping(value).get(part)
        for field in mapping(value):
            if field not in known:
                raise StageError(f"{name}: {path}.{field}: not supported")
    spec = mapping(stage.get("spec"))
    kind = text(mapping(spec.get("resourceRef")).get("kind"))
    if kind not in _KINDS:
        raise StageError(f"{name}: spec.resourceRef.kind: expected Pod or Node, not {kind!r}")
    for one in mappings(mapping(spec.get("selector")).get("matchExpressions")):
        if not _WHOLE_PATH(text(one.get("key"))):
            raise StageError(f"{name}: matchExpressions.key: {one.get('key')!r} is no plain path")
        if one.get("operator") not in _OPERATORS:
            raise StageError(f"{name}: matchExpressions.operator: {one.get('operator')!r}")
    for action in _ACTION.findall(text(mapping(spec.get("next")).get("statusTemplate"))):
        if action != "Now" and not _WHOLE_PATH(action):
            raise StageError(f"{name}: spec.next.statusTemplate: {{{{ {action} }}}}: not supported")
    return Stage(name, _KINDS[kind], spec)


def _at(obj: Json, path: str) -> object:
    value: object = obj
    for plain, quoted in _PATH.findall(path):
        value = mapping(value).get(plain or quoted)
    return value


def _holds(expression: Json, obj: Json) -> bool:
    value = _at(obj, text(expression.get("key")))
    found = {} if value in (None, [], {}) else {"x": "true" if value is True else str(value)}
    names = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    operator = names[text(expression.get("operator"))]
    requirement = Requirement("x", operator, frozenset(texts(expression.get("values"))))
    return LabelSelector((requirement,)).matches(found)


class StagePlayer(Controller):
    """Moves the objects of one resource from stage to stage."""

    name = "stages"

    def __init__(self, context: Context, resource: Resource, stages: Iterable[Stage]) -> None:
        super().__init__(context)
        self._resource = resource
        self._stages = [one for one in stages if one.resource == resource]
        self._chance = random.Random(0)
        self._due: dict[str, tuple[str, str, float]] = {}
        self._objects: Informer = self.follow(resource)

    async def sync(self, key: str) -> None:
        """Do what the object's stage says once its delay is over. Raises ActorApiError."""
        obj = self._objects.objects.get(key)
        if obj is None:
            self._due.pop(key, None)
            return
        matching = [stage for stage in self._stages if stage.matches(obj)]
        if not matching:
            self._due.pop(key, None)
            return
        uid, now = text(metadata_of(obj).get("uid")), self.clock.now()
        present = self._due.get(key)
        stage = next((one for one in matching if present and one.name == present[1]), None)
        if stage is None or present is None or present[0] != uid:
            weights = [max(integer(one.spec.get("weight")), 0) for one in matching]
            stage = self._chance.choices(matching, weights if any(weights) else None)[0]
            present = (uid, stage.name, now + stage.delay_seconds(self._chance))
            self._due[key] = present
        if present[2] > now:
            self.queue.add_after(key, present[2] - now)
            return
        await self._play(stage, obj)
        self._due.pop(key, None)

    async def _play(self, stage: Stage, obj: Json) -> None:
        following = mapping(stage.spec.get("next"))
        wishes = mapping(following.get("finalizers"))
        if wishes:
            kept = [] if wishes.get("empty") else finalizers_of(obj)
            gone = {text(mapping(one).get("value")) for one in sequence(wishes.get("remove"))}
            added = [text(mapping(one).get("value")) for one in sequence(wishes.get("add"))]
            wanted = [one for one in kept if one not in gone]
            wanted += [one for one in added if one not in wanted]
            if wanted != finalizers_of(obj):
                await self.patch(self._resource, obj, {"metadata": {"finalizers": wanted}})
        if following.get("delete"):
            await self.delete(self._resource, obj, gracePeriodSeconds=0)
            return
        template = text(following.get("statusTemplate"))
        if template:
            await self.patch(
                self._resource,
                obj,
                {"status": mapping(yaml.safe_load(self._rendered(template, obj)))},
                subresource="status",
                content_type=STRATEGIC,
            )

    def _rendered(self, template: str, obj: Json) -> str:
        now = times.timestamp(self.clock.now())

        def value(found: re.Match[str]) -> str:
            if found[1] == "Now":
                return f'"{now}"' if not _is_quoted(template, found) else now
            return str(_at(obj, found[1]) or "")

        return _ACTION.sub(value, template)


def _is_quoted(template: str, found: re.Match[str]) -> bool:
    return template[found.start() - 1 : found.start()] in ('"', "'")
