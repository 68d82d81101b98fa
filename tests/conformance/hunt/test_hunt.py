"""The hunt: its table of pairs, the judge of a world, confirmation and the command."""

import random
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from click.testing import CliRunner

from conformance.errors import TargetError
from conformance.format.case import case_of, load_cases
from conformance.format.validation import problem_in
from conformance.hunt import cli
from conformance.hunt.confirm import Finding, Order, confirm
from conformance.hunt.lane import Seen, lane
from conformance.hunt.placements import GROUP, placement_worlds
from conformance.hunt.search import LIVES, WAKES, Explored, Find, Task, explore
from conformance.hunt.table import PLUGINS, REASONS, Reason
from conformance.hunt.vocabulary import DEVICES, claim, create, node, obj, pod, uses
from conformance.hunt.world import Pair, World, pairs, raw_case, world_of
from conformance.lint.checks import findings_in_cases
from conformance.targets import target_kind
from conformance.targets.quiet import run_quietly
from conformance.targets.target import TargetOptions

HOST: Final = "kubernetes.io/hostname"
SETTLE: Final[dict[str, Any]] = {"wait_until_settled": None}


def away_from(*apps: str) -> dict[str, Any]:
    terms = [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}} for app in apps]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def world(*apps: str) -> World:
    """Return a world in which a waiter keeps away from apps, and a pod of `db` goes."""
    steps = [
        create(pod("waiter", affinity=away_from(*apps))),
        SETTLE,
        {"delete": {"pod": "db"}},
        {"advance": "3s"},
        SETTLE,
    ]
    cluster = [node("a"), node("b", unschedulable=True), pod("db", node="a", labels={"app": "db"})]
    return World(
        pair=Pair("bad", "gone"), raw=raw_case(cluster, steps), message="anti-affinity rules"
    )


def test_each_pair_makes_a_valid_case() -> None:
    for pair in pairs():
        case_of(world_of(pair, random.Random(str(pair))).raw, area="hunt", origin="a test")


def test_a_world_of_each_reason_fits_the_format() -> None:
    for name, reason in REASONS.items():
        raw = world_of(Pair(name, reason.remedy_names[-1]), random.Random(name)).raw
        assert problem_in({"area": "hunt", "cases": [raw]}) is None


def test_each_default_plugin_that_rejects_has_a_reason() -> None:
    filters = "NodeUnschedulable TaintToleration NodeAffinity NodePorts NodeResourcesFit"
    volumes = "VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone"
    others = "SchedulingGates PodTopologySpread InterPodAffinity DynamicResources GangScheduling"
    assert {*filters.split(), *volumes.split(), *others.split(), "DefaultPreemption"} <= PLUGINS


def test_drawn_values_are_put_in_place() -> None:
    reason = msgspec.convert(
        {
            "about": "Nothing fits.",
            "draw": {
                "key": ["zone"],
                "more": [{"key": "$key", "block": {"pods": 0}}],
                "nodes": [[]],
            },
            "cluster": [{"node": {"name": "a", "with": "$more.block"}}, {"with": "$nodes"}],
            "waiter": {"labels": {"$more.key": "x"}},
            "gone": "team/db",
        },
        Reason,
    )
    sketch = reason.sketch(random.Random(0))
    assert sketch.cluster == [{"node": {"name": "a", "pods": 0}}]
    assert sketch.waiter == {"labels": {"zone": "x"}}
    assert [*sketch.remedies] == reason.remedy_names
    again = {"name": "db", "scheduler_name": "another", "namespace": "team"}
    assert sketch.remedies["pod is replaced under its name"][-1] == {"create": [{"pod": again}]}


def test_a_puzzle_fits_the_format_and_is_placed() -> None:
    async def run() -> list[Seen]:
        kind = target_kind(TargetOptions())
        async with lane(kind, gates={}, configures=False, seed=1) as running:
            draws = [draw for pair, draw in placement_worlds().items() if pair.reason != "group"]
            return [await running.run(draw(random.Random(1))) for draw in draws]

    for draw in placement_worlds().values():
        assert problem_in({"area": "hunt", "cases": [draw(random.Random(3)).raw]}) is None
    assert {seen.verdict for seen in run_quietly(run())} == {"woken"}


