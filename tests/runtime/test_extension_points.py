"""Plugins by extension point, beyond upstream's table (`tests/upstream`)."""

import pytest

from scheduler.config.types import Plugins
from scheduler.runtime import PluginSetupError
from scheduler.runtime.extension_points import EXTENSION_POINTS, expand, implements
from tests.runtime.profiles import BINDER, SORT, answering, framework_of, plugin, plugin_set

#: Takes part in everything, like upstream's `test-plugin`.
ALL = answering(
    "All", pre_filter=None, filter=None, post_filter=None, reserve=None, pre_score=None, score=0,
    pre_bind=None, bind=None, post_bind=None, permit=None, pre_enqueue=None, less=False,
)  # fmt: skip
SCORE1 = answering("Score1", pre_score=None, score_nodes=None)
SCORE2 = answering("Score2", score=0)
NORMAL = answering("Normal", score=0, normalize_score=None)
CLASSES = (ALL, SCORE1, SCORE2, NORMAL, SORT, BINDER)


MINIMAL = "Sort Binder"


@pytest.mark.parametrize(
    ("plugins", "text"),
    [
        (
            Plugins(multi_point=plugin_set("All All")),
            'plugin "All" already registered as "PreFilterPlugin"',
        ),
        (
            Plugins(multi_point=plugin_set("Score2 Score2")),
            'plugin "Score2" already registered as "ScorePlugin"',
        ),
        (
            Plugins(multi_point=plugin_set(MINIMAL), filter=plugin_set("All All")),
            'plugin "All" already registered as "FilterPlugin"',
        ),
        (
            Plugins(multi_point=plugin_set("Unknown")),
            'PreFilterPlugin "Unknown" does not exist',
        ),
        (
            Plugins(multi_point=plugin_set(MINIMAL), post_filter=plugin_set("Unknown")),
            'PostFilterPlugin "Unknown" does not exist',
        ),
        (
            Plugins(multi_point=plugin_set(MINIMAL), reserve=plugin_set("Score1")),
            'plugin "Score1" does not extend ReservePlugin plugin',
        ),
        (
            Plugins(multi_point=plugin_set(MINIMAL), queue_sort=plugin_set("Binder")),
            'plugin "Binder" does not extend QueueSortPlugin plugin',
        ),
    ],
)
def test_an_invalid_plugin_set_is_refused_with_upstreams_message(
    plugins: Plugins, text: str
) -> None:
    with pytest.raises(PluginSetupError) as refusal:
        framework_of(*CLASSES, plugins=plugins)
    assert str(refusal.value) == text


def test_an_override_of_a_plugin_named_twice_in_multi_point_is_no_double_registration() -> None:
    """Upstream looks at the override first, and never at the second mention."""
    point = next(point for point in EXTENSION_POINTS if point.field == "score")
    plugins = Plugins(multi_point=plugin_set("Score2 Score2"), score=plugin_set("Score2"))
    instance = SCORE2()
    assert expand(point, plugins, {"Score2": instance}) == [instance]


@pytest.mark.parametrize(
    ("methods", "points"),
    [
        (("filter",), ["filter"]),
        (("filter_nodes",), ["filter"]),
        (("score_nodes",), ["score"]),
        (("unreserve",), ["reserve"]),
        (("less",), ["queue_sort"]),
        (("pre_bind_pre_flight", "add_pod", "remove_pod", "normalize_score", "sign"), []),
    ],
)
def test_presence_is_registration(methods: tuple[str, ...], points: list[str]) -> None:
    each = plugin("Each", **{method: lambda self: None for method in methods})
    assert [point.field for point in EXTENSION_POINTS if implements(each, point)] == points


def test_an_attribute_that_cannot_be_called_is_no_method() -> None:
    each = type("Each", (ALL.__base__,), {"filter": "coffee"})
    assert not any(implements(each, point) for point in EXTENSION_POINTS)
