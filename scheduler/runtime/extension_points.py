"""The extension points: their names in a profile, in error texts, and in a plugin's methods.

A plugin takes part in a point if it defines one of the point's methods. `expand` computes which
plugins of a profile run at a point, and in which order.
Source: `pkg/scheduler/framework/runtime/framework.go` (`getExtensionPoints`, `updatePluginList`,
`expandMultiPointPlugins`).
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api import field
from scheduler.framework.failures import PluginSetupError
from scheduler.framework.interface import CONTRACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.config.types import Plugins, PluginSet
    from scheduler.framework.interface import Plugin


class ExtensionPoint(NamedTuple):
    """One point at which plugins are called."""

    #: The field of `config.types.Plugins`.
    field: str
    #: Upstream's name of the interface, as error texts have it.
    interface: str
    #: A plugin that defines any of these takes part.
    methods: tuple[str, ...]


EXTENSION_POINTS: Final = (
    ExtensionPoint("pre_filter", "PreFilterPlugin", ("pre_filter",)),
    ExtensionPoint("filter", "FilterPlugin", ("filter", "filter_nodes")),
    ExtensionPoint("post_filter", "PostFilterPlugin", ("post_filter",)),
    ExtensionPoint("reserve", "ReservePlugin", ("reserve", "unreserve")),
    ExtensionPoint("pre_score", "PreScorePlugin", ("pre_score",)),
    ExtensionPoint("score", "ScorePlugin", ("score", "score_nodes")),
    ExtensionPoint("pre_bind", "PreBindPlugin", ("pre_bind",)),
    ExtensionPoint("bind", "BindPlugin", ("bind",)),
    ExtensionPoint("post_bind", "PostBindPlugin", ("post_bind",)),
    ExtensionPoint("permit", "PermitPlugin", ("permit",)),
    ExtensionPoint("pre_enqueue", "PreEnqueuePlugin", ("pre_enqueue",)),
    ExtensionPoint("queue_sort", "QueueSortPlugin", ("less",)),
    ExtensionPoint("placement_generate", "PlacementGeneratePlugin", ("generate_placements",)),
    ExtensionPoint("placement_score", "PlacementScorePlugin", ("score_placement",)),
)


#: The methods of plugins and their contracts, by name.
METHODS: Final[Mapping[str, Callable[..., object]]] = MappingProxyType(
    {
        name: method
        for contract in CONTRACTS
        for name, method in vars(contract).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }
)

#: The methods that the framework awaits; it calls all others without waiting.
ASYNC_METHODS: Final = frozenset(
    ("post_filter", "pod_group_post_filter", "pre_bind", "bind", "post_bind")
)

#: Two forms of one method: a plugin has at most one of them.
_TWINS: Final = (("filter", "filter_nodes"), ("score", "score_nodes"))

#: Matches a return annotation of a function that returns an awaitable.
_AWAITABLE: Final = re.compile(r"Awaitable|Coroutine|Future|Task").search

#: A name this similar to a method's (`difflib`), with as many parameters, is a misspelt method.
_SIMILARITY_MIN: Final = 0.8


@functools.lru_cache(maxsize=1024)  # a process that tests builds hundreds of schedulers
def check_methods(plugin_class: type[Plugin]) -> None:
    """Check the names of a plugin's methods, and that methods that may wait are async.

    Raises `PluginSetupError` for both forms of one method, for a method whose name is nearly that
    of an extension point, and for a method that is async and may not be, or the other way round.
    """
    name = plugin_class.name
    for simple, fast in _TWINS:
        if _defines(plugin_class, simple) and _defines(plugin_class, fast):
            raise PluginSetupError(
                f'plugin "{name}" defines both {simple} and {fast}: keep one, '
                "the framework derives the other"
            )
    for other in _other_methods(plugin_class):
        if meant := _meant(plugin_class, other):
            raise PluginSetupError(
                f'plugin "{name}" defines {other}, which is no extension point '
                f'(did you mean "{meant}"?); a helper needs a name that is less alike, or a '
                "leading underscore"
            )
    for method in METHODS:
        _require_async_or_not(plugin_class, method)


def _require_async_or_not(plugin_class: type[Plugin], method: str) -> None:
    """Raise `PluginSetupError` for a forgotten `async`, or one too many.

    A function without `async` is accepted as an async method if its return annotation names an
    awaitable. Other callables are not checked.
    """
    function = getattr(plugin_class, method, None)
    if not inspect.isfunction(function):
        return
    function = inspect.unwrap(function)
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if method not in ASYNC_METHODS:
        if is_async:
            raise PluginSetupError(
                f'plugin "{plugin_class.name}": {method} must not be async: '
                "it decides, and may not wait"
            )
    elif not is_async and not _AWAITABLE(str(function.__annotations__.get("return", ""))):
        raise PluginSetupError(
            f'plugin "{plugin_class.name}": {method} must be async (`async def {method}`)'
        )


def require_extension_point(plugin_class: type[Plugin]) -> None:
    """Raise `PluginSetupError` for a plugin without any extension point."""
    if not any(implements(plugin_class, point) for point in EXTENSION_POINTS):
        hints = (field.nearest(_snake_case(n), METHODS) for n in _other_methods(plugin_class))
        hint = next(filter(None, hints), "")
        raise PluginSetupError(
            f'plugin "{plugin_class.name}" defines no extension point{hint}: '
            "expected a method such as filter, score or permit "
            "(scheduler/framework/interface.py describes them)"
        )


def _other_methods(plugin_class: type[Plugin]) -> list[str]:
    """Return the public methods of a plugin that are not called by the framework."""
    return [
        name
        for name in dir(plugin_class)
        if name not in METHODS and not name.startswith("_") and _defines(plugin_class, name)
    ]


def _defines(plugin: Plugin | type[Plugin], method: str) -> bool:
    return callable(getattr(plugin, method, None))


def _meant(plugin_class: type[Plugin], name: str) -> str:
    """Return the extension method that a method is nearly called; an empty text for none."""
    snake_case = _snake_case(name)
    similar = _most_similar(snake_case)
    if similar in ("", snake_case):
        return similar
    own, contract = getattr(plugin_class, name), METHODS[similar]
    return similar if _arity(own) == _arity(contract) else ""


@functools.lru_cache(maxsize=1024)  # a process that tests builds hundreds of schedulers
def _most_similar(name: str) -> str:
    """Return the extension method whose name is most similar; an empty text for none."""
    matches = difflib.get_close_matches(name, METHODS, n=1, cutoff=_SIMILARITY_MIN)
    return matches[0] if matches else ""


def _arity(method: Callable[..., object]) -> int:
    """Return the number of a method's parameters; -1 for a class and other callables."""
    return len(inspect.signature(method).parameters) if inspect.isfunction(method) else -1


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def implements(plugin: Plugin | type[Plugin], point: ExtensionPoint) -> bool:
    """True if a plugin defines a method of the point."""
    return any(_defines(plugin, method) for method in point.methods)


