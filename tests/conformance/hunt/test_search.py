"""The verdict on each world, what a search makes of it, and lanes that do not go on."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from conformance.hunt import search
from conformance.hunt.lane import Seen, lane
from conformance.hunt.search import LIVES, PLACES, WAKES, Explored, Task, explore
from conformance.hunt.vocabulary import PAUSE, SETTLE, create, node, obj, pod
from conformance.hunt.world import Pair, World, raw_case
from conformance.invariants import Violation
from conformance.targets import target_kind
from conformance.targets.quiet import run_quietly
from conformance.targets.target import TargetOptions
from tests.conformance import schedulers
from tests.conformance.cases import in_process

PAIR: Final = Pair("taint", "taint goes")
TAINTED: Final = node("a", taints=["team=db:NoSchedule"])
UNTAINTED: Final[dict[str, Any]] = {"patch": {"node": "a", "patch": {"spec": {"taints": []}}}}
TEAM: Final = obj("v1", "Namespace", "team")
CLAIM: Final = obj(
    "v1",
    "PersistentVolumeClaim",
    "data",
    namespace="default",
    spec={
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
    },
)
WITH_DATA: Final[dict[str, Any]] = {
    "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
}


def world(*cluster: Any, remedy: Any = UNTAINTED, waiter: Any = None, **more: Any) -> World:
    """Return a world with a waiter that a taint keeps off the only node."""
    fields = waiter or {}
    steps = [
        create(pod("waiter", **fields)),
        SETTLE,
        remedy,
        PAUSE,
        SETTLE,
    ]
    return World(pair=PAIR, raw=raw_case([TAINTED, *cluster], steps), **more)


def test_each_world_has_a_verdict_and_leaves_an_empty_cluster() -> None:
    of_team = world(TEAM, waiter={"namespace": "team"}, namespace="team", message="untolerated")
    worlds = [
        of_team,
        world(message="Insufficient cpu"),
        world(remedy={"delete": {"pod": "missing"}}),
        world(remedy={"patch": {"node": "a", "patch": {"spec": {"unschedulable": True}}}}),
        world(CLAIM, waiter=WITH_DATA),
        of_team,
    ]

    async def run() -> list[Seen]:
        kind = target_kind(TargetOptions())
        async with lane(kind, gates={}, configures=False, seed=1) as running:
            return [await running.run(each) for each in worlds]

    seen = run_quietly(run())
    assert [each.verdict for each in seen] == [
        "woken",
        "no reason",
        "refused",
        "no remedy",
        "no remedy",
        "woken",
    ]
    assert "untolerated taint" in seen[1].text
    assert "DELETE /api/v1/namespaces/default/pods/missing" in seen[2].text
    assert "the copy is not bound: 0/1 nodes are available" in seen[3].text
    assert "unbound immediate PersistentVolumeClaims" in seen[4].text


def violation(invariant: str) -> Violation:
    return Violation(
        text="broken", step="", expect={"pod": "p", "gated": True}, invariant=invariant
    )


@pytest.mark.parametrize(
    ("seen", "note", "promises"),
    [
        (Seen(verdict="woken"), None, []),
        (Seen(verdict="no reason", text="0/1 nodes"), "no reason: 0/1 nodes", []),
        (Seen(verdict="refused", text="DELETE"), "refused: DELETE", []),
        (Seen(verdict="lost", text="waits"), None, [WAKES]),
        (Seen(verdict="unplaced", text="waits"), None, [PLACES]),
        (
            Seen(verdict="woken", violations=(violation("no_pod_starved"),)),
            None,
            ["no_pod_starved"],
        ),
        # The lost wake-up is the reason why the pod waits.
        (
            Seen(
                verdict="lost",
                violations=(violation("no_pod_starved"), violation("no_overcommit")),
            ),
            None,
            [WAKES, "no_overcommit"],
        ),
    ],
)
def test_a_verdict_is_counted_noted_and_found(
    seen: Seen, note: str | None, promises: list[str]
) -> None:
    result = Explored()
    result.add(world(), "1/2/0", seen)
    result.add(world(), "1/3/0", Seen(verdict="woken"))
    expected = {"woken": 2} if seen.verdict == "woken" else {seen.verdict: 1, "woken": 1}
    assert result.counts == {str(PAIR): expected}
    assert result.notes == ({str(PAIR): note} if note else {})
    assert [each.promise for each in result.finds] == promises
    for each in result.finds:
        assert bool(each.expect) == (each.promise not in (WAKES, PLACES))


def explored(target: Callable[..., object], *, worlds: int) -> Explored:
    task = Task(target=in_process(target), seed=1, start=0, stop=worlds, table=0, seconds=60.0)
    return msgspec.json.decode(explore(msgspec.json.encode(task)), type=Explored)


def test_a_scheduler_that_does_not_start_ends_the_task() -> None:
    (error,) = explored(schedulers.does_not_start, worlds=3).errors
    assert error.startswith("a lane did not start or end: did not start: profiles[0]")


def test_a_scheduler_that_dies_is_a_find_and_another_runs_the_next_world(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = [create(pod("poison")), SETTLE]
    poisoned = World(pair=PAIR, raw=raw_case([TAINTED], steps), members=())
    monkeypatch.setattr(search, "world_number", lambda *_, **__: poisoned)
    finds = explored(schedulers.binds_all_to_a, worlds=2).finds
    assert [(find.promise, find.seed) for find in finds] == [(LIVES, "1/0/0"), (LIVES, "1/1/0")]
    assert finds[0].world.raw == poisoned.raw
    assert "choked on poison" in finds[0].text


def test_a_world_that_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_WORLD_SECONDS_MAX", 0.0)
    found = explored(schedulers.binds_nothing, worlds=1)
    (error,) = found.errors
    assert error.endswith(" (1/0/0): took too long")


def test_an_old_lane_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_LANE_WORLDS_MAX", 1)
    found = explored(schedulers.binds_nothing, worlds=2)
    assert found.errors == []
    assert sum(sum(counts.values()) for counts in found.counts.values()) == 2
