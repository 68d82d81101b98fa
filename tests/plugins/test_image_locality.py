"""ImageLocality: cases that upstream's tables (`tests/upstream`) do not have."""

from scheduler.api.core import Node, Pod
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


def pod(size: int) -> Pod:
    return make_pod(image=f"gcr.io/{size}")


def test_an_image_that_no_node_has_scores_nothing() -> None:
    snapshot = snapshot_of([node("a", 300), node("b")])
    assert scores(PLUGIN, pod(77), snapshot) == {"a": 0, "b": 0}


def test_the_share_counts_all_nodes_not_only_the_nodes_in_view() -> None:
    snapshot = snapshot_of([node("a", 300), node("b", 300), node("c"), node("d")])
    everywhere = scores(PLUGIN, pod(300), snapshot)
    view = snapshot.nodes.slice(1, 3)
    some = PLUGIN.score_nodes(CycleState(), PodInfo(pod(300)), view)
    assert some.tolist() == [everywhere["b"], everywhere["c"]] == [12, 0]
