"""Rules that upstream's plugins share, against upstream's own cases."""

import numpy as np
import pytest

from scheduler.api.tolerations import HARD_EFFECTS
from scheduler.framework.arithmetic import default_normalize_score
from scheduler.plugins.pod_topology_spread.constraints import default_selector
from scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from tests.upstream.loading import Case, cases
from tests.upstream.running import incoming, plugin_of


@pytest.mark.parametrize("case", cases("plugin_helper", "normalize_score"))
def test_normalize_score(case: Case) -> None:
    scores = np.array(case["scores"], dtype=np.int64)
    normalized = default_normalize_score(scores, reverse=case["reverse"])
    assert normalized.tolist() == case["normalized"]


@pytest.mark.parametrize("case", cases("plugin_helper", "taint_effects"))
def test_effects_that_keep_pods_off(case: Case) -> None:
    assert (case["effect"] in HARD_EFFECTS) is case["forbids"]


@pytest.mark.parametrize("case", cases("plugin_helper", "default_selector"))
def test_the_default_selector_of_a_pod(case: Case) -> None:
    selector = default_selector(incoming(case), plugin_of(PodTopologySpread, case).handle)
    assert selector.is_empty == (not case["selects"])
    wanted = {requirement.key: requirement.values for requirement in selector.requirements}
    assert wanted == {key: (value,) for key, value in case["selects"].items()}
