"""What a plugin is, what it is shown, and the chain that runs the plugins of a server.

Source: apiserver pkg/admission/{interfaces,chain,errors}.go of v0.36.3.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar, Final

from fakeapi.store.registry import Operation, Review
from fakeapi.types.objects import Json, mapping
from fakeapi.types.sharing import is_shared, shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fakeapi.kinds.table import ResourceKey
    from fakeapi.store.registry import Registry

PODS: Final = ("", "pods")
_SPECS_MAX: Final = 1024


_NEW_POD: Final = (PODS, "", Operation.CREATE)


class Plugin:
    """One rule of admission, made anew for every server.

    `mutate` sees an object before it has its final name and may change it; `check` sees it after
    validation and may only refuse. Both raise ApiError.
    """

    #: As the flags of kube-apiserver spell it.
    name: ClassVar[str] = ""
    #: Set if it reads and changes nothing of a new pod but the spec: the resources it looks into.
    reads_beside_spec: ClassVar[tuple[ResourceKey, ...] | None] = None

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """Whether it wants to see such writes; the answer is asked for once and kept."""
        raise NotImplementedError

    def checks(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """Whether it has more to say of those that it handles once they are finished."""
        return True

    def mutate(self, review: Review) -> None:
        """Change the object. Raises ApiError to refuse it."""

    def check(self, review: Review) -> None:
        """Judge the finished object. Raises ApiError to refuse it."""

    def follow(self, state: Registry) -> None:
        """Called once the server's state is there, by plugins that keep books about it."""


class _OfSpec:
    """Neighbours that depend on the spec of a pod: what they made of a shared one is remembered."""

    def __init__(self, plugins: list[Plugin]) -> None:
        self._plugins = plugins
        self._resources = list(
            dict.fromkeys(key for plugin in plugins for key in plugin.reads_beside_spec or ())
        )
        self._seen_changes: list[int] = []
        self._made: dict[int, tuple[Json, Json]] = {}

    def mutate(self, review: Review) -> None:
        """Let them change the spec, or take what they made of it before. Raises ApiError."""
        obj, store = review.object, review.registry.store
        changes = [store.collection(resource).changes for resource in self._resources]
        if changes != self._seen_changes:
            self._seen_changes = changes
            self._made.clear()
        spec = obj.get("spec")
        known = self._made.get(id(spec))
        if known is not None and known[0] is spec:
            obj["spec"] = known[1]
            return
        if not isinstance(spec, dict) or not is_shared(spec):
            self._mutate_in_turn(review)
            return
        obj["spec"] = dict(spec)  # what becomes of it on the way is nobody else's
        self._mutate_in_turn(review)
        made = obj["spec"] = shared(mapping(obj["spec"]))
        if len(self._made) >= _SPECS_MAX:
            self._made.clear()
        self._made[id(spec)] = spec, made

    def _mutate_in_turn(self, review: Review) -> None:
        for plugin in self._plugins:
            plugin.mutate(review)


def _steps(plugins: Iterable[Plugin]) -> list[Callable[[Review], None]]:
    steps: list[Callable[[Review], None]] = []
    grouped = itertools.groupby(plugins, key=lambda plugin: plugin.reads_beside_spec is not None)
    for is_of_spec, group in grouped:
        steps += [_OfSpec(list(group)).mutate] if is_of_spec else [p.mutate for p in group]
    return steps


class AdmissionChain:
    """The plugins of a server, in order: all mutations of a write, later all checks."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self.plugins = tuple(plugins)
        self._mutations: dict[object, list[Callable[[Review], None]]] = {}
        self._checks: dict[object, list[Callable[[Review], None]]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Which plugins are in it."""
        return tuple(plugin.name for plugin in self.plugins)

    def mutate(self, review: Review) -> None:
        """Let the plugins change the object. Raises ApiError if one refuses it."""
        target = review.target
        which = (target.kind.resource_key, target.subresource, review.operation)
        steps = self._mutations.get(which)
        if steps is None:
            wanting = [p for p in self.plugins if type(p).mutate is not Plugin.mutate]
            wanting = [plugin for plugin in wanting if plugin.handles(*which)]
            steps = _steps(wanting) if which == _NEW_POD else [p.mutate for p in wanting]
            self._mutations[which] = steps
        for mutate in steps:
            mutate(review)

    def validate(self, review: Review) -> None:
        """Let the plugins judge the finished object. Raises ApiError if one refuses it."""
        target = review.target
        which = (target.kind.resource_key, target.subresource, review.operation)
        steps = self._checks.get(which)
        if steps is None:
            wanting = [p for p in self.plugins if type(p).check is not Plugin.check]
            wanting = [p for p in wanting if p.handles(*which) and p.checks(*which)]
            steps = [plugin.check for plugin in wanting]
            self._checks[which] = steps
        for check in steps:
            check(review)

    def afresh(self) -> AdmissionChain:
        """The same plugins for another store; they know nothing of this one."""
        return AdmissionChain(type(plugin)() for plugin in self.plugins)

    def follow(self, state: Registry) -> None:
        """Let the plugins look at what there is, and keep looking."""
        for plugin in self.plugins:
            plugin.follow(state)