def test_a_reason_has_the_same_remedies_for_all_draws() -> None:
    for reason in REASONS.values():
        drawn = [[*reason.sketch(random.Random(seed)).remedies] for seed in range(8)]
        assert drawn == [reason.remedy_names] * 8


def test_a_lane_runs_world_after_world_and_finds_the_lost_wake_up() -> None:
    async def run() -> list[Seen]:
        kind = target_kind(TargetOptions())
        async with lane(kind, gates={}, configures=False, seed=1) as running:
            return [await running.run(each) for each in (world("db"), world("db", "web"))]

    kept, lost = run_quietly(run())
    assert (kept.verdict, kept.violations) == ("woken", ())
    assert lost.verdict == "lost"
    assert "its copy is bound" in lost.text


def test_a_find_is_confirmed_shrunk_and_written_as_a_case_without_mistakes(tmp_path: Path) -> None:
    some = world("db", "web")
    find = Find(promise=WAKES, text="It waits.", seed="1", world=some)
    path = tmp_path / "lost.yaml"
    order = Order(find=find, target=TargetOptions(), path=str(path))
    finding = msgspec.json.decode(confirm(msgspec.json.encode(order)), type=Finding)
    assert (finding.kind, finding.confirmed, finding.objects) == ("confirmed", True, 3)
    cases = load_cases([path])
    assert [*findings_in_cases(cases)] == []
    assert {"delete": {"pod": "db"}} in cases[0].raw["steps"]  # type: ignore[operator]
    report = path.with_suffix(".md").read_text(encoding="utf-8")
    assert "1. `kubectl delete pod db`\n1. Wait for 12s.\n" in report
    assert report.endswith("Expected: pod waiter is bound.\n\nSeen: It waits.\n")


def test_a_find_that_does_not_happen_again_is_chance(tmp_path: Path) -> None:
    some = world("db")
    find = Find(promise=WAKES, text="It waits.", seed="1", world=some)
    order = Order(find=find, target=TargetOptions(), path=str(tmp_path / "lost.yaml"))
    finding = msgspec.json.decode(confirm(msgspec.json.encode(order)), type=Finding)
    assert (finding.kind, finding.confirmed, finding.case) == ("chance", False, "")


def test_a_group_is_placed_where_a_placement_exists() -> None:
    draw = placement_worlds()[GROUP]

    async def run(worlds: list[World]) -> list[Seen]:
        kind = target_kind(TargetOptions())
        async with lane(kind, gates=worlds[0].gates, configures=False, seed=1) as running:
            return [await running.run(each) for each in worlds]

    seen = run_quietly(run([draw(random.Random(seed)) for seed in range(6)]))
    assert {each.verdict for each in seen} <= {"woken", "unplaced"}
    assert all(each.text.startswith("a placement exists") for each in seen if each.text)
    assert "woken" in {each.verdict for each in seen}


def devices_of(driver: str, units: str) -> list[dict[str, Any]]:
    """Return a device that takes all units of the only counter of its pool, and a claim for it."""
    where = {
        "driver": driver,
        "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 2},
    }
    taken = {"units": {"value": units}}
    device = {"name": "d", "consumesCounters": [{"counterSet": "g", "counters": taken}]}
    selectors = [{"cel": {"expression": f"device.driver == '{driver}'"}}]
    request = {"name": "r", "exactly": {"deviceClassName": "any", "selectors": selectors}}
    api = "resource.k8s.io/v1"
    return [
        obj(api, "ResourceSlice", f"{driver}-d", spec={**where, "devices": [device]}),
        obj(
            api,
            "ResourceSlice",
            f"{driver}-g",
            spec={**where, "sharedCounters": [{"name": "g", "counters": taken}]},
        ),
        claim(driver, request),
    ]


@pytest.mark.parametrize(
    ("version", "broken"), [("1.36", ["no_pod_starved"]), ("1.37", [])], ids=["1.36", "1.37"]
)
def test_a_pod_that_gets_no_devices_although_a_choice_exists_is_found(
    version: str, broken: list[str]
) -> None:
    """1.36 takes the counters of one driver's pool for those of another's (kubernetes#140435)."""
    drivers = ["gpu.example.com", "nic.example.com"]
    cluster = [node("a"), obj("resource.k8s.io/v1", "DeviceClass", "any", spec={})]
    cluster += [*devices_of(drivers[0], "2"), *devices_of(drivers[1], "4")]
    steps = [create(pod("m", **uses(*drivers))), SETTLE, {"advance": "3s"}, SETTLE]
    some = World(pair=Pair("devices", "x"), raw=raw_case(cluster, steps), members=())

    assert broken_in(some, version) == broken


