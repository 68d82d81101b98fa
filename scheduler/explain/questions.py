"""Questions about clusters, one JSON object a line: where would these pods be scheduled?"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar, cast

import msgspec

from scheduler.api.core import Node, Pod
from scheduler.client import NODES, PODS
from scheduler.client.kinds import KINDS_BY_NAME
from scheduler.config import (
    ConfigError,
    FeatureGates,
    SchedulerVersion,
    default_config,
    default_feature_gates,
    load_text,
)
from scheduler.explain.cluster import with_api_defaults
from scheduler.explain.world import World
from scheduler.plugins import SCHEME
from scheduler.preemption.executor import ASYNC_PREEMPTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scheduler.client import ApiObject
    from scheduler.config import KubeSchedulerConfiguration
    from scheduler.framework.interface import Plugin

#: Questions without a configuration use the default profile and score all nodes.
_PERCENTAGE: Final = 100


class QuestionError(ValueError):
    """A line that is not a question. The text names the line and the mistake."""


class Question(msgspec.Struct, frozen=True):
    """A cluster, and the pods to schedule in it, one after another.

    `objects` are of any kind; pods among them have a node. `features` are the feature gates that
    differ from the defaults.
    """

    name: str
    config: msgspec.Raw = msgspec.Raw(b"")
    objects: tuple[msgspec.Raw, ...] = ()
    pods: tuple[Pod, ...] = ()
    features: Mapping[str, bool] = MappingProxyType({})

    def feature_gates(self, version: SchedulerVersion) -> FeatureGates:
        """Return the enabled gates, without asynchronous preemption: victims are decided too."""
        on = {name for name, is_on in self.features.items() if is_on}
        off = {ASYNC_PREEMPTION, *(self.features.keys() - on)}
        return (default_feature_gates(version) | on) - off

    def configuration(self, version: SchedulerVersion) -> KubeSchedulerConfiguration:
        """Return the configuration. Raises `QuestionError`."""
        raw = bytes(self.config)
        scheme = SCHEME._replace(gates=self.feature_gates(version), version=version)
        if not raw or raw == b"null":
            config = default_config(scheme)
            return msgspec.structs.replace(config, percentage_of_nodes_to_score=_PERCENTAGE)
        try:
            return load_text(raw.decode(), scheme)
        except (msgspec.MsgspecError, ConfigError) as error:
            raise self.error(error) from error

    def objects_by_kind(self) -> dict[str, list[ApiObject]]:
        """Return the objects that matter, with API defaults. Raises `QuestionError`."""
        objects: dict[str, list[ApiObject]] = {}
        try:
            for raw in self.objects:
                if (decoded := read_object(bytes(raw))) is not None:
                    objects.setdefault(decoded[0], []).append(decoded[1])
        except msgspec.MsgspecError as error:
            raise self.error(error) from error
        return objects

    def world(self, plugins: Iterable[type[Plugin] | str], version: SchedulerVersion) -> World:
        """Build the cluster. Raises `QuestionError` or an error of the profiles."""
        others = self.objects_by_kind()
        return World(
            self.configuration(version),
            nodes=cast("list[Node]", others.pop(NODES.plural, [])),
            pods=cast("list[Pod]", others.pop(PODS.plural, [])),
            others=others,
            plugins=plugins,
            version=version,
            feature_gates=self.feature_gates(version),
        )

    def error(self, error: Exception) -> QuestionError:
        """Return an error that names this question."""
        return QuestionError(f"scenario {self.name}: {error}")


Q = TypeVar("Q", bound=Question)


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


def read_object(text: bytes) -> tuple[str, ApiObject] | None:
    """Return the key of the kind and the object, with API defaults; None for an unknown kind."""
    resource = KINDS_BY_NAME.get(msgspec.json.decode(text, type=_Kind).kind)
    if resource is None:
        return None
    decoded: ApiObject = msgspec.json.decode(text, type=resource.type)
    return resource.key, with_api_defaults(decoded) if isinstance(decoded, Pod) else decoded


def read_questions(lines: Iterable[bytes], type: type[Q], *, source: str) -> Iterator[Q]:
    """Yield one question a line, skipping blank lines. Raises `QuestionError`."""
    decoder = msgspec.json.Decoder(type)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise QuestionError(f"{source}, line {number}: {error}") from error
