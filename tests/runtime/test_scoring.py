"""PreScore, Score, Normalize and weights: upstream's `TestRunScorePlugins` and kin."""

import numpy as np
import pytest

from scheduler.framework import CycleState, Nodes, Plugin, PodInfo, Status, skip, unschedulable
from scheduler.framework.status import Code
from scheduler.runtime import PluginFailedError
from scheduler.testing import make_node, make_pod, snapshot_of
from tests.runtime.profiles import answering, framework_of, plugin

NODES = snapshot_of([make_node(f"n{n}") for n in range(3)]).nodes
POD = PodInfo(make_pod())


def _scores(*classes: type[Plugin], nodes: Nodes = NODES) -> tuple[dict[str, list[int]], list[int]]:
    result = framework_of(*classes).scores.run(CycleState(), POD, nodes)
    by_plugin = {name: scores.tolist() for name, scores in result.by_plugin.items()}
    return by_plugin, result.total.tolist()


A = answering("A", score_nodes=np.array([1, 2, 3]))
B = answering("B", score=10)


def test_a_plugin_normalizes_its_own_scores_before_they_are_judged() -> None:
    normalizing = plugin(
        "P",
        score=lambda self, state, pod, node: -1000 * int(node.name[1:]),
        normalize_score=lambda self, state, pod, scores: scores // -100,
    )
    assert _scores(normalizing) == ({"P": [0, 10, 20]}, [0, 10, 20])


def test_a_plugin_that_skips_in_prescore_does_not_score() -> None:
    skipping = answering("P", pre_score=skip(), score=ValueError("asked"))
    framework = framework_of(skipping, B)
    state = CycleState()
    result = framework.scores.run(state, POD, NODES)
    assert list(result.by_plugin) == ["B"]
    assert state.skip_score_plugins == {"P"}


def test_all_prescore_plugins_run_before_any_score() -> None:
    asked: list[str] = []

    def noting(name: str) -> type[Plugin]:
        def pre_score(self: Plugin, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
            asked.append(f"{name} of {len(nodes)}")

        def score_nodes(self: Plugin, state: CycleState, pod: PodInfo, nodes: Nodes) -> np.ndarray:
            asked.append(name)
            return np.zeros(len(nodes), dtype=np.int64)

        return plugin(name, pre_score=pre_score, score_nodes=score_nodes)

    _scores(noting("A"), noting("B"))
    assert asked == ["A of 3", "B of 3", "A", "B"]


@pytest.mark.parametrize("score", [0, 100])
def test_the_limits_of_a_score_belong_to_it(score: int) -> None:
    assert _scores(answering("P", score=score))[1] == [score] * 3


PRE_SCORE = 'running PreScore plugin "P": '
SCORING = 'running Score plugins: plugin "P" failed with: '
NORMALIZE = 'running Normalize on Score plugins: plugin "P" failed with: '
WEIGHTS = 'applying score defaultWeights on Score plugins: plugin "P" returns an invalid score '
RANGE = ", it should in the range of [0, 100] after normalizing"


@pytest.mark.parametrize(
    ("methods", "text"),
    [
        ({"pre_score": ValueError("broken")}, f"{PRE_SCORE}broken"),
        ({"pre_score": Status(Code.ERROR, "broken")}, f"{PRE_SCORE}broken"),
        ({"pre_score": unschedulable("no")}, f"{PRE_SCORE}no"),
        ({"pre_score": 5}, f"{PRE_SCORE}expected a Status or None, got 5"),
        ({"score": ValueError("broken")}, f"{SCORING}broken"),
        ({"score": 1.5}, f"{SCORING}expected integers, got float64"),
        ({"score": None}, f"{SCORING}score returned None for node n0: expected an int"),
        ({"score": 2**70}, f"{SCORING}expected integers, got object"),
        ({"score_nodes": None}, f"{SCORING}expected 3 scores, got an array of shape ()"),
        ({"score_nodes": [1, 2]}, f"{SCORING}expected 3 scores, got an array of shape (2,)"),
        ({"score_nodes": np.array([0.5, 1, 2])}, f"{SCORING}expected integers, got float64"),
        ({"score": 1, "normalize_score": ValueError("broken")}, f"{NORMALIZE}broken"),
        (
            {"score": 1, "normalize_score": [1]},
            f"{NORMALIZE}expected 3 scores, got an array of shape (1,)",
        ),
        (
            {"score": 1, "normalize_score": None},
            f"{NORMALIZE}expected 3 scores, got an array of shape ()",
        ),
        ({"score": -1}, f"{WEIGHTS}-1{RANGE}"),
        ({"score": 101}, f"{WEIGHTS}101{RANGE}"),
        ({"score_nodes": [0, 200, -5]}, f"{WEIGHTS}-5{RANGE}"),
        ({"score": 50, "normalize_score": [0, 1, 101]}, f"{WEIGHTS}101{RANGE}"),
    ],
)
def test_a_plugin_that_fails_to_score_ends_the_cycle(methods: dict[str, object], text: str) -> None:
    methods = {"score": 0} | methods if "score_nodes" not in methods else methods
    with pytest.raises(PluginFailedError) as failure:
        _scores(answering("P", **methods))
    assert str(failure.value) == text


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_])
def test_other_integers_will_do(dtype: type) -> None:
    assert _scores(answering("P", score_nodes=np.array([0, 1, 1], dtype=dtype)))[1] == [0, 1, 1]


def test_no_nodes_have_no_scores() -> None:
    nobody = answering("Nobody", score_nodes=np.zeros(0, dtype=np.int64))
    assert _scores(B, nobody, nodes=NODES.slice(0, 0)) == ({"B": [], "Nobody": []}, [])


def test_scores_are_false_in_a_profile_without_score_plugins() -> None:
    assert not framework_of().scores
    assert framework_of(A).scores
