"""The interface of admission plugins, and the chain that runs them.

Source: apiserver pkg/admission/{interfaces,chain,errors}.go of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fakeapi.store.registry import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from fakeapi.store.registry import Registry, Review
    from fakeapi.types.kind import ResourceKey


class Plugin:
    """One rule of admission; every server has its own instance.

    `mutate` sees an object before it has its final name and may change it; `check` sees it after
    validation and may only refuse. Both raise ApiError.
    """

    #: As the flags of kube-apiserver spell it.
    name: ClassVar[str] = ""
    #: The writes for which it runs: such operations on whole objects of these resources.
    resources: ClassVar[Collection[ResourceKey]] = ()
    operations: ClassVar[Collection[Operation]] = (Operation.CREATE,)

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """Return True if the plugin runs for such writes; the result is cached."""
        return resource in self.resources and not subresource and operation in self.operations

    def checks(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """Return True if `check` runs for such writes, which `handles` includes."""
        return True

    def mutate(self, review: Review) -> None:
        """Change the object. Raises ApiError to refuse it."""

    def check(self, review: Review) -> None:
        """Judge the finished object. Raises ApiError to refuse it."""

    def follow(self, state: Registry) -> None:
        """Start to follow the state of the server, once it is complete."""


class AdmissionChain:
    """The plugins of a server, in order: all mutations of a write, later all checks."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self.plugins = tuple(plugins)
        self._mutations: dict[object, list[Callable[[Review], None]]] = {}
        self._checks: dict[object, list[Callable[[Review], None]]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(plugin.name for plugin in self.plugins)

    def mutate(self, review: Review) -> None:
        """Let the plugins change the object. Raises ApiError if one refuses it."""
        target = review.target
        which = (target.kind.resource_key, target.subresource, review.operation)
        steps = self._mutations.get(which)
        if steps is None:
            wanted = [p for p in self.plugins if type(p).mutate is not Plugin.mutate]
            wanted = [plugin for plugin in wanted if plugin.handles(*which)]
            steps = self._mutations[which] = [plugin.mutate for plugin in wanted]
        for mutate in steps:
            mutate(review)

    def validate(self, review: Review) -> None:
        """Let the plugins judge the finished object. Raises ApiError if one refuses it."""
        target = review.target
        which = (target.kind.resource_key, target.subresource, review.operation)
        steps = self._checks.get(which)
        if steps is None:
            wanted = [p for p in self.plugins if type(p).check is not Plugin.check]
            wanted = [p for p in wanted if p.handles(*which) and p.checks(*which)]
            steps = [plugin.check for plugin in wanted]
            self._checks[which] = steps
        for check in steps:
            check(review)

    def for_another_store(self) -> AdmissionChain:
        """Return new instances of the same plugins, for another store."""
        return AdmissionChain(type(plugin)() for plugin in self.plugins)

    def follow(self, state: Registry) -> None:
        """Let the plugins follow the state of the server."""
        for plugin in self.plugins:
            plugin.follow(state)
