"""What a plugin is, what it is shown, and the chain that runs the plugins of a server.

Source: apiserver pkg/admission/{interfaces,chain,errors}.go of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fakeapi.store.registry import Operation, Registry, Review
    from fakeapi.types.kind import ResourceKey


class Plugin:
    """One rule of admission, made anew for every server.

    `mutate` sees an object before it has its final name and may change it; `check` sees it after
    validation and may only refuse. Both raise ApiError.
    """

    #: As the flags of kube-apiserver spell it.
    name: ClassVar[str] = ""

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
            steps = self._mutations[which] = [plugin.mutate for plugin in wanting]
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
