"""The protocol of a worker process: a line for the options, then a line for each case."""

import gc
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from conformance.api import Json
from conformance.outcome import ALL_ASPECTS, Outcome, Verdict
from conformance.run.worker import Order, Setup, answered
from conformance.targets.target import TargetOptions

from .. import schedulers
from ..cases import BOUND, in_process, write_cases


@pytest.fixture(autouse=True)
def _garbage_collection() -> Iterator[None]:
    """Undo what a worker sets for its process."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def _answers(options: TargetOptions, folder: Path, *orders: Order) -> list[Outcome | Json]:
    setup = Setup(options=options, timeout_seconds=20.0, aspects=ALL_ASPECTS, folder=str(folder))
    return [*answered(iter([msgspec.json.encode(line) for line in (setup, *orders)]))]


def test_each_case_is_answered_by_its_outcome(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, BOUND)
    wrong = {**case.raw, "name": "wrong", "steps": [{"expect": {"pod": "p", "not_bound": True}}]}
    log = tmp_path / "log.jsonl"
    orders = [
        Order(area="tiny", origin="here", line=1, case=raw, seed=0, log_path=path)
        for raw, path in ((case.raw, str(log)), (wrong, ""))
    ]
    ready, *outcomes = _answers(in_process(schedulers.binds_all_to_a), tmp_path, *orders)
    assert ready == {"error": None}
    assert [(each.id, each.verdict) for each in outcomes if isinstance(each, Outcome)] == [
        ("tiny/bound", Verdict.PASSED),
        ("tiny/wrong", Verdict.FAILED),
    ]
    assert log.stat().st_size > 0


def test_options_of_no_target_are_answered_by_an_error(tmp_path: Path) -> None:
    assert _answers(TargetOptions(in_process="nonsense"), tmp_path) == [
        {"error": "--in-process: expected MODULE:FUNCTION or kubesched@VERSION, got 'nonsense'"}
    ]
