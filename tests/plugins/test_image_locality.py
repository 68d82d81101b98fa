"""ImageLocality: cases that upstream's tables (`tests/upstream`) do not have."""

import pytest

from scheduler.api.core import Container, ImageVolumeSource, Node, Pod, Volume
from scheduler.framework import CycleState
from scheduler.plugins.image_locality import ImageLocality
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.plugins.running import scores

from .volumes import plugin_with

PLUGIN: ImageLocality = plugin_with(ImageLocality, FakeHandle())


MIB = 1024 * 1024


def node(name: str, *sizes: int) -> Node:
    """A node with an image for each size in MiB, named after it."""
    return make_node(name, images={f"gcr.io/{size}:latest": size * MIB for size in sizes})


def pod(*sizes: int, init: tuple[int, ...] = (), volumes: tuple[int, ...] = ()) -> Pod:
    return make_pod(
        containers=[Container(image=f"gcr.io/{size}") for size in sizes],
        init_containers=[Container(image=f"gcr.io/{size}") for size in init],
        volumes=[Volume(image=ImageVolumeSource(reference=f"gcr.io/{size}")) for size in volumes],
    )


@pytest.mark.parametrize(
    ("wanting", "nodes", "expected"),
    [
        pytest.param(pod(40, 250), [(40, 300, 2000), (250, 10)], [0, 5], id="the larger image"),
        pytest.param(pod(40, 300), [(40, 300, 2000), (250, 10)], [7, 0], id="both on one node"),
        pytest.param(pod(10, 4000), [(4000, 30), (250, 10)], [100, 0], id="over the limit"),
        pytest.param(pod(10, 4000), [(4000, 30), (250, 10), ()], [66, 0, 0], id="spread thinner"),
        pytest.param(
            pod(300, 600, 900), [(600, 40, 900), (300, 600, 900), ()], [32, 36, 0], id="several"
        ),
        pytest.param(pod(30, 40), [(20, 30, 40), (4000, 30)], [1, 0], id="small images"),
        pytest.param(
            pod(30, volumes=(300,)), [(300, 600, 900), (4000, 30)], [12, 0], id="image volume"
        ),
        pytest.param(
            pod(30, init=(300,)), [(40, 300, 2000), (20, 30, 40)], [6, 0], id="init container"
        ),
        pytest.param(pod(77), [(300,), ()], [0, 0], id="nobody has it"),
    ],
)
def test_nodes_with_more_of_the_pods_images_score_higher(
    wanting: Pod, nodes: list[tuple[int, ...]], expected: list[int]
) -> None:
    snapshot = snapshot_of(node(f"node{i}", *sizes) for i, sizes in enumerate(nodes))
    assert list(scores(PLUGIN, wanting, snapshot).values()) == expected


def test_the_share_counts_all_nodes_not_only_the_nodes_in_view() -> None:
    snapshot = snapshot_of([node("a", 300), node("b", 300), node("c"), node("d")])
    everywhere = scores(PLUGIN, pod(300), snapshot)
    view = snapshot.nodes.slice(1, 3)
    some = PLUGIN.score_nodes(CycleState(), PodInfo(pod(300)), view)
    assert some.tolist() == [everywhere["b"], everywhere["c"]] == [12, 0]
