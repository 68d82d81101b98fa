import pytest

from scheduler.config import KubeSchedulerConfiguration, Plugin, Plugins, PluginSet


@pytest.mark.parametrize(
    ("plugins", "names"),
    [
        pytest.param(Plugins(), [], id="TestPluginsNames#empty"),
        pytest.param(
            Plugins(
                filter=PluginSet((Plugin("CustomFilter"),)),
                pre_filter=PluginSet((Plugin("CustomFilter"),)),
                score=PluginSet((Plugin("CustomScore"),)),
            ),
            ["CustomFilter", "CustomScore"],
            id="TestPluginsNames#with duplicates",
        ),
        pytest.param(
            Plugins(multi_point=PluginSet((Plugin("B"),), disabled=(Plugin("A"),))),
            ["B"],
            id="own: multiPoint counts, disabled plugins do not",
        ),
    ],
)
def test_the_enabled_plugins_are_named_once_and_in_order(
    plugins: Plugins, names: list[str]
) -> None:
    assert plugins.names() == names


def test_there_are_sixteen_points() -> None:
    assert [name for name, _ in Plugins().points()] == [
        "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score",
        "reserve", "permit", "preBind", "bind", "postBind", "multiPoint", "placementGenerate",
        "placementScore", "podGroupPostFilter",
    ]  # fmt: skip


def test_a_configuration_cannot_be_changed() -> None:
    config = KubeSchedulerConfiguration()
    with pytest.raises(AttributeError):
        config.parallelism = 3  # type: ignore[misc]
