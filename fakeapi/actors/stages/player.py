"""Controllers that play Stages: one for each resource, started once the resource is served.

Source: pkg/kwok/controllers/{pod,node,stage}_controller.go of KWOK.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import random
from typing import TYPE_CHECKING, Final

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.events import EventRecorder
from fakeapi.actors.informer import version_of
from fakeapi.actors.resources import DEFINITIONS, NODES, PODS, resource_of_kind
from fakeapi.actors.stages.fields import StageError
from fakeapi.actors.stages.functions import Environment
from fakeapi.types.objects import (
    Json,
    finalizers_of,
    is_deleting,
    mapping,
    metadata_of,
    name_of,
    namespace_of,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.actors.resources import Resource
    from fakeapi.actors.stages.reading import Stage
    from fakeapi.actors.stages.steps import Apply, Finalizers, Patch, Step

_COMPONENT: Final = "kwok_controller"
_DISCOVER: Final = "discover"
_BUILT_IN: Final = {("v1", "Pod"): PODS, ("v1", "Node"): NODES}
#: Codes after which KWOK retries; after any other failure an object waits for its next change.
_RETRIED: Final = (0, 429, 503, 504)
_log = logging.getLogger(__name__)


class Stages(Controller):
    """All players; those of custom resources start when the resources are served."""

    name = "stages"

    def __init__(self, context: Context, stages: Iterable[Stage]) -> None:
        super().__init__(context)
        self._stages = list(stages)
        self._players: dict[tuple[str, str], StagePlayer] = {}
        self._runs = False
        self._unknown = {(one.api_version, one.kind) for one in self._stages}
        for which in sorted(self._unknown & _BUILT_IN.keys()):
            self._add(which, _BUILT_IN[which])
        if self._unknown:
            definitions = self.informer(DEFINITIONS)
            definitions.subscribe(lambda _old, _new: self.queue.add(_DISCOVER))
            self.queue.add(_DISCOVER)

    @property
    def is_idle(self) -> bool:
        return self.queue.is_idle and all(one.is_idle for one in self._players.values())

    def start(self) -> None:
        self._runs = True
        super().start()
        for player in self._players.values():
            player.start()

    def close(self) -> None:
        super().close()
        for player in self._players.values():
            player.close()

    async def sync(self, key: str) -> None:
        """Start the players of resources that are served now. Raises ActorApiError."""
        if not self._unknown:
            return
        documents = await self.client.discover()
        for api_version, kind in sorted(self._unknown):
            resource = resource_of_kind(documents, api_version, kind)
            if resource is not None:
                self._add((api_version, kind), resource)
        if self._unknown:
            _log.info("stages: not served: %s", sorted(self._unknown))
            self.queue.add_after(key, 1.0)  # a definition exists before its resource is served

    def _add(self, which: tuple[str, str], resource: Resource) -> None:
        wanted = [stage for stage in self._stages if (stage.api_version, stage.kind) == which]
        player = self._players[which] = StagePlayer(self.context, resource, wanted)
        self._unknown.discard(which)
        if self._runs:
            player.start()


@dataclasses.dataclass(slots=True)
class _Playing:
    """The Stage chosen for a version of an object, its time, and its next step."""

    version: int
    stage: Stage
    due: float
    step: int = 0


class StagePlayer(Controller):
    """Moves the objects of one resource from Stage to Stage.

    A change of an object makes a new choice, and starts the delay again.
    """

    name = "stages"

    def __init__(self, context: Context, resource: Resource, stages: list[Stage]) -> None:
        super().__init__(context)
        self._resource = resource
        self._stages = [one for one in stages if one.selector is not None]
        self._chance = random.Random(0)
        self._playing: dict[str, _Playing] = {}
        self._environment = Environment(context, resource.kind)
        self._recorder = EventRecorder(context, _COMPONENT)
        self._nodes = self.informer(NODES)
        self._objects = self.follow(resource)
        if resource == PODS:
            self._nodes.subscribe(self._node_changed)

    async def sync(self, key: str) -> None:
        """Execute the object's Stage once its delay is over. Raises ActorApiError."""
        obj = self._objects.objects.get(key)
        if obj is None or not self._is_ours(obj):
            self._playing.pop(key, None)
            return
        playing = self._playing.get(key)
        if playing is None or playing.version != version_of(obj):
            playing = self._choose(key, obj)
        if playing is None or playing.due == math.inf:
            return
        remaining = playing.due - self.clock.now()
        if remaining > 0:
            self.queue.add_after(key, remaining)
            return
        await self._play(key, obj, playing)

    def _is_ours(self, obj: Json) -> bool:
        """True if the object may be played: a pod needs a node that exists."""
        if self._resource != PODS:
            return True
        return self._nodes.get("", text(mapping(obj.get("spec")).get("nodeName"))) is not None

    def _choose(self, key: str, obj: Json) -> _Playing | None:
        now = self.clock.now()
        stage = self._match(obj)
        if stage is None:
            self._playing.pop(key, None)
            return None
        due = now + stage.delay.seconds(obj, now, self._chance)
        playing = self._playing[key] = _Playing(version_of(obj), stage, due)
        return playing

    def _match(self, obj: Json) -> Stage | None:
        """Draw one of the Stages that select the object, by weight; equally if all weigh 0."""
        matching = [one for one in self._stages if one.selector and one.selector.matches(obj)]
        if len(matching) < 2:
            return matching[0] if matching else None
        weights = [stage.weight.weight(obj) for stage in matching]
        known = [(stage, weight) for stage, weight in zip(matching, weights, strict=True) if weight]
        if known:
            stages = [stage for stage, _ in known]
            return self._chance.choices(stages, [max(weight, 0) for _, weight in known])[0]
        zeros = [one for one, weight in zip(matching, weights, strict=True) if weight == 0]
        return self._chance.choice(zeros or matching)

    async def _play(self, key: str, obj: Json, playing: _Playing) -> None:
        try:
            answer = await self._do_steps(obj, playing)
        except ActorApiError as error:
            if error.code in _RETRIED:
                raise
            _log.warning("stage %s: %s: %s", playing.stage.name, key, error)
            answer = None
        except StageError as error:
            _log.warning("%s (%s)", error, key)
            answer = None
        if self._playing.get(key) is playing:
            # The choice is kept: an object that does not change is not played again.
            playing.due = math.inf
        if answer is not None and playing.stage.immediate_next:
            self._choose(key, answer)
            self.queue.add(key)

    async def _do_steps(self, obj: Json, playing: _Playing) -> Json | None:
        """Execute the remaining steps; return the object after its last patch."""
        answer: Json | None = None
        deleted = False
        steps = playing.stage.steps
        for index in range(playing.step, len(steps)):
            playing.step = index
            step = steps[index]
            if step.event is not None:
                event = step.event
                await self._recorder.record(
                    self._resource, obj, event.reason, event.message, kind=event.type or "Normal"
                )
            if deleted:
                continue
            answer = await self._change(obj, step) or answer
            if step.delete:
                deleted, answer = True, None
                await self.delete(self._resource, obj, gracePeriodSeconds=0)
        return answer

    async def _change(self, obj: Json, step: Step) -> Json | None:
        answer: Json | None = None
        if step.finalizers is not None:
            answer = await self._set_finalizers(obj, step.finalizers)
        if step.delete:
            return answer
        if step.patch is not None:
            answer = await self._patch(obj, step.patch) or answer
        if step.apply is not None:
            await self._apply(obj, step.apply)
        return answer

    async def _set_finalizers(self, obj: Json, finalizers: Finalizers) -> Json | None:
        wanted = finalizers.of(obj)
        if wanted == finalizers_of(obj):
            return None
        return await self.patch(self._resource, obj, {"metadata": {"finalizers": wanted}})

    async def _patch(self, obj: Json, patch: Patch) -> Json | None:
        body = patch.body(self._shown(obj), self._environment.functions_for(obj))
        if body is None:
            return None
        answer = await self.client.request(
            "PATCH",
            self._resource.path(namespace_of(obj), name_of(obj), patch.subresource),
            body,
            content_type=patch.content_type(is_pod_or_node=self._resource in (PODS, NODES)),
            user=patch.user,
        )
        return self._noted(self._resource, answer)

    def _shown(self, obj: Json) -> Json:
        """Return the object with its kind, as templates get it."""
        return {"apiVersion": self._resource.api_version, "kind": self._resource.kind, **obj}

    async def _apply(self, obj: Json, apply: Apply) -> None:
        """Create an object of any kind, or patch it. Raises ActorApiError, StageError."""
        functions = self._environment.functions_for(obj)
        body = dict(mapping(apply.template.rendered(self._shown(obj), functions)))
        resource = await self._resource_of(body, apply)
        metadata = metadata_of(body)
        if resource.namespaced and not metadata.get("namespace"):
            metadata = {**metadata, "namespace": namespace_of(obj)}
        body["metadata"] = metadata
        namespace = namespace_of(body) if resource.namespaced else ""
        if not apply.subresource:
            try:
                path = resource.path(namespace)
                answer = await self.client.request("POST", path, body, user=apply.user)
            except ActorApiError as error:
                if error.reason != "AlreadyExists" or not metadata.get("name"):
                    raise
            else:
                self._noted(resource, answer)
                return
        is_apply = apply.content_type == "application/apply-patch+yaml"
        answer = await self.client.request(
            "PATCH",
            resource.path(namespace, text(metadata.get("name")), apply.subresource),
            body,
            content_type=apply.content_type,
            query={"fieldManager": "kwok", "force": "true"} if is_apply else None,
            user=apply.user,
        )
        self._noted(resource, answer)

    async def _resource_of(self, body: Json, apply: Apply) -> Resource:
        api_version, kind = text(body.get("apiVersion")), text(body.get("kind"))
        documents = await self.client.discover()
        resource = resource_of_kind(documents, api_version, kind)
        if resource is None:
            where = f"{apply.template.file}:{apply.template.first_line}: {apply.template.where}"
            raise StageError(f"{where}: the server has no {api_version} {kind}")
        return resource

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        """Play the pods of a new node."""
        if old is not None or new is None or is_deleting(new):
            return
        name = metadata_of(new).get("name")
        for key, pod in self._objects.objects.items():
            if mapping(pod.get("spec")).get("nodeName") == name:
                self.queue.add(key)
