"""A find that is run anew: what counts as confirmed, and which case is written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from conformance.api import Json
from conformance.format.case import load_cases
from conformance.hunt import confirm as module
from conformance.hunt.confirm import Finding, Order, confirm, shows
from conformance.hunt.placements import GROUP
from conformance.hunt.search import LIVES, PLACES, WAKES, Find
from conformance.hunt.vocabulary import create, node, pod
from conformance.hunt.world import Pair, World, raw_case
from conformance.targets.target import TargetOptions
from tests.conformance import schedulers
from tests.conformance.cases import in_process

SETTLE: Final[dict[str, Any]] = {"wait_until_settled": None}
OURS: Final = TargetOptions()
PAIR: Final = Pair("bad", "gone")
OTHER: Final = in_process(schedulers.binds_all_to_a)


def find_of(
    promise: str, *steps: Json, pair: Pair = PAIR, expect: Json | None = None, **more: Any
) -> Find:
    """Return a find on a node `a` without room and a node `b`."""
    raw = raw_case([node("a", cpu=1), node("b")], [*steps] or [create(pod("m0")), SETTLE])
    world = World(pair=pair, raw=raw, **more)
    return Find(promise=promise, text="It waits.", seed="1", world=world, expect=expect or {})


def confirmed(find: Find, target: TargetOptions, path: Path) -> Finding:
    order = Order(find=find, target=target, path=str(path))
    return msgspec.json.decode(confirm(msgspec.json.encode(order)), type=Finding)


@pytest.fixture
def few_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ATTEMPTS", {False: 4, True: 4})


def scripted(monkeypatch: pytest.MonkeyPatch, *is_shown: bool) -> list[tuple[bool, TargetOptions]]:
    """Let runs show a find or not, in this order; return the runs: calm or not, and the target."""
    runs: list[tuple[bool, TargetOptions]] = []
    answers = iter(is_shown)

    def shows(raw: Json, find: Find, target: TargetOptions, *, times: int) -> bool:
        del find, times
        runs.append((SETTLE in raw["steps"][:2], target))  # type: ignore[index]
        return next(answers)

    def smaller(raw: Json, find: Find, target: TargetOptions, *, seconds: float) -> Json:
        del find, target, seconds
        return raw

    monkeypatch.setattr(module, "shows", shows)
    monkeypatch.setattr(module, "_smaller", smaller)
    return runs


LOST: Final[tuple[Json, ...]] = (create(pod("waiter")), {"delete": {"pod": "other"}}, SETTLE)


@pytest.mark.parametrize(
    ("answers", "kind", "is_calm"),
    [
        # On the target, in ours, and the smaller case of ours on the target.
        ((True, True, True), "confirmed", [False, False, False]),
        # The smaller case not, in none of its forms: the whole case is made smaller there.
        ((True, True, False, False), "confirmed", [False, False, False, False]),
        ((True, False, False), "confirmed", [False, False, False]),
        # Only with the objects of the case created while the scheduler runs.
        ((False, True, False, False), "confirmed", [False, False, False, False]),
        ((False, False, True), "only ours", [False, False, False]),
        ((False, False, False, False), "chance", [False, False, False, False]),
    ],
)
def test_a_find_on_another_scheduler_is_looked_for_in_ours_too(
    answers: tuple[bool, ...],
    kind: str,
    is_calm: list[bool],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = scripted(monkeypatch, *answers)
    finding = confirmed(find_of(WAKES, *LOST), OTHER, tmp_path / "c.yaml")
    assert (finding.kind, finding.confirmed) == (kind, kind == "confirmed")
    assert (finding.case != "") == (kind != "chance")
    assert [calm for calm, _ in runs] == is_calm


@pytest.mark.parametrize(
    ("pair", "place", "kind", "expect"),
    [
        (PAIR, "a", "confirmed", {"node": "a", "pod_count": 1}),
        (GROUP, "a", "incomplete", {"node": "a", "pod_count": 1}),
        (PAIR, "", "chance", None),
    ],
)
def test_a_placement_that_is_not_found_is_confirmed(
    pair: Pair, place: str, kind: str, expect: Json | None, tmp_path: Path
) -> None:
    """The pod is on `b`: the only node with room."""
    find = find_of(
        PLACES, create(pod("m0", cpu=2)), SETTLE, pair=pair, members=("m0",), place=place
    )
    path = tmp_path / "c.yaml"
    assert confirmed(find, OURS, path).kind == kind
    cases = load_cases([path]) if path.exists() else []
    assert [case.raw["steps"][-1] for case in cases] == ([{"expect": expect}] if expect else [])  # type: ignore[index]


def test_members_without_a_node_are_expected_to_have_one(tmp_path: Path) -> None:
    find = find_of(PLACES, create(pod("m0", cpu=9)), SETTLE, members=("m0",))
    assert confirmed(find, OURS, tmp_path / "c.yaml").kind == "confirmed"
    (case,) = load_cases([tmp_path])
    assert case.raw["steps"][-1] == {"expect": {"pods": ["m0"], "bound_count": 1}}  # type: ignore[index]


@pytest.mark.usefixtures("few_attempts")
def test_a_broken_invariant_is_confirmed_where_it_is_broken(tmp_path: Path) -> None:
    expect: Json = {"pod": "m0", "bound_to_one_of": ["b"]}
    steps: tuple[Json, ...] = (create(pod("m0", cpu=2)), {"advance": "3s"}, SETTLE)
    find = find_of("no_overcommit", *steps, expect=expect)
    path = tmp_path / "c.yaml"
    finding = confirmed(find, OTHER, path)
    assert (finding.kind, finding.case) == ("confirmed", str(path))
    (case,) = load_cases([path])
    assert case.source == "pkg/scheduler/framework/plugins/noderesources fitsRequest"
    assert case.raw["steps"][-1] == {"expect": expect}  # type: ignore[index]
    assert {"advance": "12s"} in case.raw["steps"]  # type: ignore[operator]
    assert confirmed(find, OURS, path).kind == "chance"


_NO_NODE: Json = {"delete": {"node": "missing"}}
_NO_DURATION: Json = {"advance": "soon"}


@pytest.mark.parametrize(
    ("promise", "target", "steps", "is_broken"),
    [
        (LIVES, schedulers.in_disorder, [create(pod("p")), SETTLE], True),
        (LIVES, schedulers.binds_all_to_a, [create(pod("p")), SETTLE], False),
        # The server ends the run, not the scheduler.
        (LIVES, schedulers.binds_all_to_a, [_NO_NODE], False),
        # No case at all.
        (LIVES, schedulers.in_disorder, [_NO_DURATION], False),
        ("no_overcommit", schedulers.in_disorder, [create(pod("p")), SETTLE], False),
        # Without its waiter no wake-up is lost.
        (WAKES, schedulers.binds_all_to_a, [create(pod("waiter")), SETTLE], False),
        (WAKES, schedulers.binds_all_to_a, [create(pod("copy")), SETTLE], False),
        (PLACES, schedulers.binds_all_to_a, [create(pod("m0")), SETTLE], False),
    ],
)
def test_a_run_breaks_a_promise_or_not(
    promise: str, target: Callable[..., object], steps: list[Json], is_broken: bool
) -> None:
    find = find_of(promise, *steps, members=("m0",) if promise == PLACES else None)
    assert shows(find.world.raw, find, in_process(target), times=1) is is_broken
