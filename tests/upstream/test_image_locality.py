"""ImageLocality against upstream's own cases."""

import pytest

from scheduler.framework import CycleState
from scheduler.plugins.image_locality import ImageLocality, normalized_image_name
from tests.upstream.loading import Case, cases
from tests.upstream.running import plugin_of, scores


@pytest.mark.parametrize("case", cases("image_locality", "score"))
def test_nodes_get_upstreams_scores(case: Case) -> None:
    assert scores(plugin_of(ImageLocality, case), case, CycleState()) == case["scores"]


@pytest.mark.parametrize("case", cases("image_locality", "names"))
def test_image_names_are_normalized_as_upstreams(case: Case) -> None:
    assert normalized_image_name(case["image"]) == case["normalized"]