def broken_in(some: World, version: str) -> list[str]:
    """Run a world in our scheduler as a version; return the promises that it breaks."""

    async def run() -> Seen:
        kind = target_kind(TargetOptions(in_process=f"kubesched@{version}"))
        async with lane(kind, gates={}, configures=False, seed=1) as running:
            return await running.run(some)

    return [each.invariant for each in run_quietly(run()).violations]


@pytest.mark.parametrize(("version", "broken"), [("1.36", ["claims_held"]), ("1.37", [])])
def test_devices_that_break_a_constraint_of_their_claim_are_found(
    version: str, broken: list[str]
) -> None:
    """1.36 compares with the last device of a request only (kubernetes#140438)."""
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    sizes = [{"name": f"d-{n}", "attributes": {"size": {"int": n % 2}}} for n in range(3)]
    spec = {"driver": "gpu.example.com", "nodeName": "a", "pool": pool, "devices": sizes}
    rules = [{"distinctAttribute": "gpu.example.com/size"}]
    wanted = {"name": "r", "exactly": {"deviceClassName": "any", "count": 3}}
    cluster = [
        node("a"),
        obj(DEVICES, "DeviceClass", "any", spec={}),
        obj(DEVICES, "ResourceSlice", "s", spec=spec),
        claim("three", wanted, constraints=rules),
    ]
    steps = [create(pod("m", **uses("three"))), SETTLE]
    some = World(pair=Pair("devices", "x"), raw=raw_case(cluster, steps), members=())
    assert broken_in(some, version) == broken


def test_worlds_whose_gates_a_scheduler_does_not_know_are_noted() -> None:
    task = Task(
        target=TargetOptions(in_process="kubesched@1.37"),
        seed=1,
        start=0,
        stop=2,
        table=2,
        seconds=60.0,
    )
    explored = msgspec.json.decode(explore(msgspec.json.encode(task)), type=Explored)
    assert explored.errors == []
    note = "the scheduler does not know GangScheduling, GenericWorkload"
    assert explored.notes[str(GROUP)] == note


def test_the_end_of_a_scheduler_is_a_find_with_the_line_of_its_log_that_has_the_cause() -> None:
    result = Explored()
    log = ("I1127 started", "panic: assignment to entry in nil map", "goroutine 7 [running]:")
    result.died(world("db"), "1/2/0", TargetError("died: exit status 2", log))
    (find,) = result.finds
    assert find.promise == LIVES
    assert find.text == "died: exit status 2: panic: assignment to entry in nil map"


def test_the_command_writes_findings_and_the_coverage_of_each_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "_WORLDS", 2)
    options = ["--budget", "1", "--workers", "0", "-o", str(tmp_path)]
    result = CliRunner().invoke(cli.hunt, options)
    assert result.exit_code in (0, 1), result.output
    assert f" of {len(pairs()) + len(placement_worlds())} pairs" in result.output
    coverage = msgspec.json.decode((tmp_path / "coverage.json").read_bytes())
    assert set(coverage["pairs"]) == {str(pair) for pair in [*pairs(), *placement_worlds()]}
    assert isinstance(msgspec.json.decode((tmp_path / "findings.json").read_bytes()), list)


def test_the_command_lists_the_pairs() -> None:
    result = CliRunner().invoke(cli.hunt, ["--list"])
    *lines, left_out = result.output.splitlines()
    assert lines == [str(pair) for pair in [*pairs(), *placement_worlds()]]
    assert left_out.startswith("left out: reasons of Permit")


def test_a_version_of_ours_is_a_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_WORLDS", 1)
    options = ["--target", "kubesched@1.35", "--budget", "1", "--workers", "0", "-o", str(tmp_path)]
    result = CliRunner().invoke(cli.hunt, options)
    assert result.exit_code in (0, 1), result.output
    both = CliRunner().invoke(cli.hunt, [*options, "--target-command", "true {config}"])
    assert both.exit_code == 2
    assert "--target-command: not together with --target or --in-process" in both.output
