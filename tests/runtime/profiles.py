"""Small plugins and frameworks of them, in one line each."""

from collections.abc import Callable, Sequence

from scheduler.config import types as config
from scheduler.framework import Plugin
from scheduler.runtime import Framework, Registry
from scheduler.runtime.extension_points import ASYNC_METHODS
from scheduler.testing import FakeHandle


def plugin(name: str, **methods: Callable[..., object]) -> type[Plugin]:
    """A plugin class with these methods (each gets `self` first)."""
    return type(name, (Plugin,), dict(methods))


def answering(name: str, **answers: object) -> type[Plugin]:
    """Return a plugin class whose methods return these answers, or raise them."""

    def method(answer: object) -> Callable[..., object]:
        def answer_or_raise(self: Plugin, *arguments: object) -> object:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return answer_or_raise

    def async_method(answer: object) -> Callable[..., object]:
        async def answer_or_raise(self: Plugin, *arguments: object) -> object:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return answer_or_raise

    return plugin(
        name,
        **{
            point: (async_method if point in ASYNC_METHODS else method)(answer)
            for point, answer in answers.items()
        },
    )


async def _bind(self: Plugin, *arguments: object) -> None:
    """Bind nothing."""


#: What every profile needs.
SORT = plugin("Sort", less=lambda self, first, second: False)
BINDER = plugin("Binder", bind=_bind)


def plugin_set(enabled: str = "", *, disabled: str = "") -> config.PluginSet:
    """`A:5 B` is A with weight 5, then B."""
    entries = (entry.partition(":") for entry in enabled.split())
    return config.PluginSet(
        enabled=tuple(config.Plugin(name, int(weight or 0)) for name, _, weight in entries),
        disabled=tuple(config.Plugin(name) for name in disabled.split()),
    )


def framework_of(
    *classes: type[Plugin],
    plugins: config.Plugins | None = None,
    plugin_config: Sequence[config.PluginConfig] = (),
    handle: FakeHandle | None = None,
    percentage_of_nodes_to_score: int | None = None,
    scheduler_name: str = "tested",
) -> Framework:
    """Return a framework of these plugins.

    Without `plugins`, they run at all points that they implement, with `SORT` and `BINDER` added.
    """
    if plugins is None:
        classes = (SORT, *classes, BINDER)
        names = " ".join(each.name for each in classes)
        plugins = config.Plugins(multi_point=plugin_set(names))
    profile = config.KubeSchedulerProfile(
        scheduler_name=scheduler_name,
        percentage_of_nodes_to_score=percentage_of_nodes_to_score,
        plugins=plugins,
        plugin_config=tuple(plugin_config),
    )
    return Framework(profile, registry=Registry(classes), make_handle=(handle or FakeHandle()).make)