def takes_part(plugin: Plugin, point: ExtensionPoint) -> bool:
    """True if a plugin defines a method of the point, in the version that decides."""
    since = plugin.points_since.get(point.field)
    return implements(plugin, point) and (since is None or plugin.handle.version >= since)


def expand(
    point: ExtensionPoint, plugins: Plugins, instances: Mapping[str, Plugin]
) -> list[Plugin]:
    """Return the plugins that run at a point, in order.

    First the plugins named at the point and in `multiPoint`, in the order of the point; then other
    plugins of `multiPoint` that implement the point and are not disabled there; then the others
    named at the point. Raises `PluginSetupError`.
    """
    specific = _specific(point, getattr(plugins, point.field), instances)
    disabled = {plugin.name for plugin in getattr(plugins, point.field).disabled}
    if "*" in disabled:
        return [instances[name] for name in specific]
    multi_point: dict[str, None] = {}
    overridden: set[str] = set()
    for entry in plugins.multi_point.enabled:
        if (plugin := instances.get(entry.name)) is None:
            raise PluginSetupError(f'{point.interface} "{entry.name}" does not exist')
        if not takes_part(plugin, point) or entry.name in disabled:
            continue
        if entry.name in specific:
            overridden.add(entry.name)
        elif entry.name in multi_point:
            raise PluginSetupError(
                f'plugin "{entry.name}" already registered as "{point.interface}"'
            )
        else:
            multi_point[entry.name] = None
    order = [
        *(name for name in specific if name in overridden),
        *multi_point,
        *(name for name in specific if name not in overridden),
    ]
    return [instances[name] for name in order]


def _specific(
    point: ExtensionPoint, plugin_set: PluginSet, instances: Mapping[str, Plugin]
) -> list[str]:
    names: list[str] = []
    for entry in plugin_set.enabled:
        if (plugin := instances.get(entry.name)) is None:
            raise PluginSetupError(f'{point.interface} "{entry.name}" does not exist')
        if not takes_part(plugin, point):
            raise PluginSetupError(
                f'plugin "{entry.name}" does not extend {point.interface} plugin'
            )
        if entry.name in names:
            raise PluginSetupError(
                f'plugin "{entry.name}" already registered as "{point.interface}"'
            )
        names.append(entry.name)
    return names
